"""Lanes of thousands of transactions as ink, and the strip above a swim-lane.

A cell of a lane is a bucket of versions, with crosses for aborts. The strip shows the surroundings
of the shown versions, a link per bucket.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from urllib.parse import quote

from django.utils import timezone

from lakeui.catalog.units import format_duration
from lakeui.conflicts.lanes.sums import OTHERS, LaneSums, SummedLane
from lakeui.conflicts.lanes.swim_lane import BUCKETS, DAY, Navigator
from lakeui.pages.lane_window import SPANS
from lakeui.pages.operations import family_of

_TOP, _ROW, _CELL, _INSET = 24, 36, 34, 0.08
_EVERY, _LAST_VERSION, _LAST_TIME = 5, 95, 92
_HEATS = 5

_BASE, _HEIGHT, _LEAST = 26, 21, 2.0
_STEP = 100 / BUCKETS

_MS = timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True)
class LaneCell:
    """A cell; `asks` is its lane's query, "" for all lanes."""

    x: float
    y: int
    width: float
    height: int
    heat: int
    text_x: float
    text_y: int
    text: str
    aborted: int
    title: str
    last: int
    asks: str


@dataclass(frozen=True, slots=True)
class LaneName:
    name: str
    family: str
    commits: int
    aborted: int
    asks: str


@dataclass(frozen=True, slots=True)
class LaneMark:
    x: float
    label: str


@dataclass(frozen=True, slots=True)
class LaneChart:
    """A chart; `span` is how many versions a cell opens; `heats` are inks with minimums."""

    names: tuple[LaneName, ...]
    cells: tuple[LaneCell, ...]
    versions: tuple[LaneMark, ...]
    times: tuple[LaneMark, ...]
    heats: tuple[tuple[int, int], ...]
    span: int
    bucket_size: int
    height: int
    bottom: int


def draw_lanes(sums: LaneSums) -> LaneChart:
    """Draw all writers on top, without ink; then a row per lane. Widths are in per cent."""
    highest = max((b.commits for lane in sums.lanes for b in lane.buckets), default=0) or 1
    highest_of_all = max((b.commits for b in sums.all.buckets), default=0) or 1
    cells = [*_cells(0, sums.all, highest_of_all, "")]
    for row, lane in enumerate(sums.lanes, 1):
        cells += _cells(row, lane, highest, "" if lane.name == OTHERS else lane.name)
    buckets = sums.all.buckets
    step = 100 / (len(buckets) or 1)
    marked = [(place * step, bucket) for place, bucket in enumerate(buckets) if place % _EVERY == 0]
    size = buckets[0].last - buckets[0].first + 1 if buckets else 1
    bottom = _TOP + (len(sums.lanes) + 1) * _ROW
    return LaneChart(
        names=tuple(_name(lane) for lane in (sums.all, *sums.lanes)),
        cells=tuple(cells),
        versions=tuple(LaneMark(x, str(bucket.first)) for x, bucket in marked if x < _LAST_VERSION),
        times=tuple(
            LaneMark(x, _clock(bucket.began_at))
            for x, bucket in marked
            if bucket.began_at and x < _LAST_TIME
        ),
        heats=_heats(highest),
        span=next((span for span in SPANS if span >= size), SPANS[-1]),
        bucket_size=size,
        height=bottom + 22,
        bottom=bottom,
    )


def _cells(row: int, lane: SummedLane, highest: int, asks: str) -> Iterator[LaneCell]:
    step, y = 100 / (len(lane.buckets) or 1), _TOP + row * _ROW
    for place, bucket in enumerate(lane.buckets):
        heat = min(_HEATS, 1 + (_HEATS - 1) * bucket.commits // highest) if bucket.commits else 0
        heat = heat if row else min(heat, 1)
        aborted = f", {bucket.aborted} aborted" if bucket.aborted else ""
        yield LaneCell(
            x=place * step + _INSET,
            y=y,
            width=step - 2 * _INSET,
            height=_CELL,
            heat=heat,
            text_x=(place + 0.5) * step,
            text_y=y + (28 if bucket.aborted else 21),
            text=f"{bucket.commits:,}" if bucket.commits else "",
            aborted=bucket.aborted,
            title=f"{lane.name}, v{bucket.first} to v{bucket.last}: {bucket.commits} landed{aborted}",
            last=bucket.last,
            asks=quote(asks),
        )


def _heats(highest: int) -> tuple[tuple[int, int], ...]:
    """Return the possible inks, each with its least number of commits."""
    heats = {min(_HEATS, 1 + (_HEATS - 1) * n // highest): n for n in range(highest, 0, -1)}
    return tuple(sorted(heats.items()))


def _name(lane: SummedLane) -> LaneName:
    asks = "" if lane.name in (OTHERS, "all") else lane.name
    family = family_of(lane.operation) if asks else "other"
    name = "All" if lane.name == "all" else lane.name
    return LaneName(name, family, lane.commits, lane.aborted, asks)


def _clock(moment: datetime) -> str:
    local = timezone.localtime(moment)
    return f"{local.day} {local:%b %H:%M}"


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
        span = f"{_clock_in(passage.start, navigator)} to {_clock_in(until, navigator)}"
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


def _x(moment: datetime, navigator: Navigator) -> float:
    return min(
        max(100 * ((moment - navigator.start) / (navigator.end - navigator.start)), 0.0), 100.0
    )


def _length(navigator: Navigator) -> str:
    length = navigator.end - navigator.start
    return "24 h" if length == DAY else format_duration(length / _MS)


def _clock_in(moment: datetime, navigator: Navigator) -> str:
    local = timezone.localtime(moment)
    if not navigator.is_day:
        return f"{local.day} {local:%b %H:%M}"
    is_short = navigator.width < timedelta(minutes=2)
    return f"{local:%H:%M:%S}" if is_short else f"{local:%H:%M}"
