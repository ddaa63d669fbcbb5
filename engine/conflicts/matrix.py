"""Which groups of statements can conflict with which, as Databricks publishes it, but forecast."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from engine.conflict_facts import Verdict
from engine.conflicts.forecast import Operation, forecast
from engine.conflicts.sample_table import Setting
from engine.conflicts.statements import StatementKind

INSERT, CHANGE, OPTIMIZE, ZORDER, DEFINITION = (
    "INSERT (blind)",
    "UPDATE, DELETE, MERGE",
    "OPTIMIZE",
    "OPTIMIZE ZORDER BY",
    "ALTER, SET",
)
GROUPS = {
    INSERT: (StatementKind.INSERT,),
    CHANGE: (StatementKind.UPDATE, StatementKind.DELETE, StatementKind.MERGE),
    OPTIMIZE: (StatementKind.OPTIMIZE,),
    ZORDER: (StatementKind.ZORDER,),
}
DEFINITIONS = (
    StatementKind.ALTER,
    StatementKind.DROP_COLUMNS,
    StatementKind.CHECKED_ALTER,
    StatementKind.UPGRADE,
    StatementKind.CLUSTER_BY,
)
"""What changes what a table is; to others each is a winning commit alone."""
MATRIX_VERDICTS = (Verdict.NEVER, Verdict.SAME_ROW, Verdict.SAME_FILES, Verdict.ALWAYS)
"""The verdicts of cells, the mildest first."""


@dataclass(frozen=True, slots=True)
class Cell:
    """Two groups of statements: when they conflict, and every exception that it can raise."""

    current: str
    winner: str
    verdict: Verdict
    exceptions: tuple[str, ...] = ()


def conflict_matrix(setting: Setting) -> Iterator[Cell]:
    """Every pair of groups on one kind of table. `current` is the one that commits second."""
    for current in GROUPS:
        for winner in GROUPS:
            yield _cell(current, winner, GROUPS[winner], setting)


def definition_column(setting: Setting) -> Iterator[Cell]:
    """Every group behind a change of what the table is, which may conflict with more or with less."""
    for current in GROUPS:
        yield _cell(current, DEFINITION, DEFINITIONS, setting)


def _cell(current: str, winner: str, kinds: Iterable[StatementKind], setting: Setting) -> Cell:
    """The worst verdict of its pairs. That an append is exempt is one way never to conflict."""
    forecasts = [
        forecast(setting, Operation(kind=mine), Operation(kind=theirs))
        for theirs in kinds
        for mine in GROUPS[current]
    ]
    verdicts = {pair.verdict for pair in forecasts}
    names = (name for pair in forecasts for name in pair.exceptions)
    return Cell(
        current,
        winner,
        next(
            (
                matrix_verdict
                for matrix_verdict in reversed(MATRIX_VERDICTS)
                if matrix_verdict in verdicts
            ),
            Verdict.NEVER,
        ),
        tuple(sorted(set(names))),
    )
