"""The strip above a swim-lane: the surroundings of the shown versions, a link per bucket."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.utils import timezone

from lakeui.catalog.units import format_duration
from lakeui.conflicts.lanes.navigator import BUCKETS, DAY, Navigator

_BASE, _HEIGHT, _LEAST = 26, 21, 2.0
_STEP = 100 / BUCKETS


@dataclass(frozen=True, slots=True)
class StripTick:
    """A bucket: `last` is the last version of the linked window."""

    x: float
    y: float
    height: float
    last: int | None
    title: str
    cross_x: float | None


@dataclass(frozen=True, slots=True)
class LaneStrip:
    """A strip; `window_*` is the part shown below, None if that lies outside."""

    ticks: tuple[StripTick, ...]
    tick_width: float
    step: float
    window_x: float | None
    window_width: float
    label: str
    is_capped: bool
    base: int


def draw_strip(
    navigator: Navigator, first_at: datetime | None, last_at: datetime | None
) -> LaneStrip:
    """Draw the strip; `first_at` and `last_at` are the first and last shown versions' times."""
    highest = max((passage.commits for passage in navigator.passages), default=0) or 1
    ticks = []
    for passage in navigator.passages:
        x = _x(passage.start, navigator)
        height = max(_HEIGHT * passage.commits / highest, _LEAST) if passage.commits else 0.0
        until = passage.start + navigator.width
        span = f"{_clock(passage.start, navigator)} to {_clock(until, navigator)}"
        aborted = f", {passage.aborted} aborted" if passage.aborted else ""
        title = f"{span}: {passage.commits} landed{aborted}"
        cross = x + _STEP / 2 if passage.aborted else None
        ticks.append(StripTick(x, _BASE - height, height, passage.last, title, cross))
    left = None if first_at is None else min(_x(first_at, navigator), 100 - _STEP)
    right = 100.0 if last_at is None else _x(last_at, navigator)
    return LaneStrip(
        ticks=tuple(ticks),
        tick_width=_STEP * 0.78,
        step=_STEP,
        window_x=left,
        window_width=max(right - (left or 0.0), _STEP),
        label=_length(navigator),
        is_capped=navigator.is_capped,
        base=_BASE,
    )


_MS = timedelta(milliseconds=1)


def _x(moment: datetime, navigator: Navigator) -> float:
    return min(
        max(100 * ((moment - navigator.start) / (navigator.end - navigator.start)), 0.0), 100.0
    )


def _length(navigator: Navigator) -> str:
    length = navigator.end - navigator.start
    return "24 h" if length == DAY else format_duration(length / _MS)


def _clock(moment: datetime, navigator: Navigator) -> str:
    local = timezone.localtime(moment)
    if not navigator.is_day:
        return f"{local.day} {local:%b %H:%M}"
    is_short = navigator.width < timedelta(minutes=2)
    return f"{local:%H:%M:%S}" if is_short else f"{local:%H:%M}"
