"""What conflicts cost, a row each pair of operations, a column each hour. Heat is ink, not hue."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.utils import timezone

from lakeui.pages.units import format_duration

HOURS, _ROW = 24, 24
_MAX_ROWS = 8
_MAX_TOLD = 48  # cells in the table twin


@dataclass(frozen=True, slots=True)
class Cell:
    x: float
    y: int
    text_x: float
    text_y: int
    heat: int
    text: str
    title: str


@dataclass(frozen=True, slots=True)
class HeatMap:
    """`costs` are the cells that cost something, the latest first: pair, hour, milliseconds."""

    names: tuple[str, ...]
    cells: tuple[Cell, ...]
    labels: tuple[tuple[float, str], ...]
    height: int
    label_y: int
    costs: tuple[tuple[str, datetime, int], ...]


def draw_heat(cost_ms: Mapping[tuple[str, datetime], int], end: datetime) -> HeatMap | None:
    """`cost_ms` by (pair of operations, full hour) in the 24 hours before `end`."""
    totals: Counter[str] = Counter()
    for (pair, _), cost in cost_ms.items():
        totals[pair] += cost
    names = tuple(pair for pair, _ in totals.most_common(_MAX_ROWS))
    if not names:
        return None
    first = end.replace(minute=0, second=0, microsecond=0) - timedelta(hours=HOURS - 1)
    hours = [first + timedelta(hours=i) for i in range(HOURS)]
    highest = max(cost_ms.values(), default=0) or 1
    height = len(names) * _ROW
    labels = tuple(
        ((i + 0.5) * 100 / HOURS, f"{timezone.localtime(hour):%H}")
        for i, hour in enumerate(hours)
        if timezone.localtime(hour).hour % 3 == 0
    )
    cells = tuple(_cells(names, hours, cost_ms, highest))
    told = sorted(
        ((pair, hour, cost) for (pair, hour), cost in cost_ms.items() if cost),
        key=lambda entry: (entry[1], entry[2]),
        reverse=True,
    )
    return HeatMap(names, cells, labels, height + 20, height + 14, tuple(told[:_MAX_TOLD]))


def _cells(
    names: Iterable[str],
    hours: list[datetime],
    cost_ms: Mapping[tuple[str, datetime], int],
    highest: int,
) -> Iterable[Cell]:
    step = 100 / HOURS
    for row, name in enumerate(names):
        for i, hour in enumerate(hours):
            cost = cost_ms.get((name, hour), 0)
            heat = 0 if not cost else min(5, 1 + int(4 * cost / highest))
            title = f"{name}, {timezone.localtime(hour):%H:%M %Z}: {format_duration(cost)}"
            yield Cell(
                i * step + 0.08,
                row * _ROW,
                (i + 0.5) * step,
                row * _ROW + 15,
                heat,
                _short(cost),
                title if cost else "",
            )


def _short(cost_ms: int) -> str:
    """Minutes, or seconds below one: what fits a cell."""
    if not cost_ms:
        return ""
    return f"{round(cost_ms / 60_000)}" if cost_ms >= 60_000 else "<1"
