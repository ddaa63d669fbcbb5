"""Lanes of thousands of transactions as ink: a cell per bucket of versions, crosses for aborts."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import quote

from django.utils import timezone

from lakeui.conflicts.lanes.sums import OTHERS, LaneSums, SummedLane
from lakeui.pages.lane_window import SPANS
from lakeui.pages.operations import family_of

_TOP, _ROW, _CELL, _INSET = 24, 36, 34, 0.08
_EVERY, _LAST_VERSION, _LAST_TIME = 5, 95, 92
_HEATS = 5


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
