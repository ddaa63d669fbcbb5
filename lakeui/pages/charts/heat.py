"""The cost of conflicts as heat: pairs of operations by hour, and partitions by pair.

Heat is ink, not hue.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.utils import timezone

from lakeui.catalog.hours import RANGES, TimeRange
from lakeui.catalog.units import format_duration
from lakeui.monitoring.recent_conflicts import PartitionCost

_ROW, _DAY = 24, timedelta(days=1)
_MAX_ROWS = 8
_MAX_TOLD = 48  # cells in the table twin
_MINUTE_MS = 60_000

_MOST_ROWS, _MOST_PAIRS = 8, 6


@dataclass(frozen=True, slots=True)
class HeatMapCell:
    x: float
    y: int
    text_x: float
    text_y: int
    heat: int
    text: str
    title: str


@dataclass(frozen=True, slots=True)
class HeatMap:
    """A map of costs: `costs` are the cells with a cost, latest first: pair, hour, milliseconds.

    `unit` is the unit of its cells: min or s.
    """

    names: tuple[str, ...]
    cells: tuple[HeatMapCell, ...]
    labels: tuple[tuple[float, str], ...]
    height: int
    label_y: int
    costs: tuple[tuple[str, datetime, int], ...]
    unit: str
    cell_width: float


def draw_heat(
    cost_ms: Mapping[tuple[str, datetime], int],
    end: datetime,
    time_range: TimeRange = RANGES["24h"],
) -> HeatMap | None:
    """Draw `cost_ms` by (pair of operations, hour or day) in the range before `end`."""
    totals: Counter[str] = Counter()
    for (pair, _), cost in cost_ms.items():
        totals[pair] += cost
    names = tuple(pair for pair, _ in totals.most_common(_MAX_ROWS))
    if not names:
        return None
    columns = time_range.columns(end)[1:]
    highest = max(cost_ms.values(), default=0) or 1
    height = len(names) * _ROW
    labels = tuple(
        ((i + 0.5) * 100 / len(columns), label)
        for i, column in enumerate(columns)
        if (label := _label_column(column, time_range, i))
    )
    cells = tuple(_cells(names, columns, cost_ms, highest, time_range))
    told = sorted(
        ((pair, hour, cost) for (pair, hour), cost in cost_ms.items() if cost),
        key=lambda entry: (entry[1], entry[2]),
        reverse=True,
    )
    return HeatMap(
        names,
        cells,
        labels,
        height + 20,
        height + 14,
        tuple(told[:_MAX_TOLD]),
        unit_of(highest),
        100 / len(columns) - 0.16,
    )


def _label_column(start: datetime, time_range: TimeRange, place: int) -> str:
    """Return the label below a column: every third hour, every day of a week, every third day."""
    if time_range.step < _DAY:
        local = timezone.localtime(start)
        return f"{local:%H}" if local.hour % 3 == 0 else ""
    return f"{start.day} {start:%b}" if time_range.span <= 7 * _DAY or place % 3 == 0 else ""


def _cells(
    names: Iterable[str],
    columns: list[datetime],
    cost_ms: Mapping[tuple[str, datetime], int],
    highest: int,
    time_range: TimeRange,
) -> Iterable[HeatMapCell]:
    step, unit = 100 / len(columns), unit_of(highest)
    for row, name in enumerate(names):
        for i, column in enumerate(columns):
            cost = cost_ms.get((name, column), 0)
            heat = 0 if not cost else min(5, 1 + int(4 * cost / highest))
            at = f"{timezone.localtime(column):%H:%M %Z}"
            if time_range.step == _DAY:
                at = f"{column.day} {column:%b} UTC"
            title = f"{name}, {at}: {format_duration(cost)}"
            yield HeatMapCell(
                i * step + 0.08,
                row * _ROW,
                (i + 0.5) * step,
                row * _ROW + 15,
                heat,
                format_in_unit(cost, unit) if cost else "",
                title if cost else "",
            )


def unit_of(highest_ms: int) -> str:
    """Return a map's unit: minutes, or seconds if its highest cost is below a minute."""
    return "min" if highest_ms >= _MINUTE_MS else "s"


def format_in_unit(cost_ms: int, unit: str) -> str:
    """Format whole minutes or seconds, in the map's unit, to fit a cell."""
    whole = _MINUTE_MS if unit == "min" else 1000
    return f"{round(cost_ms / whole):,}" if cost_ms >= whole else "<1"


@dataclass(frozen=True, slots=True)
class HeatCell:
    """A cell; `heat` is from 0 to 5; `words` describe it."""

    heat: int
    wasted_ms: int
    words: str
    text: str


@dataclass(frozen=True, slots=True)
class HeatRow:
    """One partition of one table; no partition: none was named."""

    table_id: int | None
    table: str
    partition: str
    cells: tuple[HeatCell, ...]
    wasted_ms: int
    text: str


@dataclass(frozen=True, slots=True)
class PartitionHeat:
    """The costliest rows and columns; how many were left out of either. `unit` is of all cells."""

    pairs: tuple[tuple[str, str], ...]
    rows: tuple[HeatRow, ...]
    more_rows: int
    more_pairs: int
    unit: str


def draw_partition_heat(costs: Sequence[PartitionCost]) -> PartitionHeat | None:
    """Draw the costs by table, partition and pair; None without any."""
    rows: Counter[tuple[int | None, str, str]] = Counter()
    pairs: Counter[tuple[str, str]] = Counter()
    cells: Counter[tuple[tuple[int | None, str, str], tuple[str, str]]] = Counter()
    times: Counter[tuple[tuple[int | None, str, str], tuple[str, str]]] = Counter()
    for cost in costs:
        place, pair = (cost.table_id, cost.table, cost.partition), (cost.current, cost.winner)
        rows[place] += cost.wasted_ms
        pairs[pair] += cost.wasted_ms
        cells[place, pair] += cost.wasted_ms
        times[place, pair] += cost.times
    if not rows:
        return None
    shown = tuple(pair for pair, _ in pairs.most_common(_MOST_PAIRS))
    highest = max(cells.values()) or 1
    unit = unit_of(max(rows.values()))
    drawn = tuple(
        HeatRow(
            *place,
            cells=tuple(
                _cell(cells[place, pair], times[place, pair], pair, highest, unit) for pair in shown
            ),
            wasted_ms=total,
            text=format_in_unit(total, unit),
        )
        for place, total in rows.most_common(_MOST_ROWS)
    )
    return PartitionHeat(
        shown, drawn, max(len(rows) - _MOST_ROWS, 0), max(len(pairs) - _MOST_PAIRS, 0), unit
    )


def _cell(cost: int, times: int, pair: tuple[str, str], highest: int, unit: str) -> HeatCell:
    if not times:
        return HeatCell(0, 0, "", "")
    current, winner = (side or "?" for side in pair)
    aborted = "1 write" if times == 1 else f"{times:,} writes"
    return HeatCell(
        min(5, 1 + int(4 * cost / highest)),
        cost,
        f"{aborted} aborted, {current} by {winner}: {format_duration(cost)}",
        format_in_unit(cost, unit),
    )
