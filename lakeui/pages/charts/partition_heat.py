"""The cost of conflicts, a row per partition, a column per pair of operations: a table, in ink."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from lakeui.catalog.units import format_duration
from lakeui.monitoring.partition_costs import PartitionCost
from lakeui.pages.charts.heat import format_in_unit, unit_of

_MOST_ROWS, _MOST_PAIRS = 8, 6


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
