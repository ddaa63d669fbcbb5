"""The two ways across a swim-lane: by version, and by time. Positions are in per cent."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.utils import timezone

from lakeui.conflicts.lanes.swim_lane import SwimLane

_SHORT = len("00:00")


def clock_texts(moments: Sequence[datetime]) -> list[str]:
    """Format the times of day, with seconds if minutes would repeat, with days if several.

    A text equal to the one before it is left empty.
    """
    local = [timezone.localtime(moment) for moment in moments]
    several = len({moment.date() for moment in local}) > 1
    day = "{0.day} {0:%b} " if several else ""
    texts = [f"{day}{{0:%H:%M}}".format(moment) for moment in local]
    if len(set(texts)) < len(texts):
        texts = [f"{day}{{0:%H:%M:%S}}".format(moment) for moment in local]
    return [
        "" if text == earlier else text for earlier, text in zip(["", *texts], texts, strict=False)
    ]


@dataclass(frozen=True, slots=True)
class AxisColumn:
    x: float
    label: str
    is_spare: bool
    is_metadata: bool
    version: int | None = None


class VersionAxis:
    """A place each version, from the one before the first to the last, and one for now."""

    def __init__(self, data: SwimLane) -> None:
        self._data = data
        self._places = data.last - data.first + 2 + (1 if _runs(data) else 0)
        self.step = 100 / self._places
        self.now_x = self._center_of(self._places - 1) if _runs(data) else None

    def position_of(self, version: int | None, _moment: datetime | None) -> float | None:
        if version is None:
            return None
        return self._center_of(version - self._data.first + 1)

    def columns(self, metadata: frozenset[int]) -> Iterable[AxisColumn]:
        every = next(n for n in (1, 2, 5, 10, 20, 50) if self._places / n <= 30 or n == 50)
        for version in range(max(self._data.first - 1, 0), self._data.last + 1):
            shown = self._is_named(version, every, metadata)
            x = self._center_of(version - self._data.first + 1)
            text = str(version) if shown else ""
            is_spare = every == 1 and version % 2 == 1 and version not in metadata
            yield AxisColumn(x, text, is_spare, version in metadata, version)
        if self.now_x is not None:
            yield AxisColumn(self.now_x, "now", False, False)

    def times(self) -> Iterable[AxisColumn]:
        every = max(1, self._places // 8)
        shown = [
            (version, moment)
            for version in range(self._data.first + 1, self._data.last + 1, every)
            if (moment := self._data.moments.get(version)) is not None
        ]
        texts = clock_texts([moment for _, moment in shown])
        for number, ((version, _), text) in enumerate(zip(shown, texts, strict=True)):
            x = self._center_of(version - self._data.first + 1)
            yield AxisColumn(x, text, number % 2 == 1 and len(text) > _SHORT, False)

    def _is_named(self, version: int, every: int, metadata: frozenset[int]) -> bool:
        """Whether a version is labelled: every change of the metadata is, the last one unless now is beside it."""
        if every == 1 or version in metadata:
            return True
        if {version - 1, version + 1} & metadata:
            return False
        if version == self._data.last:
            return self.now_x is None
        return version % every == 0 and (self.now_x is not None or self._data.last - version > 1)

    def _center_of(self, place: int) -> float:
        return (place + 0.5) * self.step


class TimeAxis:
    """From the first commit to the last, or to now where something runs."""

    step = 1.6

    def __init__(self, data: SwimLane, now: datetime) -> None:
        moments = (*data.moments.values(), *(bar.finished_at for bar in data.bars))
        ended = [moment for moment in moments if moment is not None]
        self._first = min(ended, default=now)
        self._last = now if _runs(data) else max(ended, default=now)
        self._span = max((self._last - self._first).total_seconds(), 1.0)
        self.now_x = self._x(now) if _runs(data) else None

    def position_of(self, _version: int | None, moment: datetime | None) -> float | None:
        return None if moment is None else self._x(moment)

    def columns(self, _metadata: frozenset[int]) -> Iterable[AxisColumn]:
        parts = [self._first + timedelta(seconds=self._span * part / 8) for part in range(9)]
        for number, (moment, text) in enumerate(zip(parts, clock_texts(parts), strict=True)):
            yield AxisColumn(self._x(moment), text, number % 2 == 1, False)

    def times(self) -> Iterable[AxisColumn]:
        """Yield the day of the first and the last time."""
        for moment in (self._first, self._last):
            yield AxisColumn(self._x(moment), f"{timezone.localtime(moment):%d %b}", False, False)

    def _x(self, moment: datetime) -> float:
        passed = (moment - self._first).total_seconds() / self._span
        return 4 + 92 * min(max(passed, -0.04), 1.0)


def _runs(data: SwimLane) -> bool:
    return data.is_open or bool(data.running)


Axis = VersionAxis | TimeAxis
