"""The shapes of a swim-lane: its axis by version or by time, its bars and their labels.

Positions across are in per cent, down in px. A label stands above its bar, beside its end, or not
at all, and labels never overlap. The chart is shown at any width, so room is computed for its
narrowest width; a label that only fits on a wide screen is shown only there.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.utils import timezone

from lakeui.conflicts.lanes.swim_lane import SwimLane

_SHORT = len("00:00")

_CHARACTER = 6.1  # px, at 11 px of the widest of the usual fonts
_GAP, _BESIDE = 6.0, 11.0
_ON_WIDE = 1_300

_GUESSED = 0.6  # dashed share of a bar with an estimated start


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
        """Whether a version is labeled: every change of the metadata is, the last one unless now is beside it."""
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


@dataclass(frozen=True, slots=True)
class BarLabel:
    """`place`: above (from the start), before (up to the end, above it) or beside the end.

    `is_spare`: there is room for it on a wide screen only.
    """

    text: str
    x: float
    place: str
    is_spare: bool


@dataclass(frozen=True, slots=True)
class DrawnBar:
    """`shape`: solid, blind, lost or running. `key` names it in the address and in the table."""

    key: str
    family: str
    shape: str
    x: float
    width: float
    y: int
    begins_before: bool
    is_estimated: bool
    text: str
    title: str
    end_x: float
    label: BarLabel | None = None

    @property
    def sure_x(self) -> float:
        """The start of the part that is drawn as certain."""
        return self.x + (self.width * _GUESSED if self.is_estimated else 0)

    @property
    def sure_width(self) -> float:
        return max(self.end_x - self.sure_x, 0.0) if self.is_estimated else self.width

    @property
    def guess_width(self) -> float:
        return self.width * _GUESSED


@dataclass(frozen=True, slots=True)
class DrawnLane:
    """A lane; `under` is the engine, or the number of writers; `asks` the query for it alone."""

    name: str
    family: str
    tracks: int
    y: int
    hidden: int
    under: str = ""
    asks: str = ""


@dataclass(frozen=True, slots=True)
class AbortLink:
    """A line between two bars, vertical by version; by time it ends at the winning commit's end."""

    x: float
    to_x: float
    y1: int
    y2: int
    arrow_y: int
    points_down: bool


@dataclass(frozen=True, slots=True)
class OrderSwap:
    x1: float
    x2: float
    title: str


@dataclass(frozen=True, slots=True)
class MetadataBand:
    """A version that changed the metadata: every write open at that time was aborted."""

    x: float
    version: int


@dataclass(frozen=True, slots=True)
class SwimChart:
    lanes: tuple[DrawnLane, ...]
    bars: tuple[DrawnBar, ...]
    joints: tuple[tuple[float, int, str], ...]
    aborted_links: tuple[AbortLink, ...]
    joint_links: tuple[AbortLink, ...]
    columns: tuple[AxisColumn, ...]
    bands: tuple[MetadataBand, ...]
    times: tuple[AxisColumn, ...]
    swaps: tuple[OrderSwap, ...]
    now_x: float | None
    band_width: float
    height: int
    bottom: int
    hidden: int
    min_width_class: str

    @property
    def band_left(self) -> float:
        """The offset of a band, half of which lies before its line."""
        return -self.band_width / 2


def labels_for(bars: Sequence[tuple[float, float, str]], width: int) -> list[BarLabel | None]:
    """Place labels for one track's bars (start, end, text), left to right, at a width in px."""
    labels: list[BarLabel | None] = []
    taken = 0.0  # up to where the track's room is used
    for place, (start, end, text) in enumerate(bars):
        until = bars[place + 1][0] if place + 1 < len(bars) else 100.0
        label = _fit_label(start, end, text, (taken, until), width) if text else None
        labels.append(label)
        taken = max(end, _end_of(label, width)) if label else end
    return labels


def _fit_label(
    start: float, end: float, text: str, room: tuple[float, float], width: int
) -> BarLabel | None:
    for reckoned in (width, max(width, _ON_WIDE)):
        place = _place(start, end, _length(text, reckoned), room, reckoned)
        if place is not None:
            x = start if place == "above" else end
            return BarLabel(text, x, place, is_spare=reckoned > width)
    return None


def _place(
    start: float, end: float, length: float, room: tuple[float, float], width: int
) -> str | None:
    taken, until = room
    gap, beside = _GAP * 100 / width, _BESIDE * 100 / width
    is_free, fits = start >= taken, start + length + gap <= until
    if is_free and fits and length <= end - start:
        return "above"
    if end + beside + length + gap <= until:
        return "beside"
    if is_free and fits:
        return "above"
    return "before" if end - length - 3 * gap >= taken else None


def _end_of(label: BarLabel, width: int) -> float:
    length = _length(label.text, max(width, _ON_WIDE) if label.is_spare else width)
    return label.x + (0 if label.place == "before" else length + _BESIDE * 100 / width)


def _length(text: str, width: int) -> float:
    """Return a label's length, in per cent of the chart."""
    return len(text) * _CHARACTER * 100 / width


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
