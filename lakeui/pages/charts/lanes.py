"""Lanes of thousands of transactions as ink: a cell a bucket of versions, a cross where some lost."""

from collections.abc import Iterator
from dataclasses import dataclass

from lakeui.conflicts.lane_sums import Lane, LaneSums

_ROW, _INSET = 24, 0.06
_EVERY = 8


@dataclass(frozen=True, slots=True)
class Cell:
    x: float
    y: int
    width: float
    heat: int
    text_x: float
    text_y: int
    text: str
    cross_x: float | None
    title: str
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class LaneChart:
    names: tuple[str, ...]
    cells: tuple[Cell, ...]
    labels: tuple[tuple[float, int], ...]
    height: int
    label_y: int


def draw_lanes(sums: LaneSums) -> LaneChart:
    """A row a lane, as high as a table's row; widths in per cent."""
    highest = max((b.commits for lane in sums.lanes for b in lane.buckets), default=0) or 1
    cells = tuple(
        cell for row, lane in enumerate(sums.lanes) for cell in _cells(row, lane, highest)
    )
    count = len(sums.all.buckets) or 1
    labels = tuple(
        ((place + 0.5) * 100 / count, bucket.first)
        for place, bucket in enumerate(sums.all.buckets)
        if place % _EVERY == 0
    )
    height = len(sums.lanes) * _ROW
    return LaneChart(
        tuple(lane.name for lane in sums.lanes), cells, labels, height + 20, height + 14
    )


def _cells(row: int, lane: Lane, highest: int) -> Iterator[Cell]:
    step = 100 / len(lane.buckets)
    for place, bucket in enumerate(lane.buckets):
        heat = min(5, 1 + 4 * bucket.commits // highest) if bucket.commits else 0
        lost = f", {bucket.lost} lost" if bucket.lost else ""
        yield Cell(
            x=place * step + _INSET,
            y=row * _ROW,
            width=step - 2 * _INSET,
            heat=heat,
            text_x=(place + 0.5) * step,
            text_y=row * _ROW + 15,
            text=str(bucket.commits) if bucket.commits and not bucket.lost else "",
            cross_x=(place + 0.5) * step if bucket.lost else None,
            title=f"{lane.name}, v{bucket.first} to v{bucket.last}: {bucket.commits} landed{lost}",
            first=bucket.first,
            last=bucket.last,
        )
