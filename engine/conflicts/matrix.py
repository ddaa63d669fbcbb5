"""The conflict matrix: statements against statements, singly and in Databricks' groups."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import product

from engine.conflict_facts import Verdict
from engine.conflicts.forecast import ForecastSide, forecast
from engine.conflicts.sample_table import TableSetting
from engine.vocabulary import StatementKind

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
"""Changes of a table's definition; in the matrix they are winning commits only."""
MATRIX_VERDICTS = (Verdict.NEVER, Verdict.SAME_ROW, Verdict.SAME_FILES, Verdict.ALWAYS)
"""The verdicts of cells, mildest first."""


STATEMENTS = (
    StatementKind.INSERT,
    StatementKind.UPDATE,
    StatementKind.DELETE,
    StatementKind.MERGE,
    StatementKind.OPTIMIZE,
    StatementKind.ZORDER,
)
"""The statements with a row of their own."""


@dataclass(frozen=True, slots=True)
class MatrixCell:
    """Two statements or groups of them: when they conflict, and the possible exceptions."""

    current: str
    winner: str
    verdict: Verdict
    exceptions: tuple[str, ...] = ()


def conflict_matrix(setting: TableSetting) -> Iterator[MatrixCell]:
    """Yield every pair of groups on one kind of table. `current` commits second."""
    for current, mine in GROUPS.items():
        for winner, theirs in GROUPS.items():
            yield _cell(current, winner, mine, theirs, setting)


def statement_matrix(setting: TableSetting) -> Iterator[MatrixCell]:
    """Yield every pair of statements, and each one after changes of the table's definition."""
    for current in STATEMENTS:
        for winner in STATEMENTS:
            yield _cell(current, winner, (current,), (winner,), setting)
        yield _cell(current, DEFINITION, (current,), DEFINITIONS, setting)


def _cell(
    current: str,
    winner: str,
    mine: Iterable[StatementKind],
    theirs: Iterable[StatementKind],
    setting: TableSetting,
) -> MatrixCell:
    """Return the worst verdict of the pairs; an exempt append counts as no conflict."""
    forecasts = [
        forecast(setting, ForecastSide(kind=second), ForecastSide(kind=first))
        for first, second in product(theirs, mine)
    ]
    verdicts = {pair.verdict for pair in forecasts}
    names = (name for pair in forecasts for name in pair.exceptions)
    return MatrixCell(
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
