"""Conflict forecast: whether two operations will conflict, and why, before they run.

Both statements run on the sample table through the real checks and row-level code: on rows of
different files, on different rows of one file, and on the same row. Known conditions and files
narrow this: cases in which the two provably never overlap are left out.

The conflict matrix is the forecast of statements against statements, singly and in Databricks'
groups.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product

import msgspec

from engine.actions.codec import Action
from engine.actions.files import AddFile, RemoveFile
from engine.conflict_facts import ConflictFacts, Rule, Verdict
from engine.conflicts.candidates import is_exempt
from engine.conflicts.decide.checker import CHECK_OF, FILE_RULES, find_conflict
from engine.conflicts.decide.rebase import NOTHING_PENDING, file_of
from engine.conflicts.decide.row_level import resolve_by_rows
from engine.conflicts.decide.row_map import trace
from engine.conflicts.overlap import Overlap
from engine.conflicts.predict.replay_history import RecordedTable
from engine.conflicts.predict.sample_table import SampleTable, TableSetting
from engine.conflicts.predict.statements import Statement, build_current, build_winner
from engine.conflicts.reads import may_hold
from engine.conflicts.transaction_info import WinningCommit
from engine.errors import CannotEvaluateError, ConflictError
from engine.expressions.possible_values import UNKNOWN, ValueRange, cast_ranges, constant, possible
from engine.expressions.traits import columns_of, conjunction
from engine.expressions.tree import Call, Column, Expression, Literal
from engine.expressions.types import common_type
from engine.snapshot.data_skipping import Skipper
from engine.vocabulary import StatementKind

_REWRITES = StatementKind.PURGE

FORECASTS = (
    Verdict.NEVER,
    Verdict.EXEMPT,
    Verdict.SAME_ROW,
    Verdict.SAME_FILES,
    Verdict.ALWAYS,
)
"""The verdicts on two operations, mildest first."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class ForecastSide:
    """The known facts of one side.

    Attributes:
        kind: the statement kind.
        conditions: conjuncts for the rows it reads and changes; empty for every row, None if
            unknown. Conjuncts may be left out.
        assigns: the columns an UPDATE sets, None if unknown.
        obstacle: why its condition cannot be decided at row level.
        application: the id under which a stream keeps its progress; by default its own.
        traced: whether a compaction records where its rows went, as this engine's does.
        reads_all: whether it also reads every row, as a subquery over the table itself does.
        opens_all: whether its conditions rule out no file, regardless of the rows they name.
        reads_late: whether it reads its base version only when it commits, as VACUUM does.
        inserts: whether a MERGE may write new rows.
        deletes_only: whether every clause of a MERGE deletes.
        changes_metadata: whether it changes the metadata too.
        changes_protocol: whether it changes the protocol too.
        actions: its committed actions, if known.
    """

    kind: StatementKind
    conditions: tuple[Expression, ...] | None = None
    assigns: frozenset[str] | None = None
    obstacle: str | None = None
    application: str | None = None
    traced: bool = True
    reads_all: bool = False
    opens_all: bool = False
    reads_late: bool = False
    inserts: bool = True
    deletes_only: bool = False
    changes_metadata: bool = False
    changes_protocol: bool = False
    actions: tuple[Action, ...] | None = None


@dataclass(frozen=True, slots=True)
class Forecast:
    """Whether two operations conflict, why, and the exceptions in the order of the checks."""

    verdict: Verdict
    why: str
    exceptions: tuple[str, ...] = ()


def forecast(
    setting: TableSetting,
    current: ForecastSide,
    winner: ForecastSide,
    table: RecordedTable | None = None,
) -> Forecast:
    """Forecast the outcome of `current`, which commits second without having seen `winner`.

    `table` has the columns of the conditions and files.
    """
    if current.reads_late:
        return Forecast(Verdict.NEVER, "it reads the latest version when it commits")
    if current.kind is StatementKind.UPGRADE:  # it rewrites files after switching vectors off
        setting, current = replace(setting, vectors=False), replace(current, kind=_REWRITES)
    if winner.changes_protocol:
        return _always(Rule.PROTOCOL_CHANGED)
    places = _places(setting, _statement(current, setting), _statement(winner, setting))
    proof = _proof(current, winner, table)
    if proof is not None:
        places = proof.narrow(places)
    return _decide_forecast(places, proof, may_miss=_may_miss(current, winner))


def first_conflict(
    current: Statement, winners: Sequence[Statement], setting: TableSetting
) -> ConflictError | None:
    """Return the conflict of a statement with unseen earlier commits; None if there is none.

    A second winning commit has read the state after the first one.
    """
    sample_table = SampleTable(setting)
    staged = build_current(current, sample_table)
    exempted: tuple[WinningCommit, ...] = ()
    for number, statement in enumerate(winners):
        version = staged.read_version + 1 + number
        winner = build_winner(statement, sample_table, version, f"winner{number}")
        if number:
            info = msgspec.structs.replace(winner.info, read_version=version - 1)
            winner = replace(winner, info=info)
        conflict = _resolve_rows(Overlap(staged, winner, exempted), sample_table)
        if conflict is not None:
            return conflict
        exempted = (*exempted, winner) if winner.is_blind_append else exempted
    return None


def _resolve_rows(overlap: Overlap, sample_table: SampleTable) -> ConflictError | None:
    conflict = find_conflict(overlap)
    if conflict is None or conflict.conflict.rule not in FILE_RULES:
        return conflict
    staged = overlap.current
    settled = resolve_by_rows(
        overlap,
        NOTHING_PENDING,
        sample_table,
        lambda: trace(staged.removes, staged.adds, sample_table),
    )
    return find_conflict(replace(overlap, evidence=settled.evidence))


@dataclass(frozen=True, slots=True)
class _Places:
    """The conflicts of two statements by location; `exempt`: a blind append that is exempt."""

    other_files: tuple[ConflictFacts, ...]
    other_rows: tuple[ConflictFacts, ...]
    same_row: tuple[ConflictFacts, ...]
    exempt: bool

    @property
    def all(self) -> tuple[ConflictFacts, ...]:
        return (*self.other_files, *self.other_rows, *self.same_row)


@dataclass(frozen=True, slots=True)
class _Proof:
    """The reason why the two never touch the same row, or, if `is_of_files`, the same file."""

    why: str
    is_of_files: bool

    def narrow(self, places: _Places) -> _Places:
        others = () if self.is_of_files else places.other_rows
        return replace(places, other_rows=others, same_row=())


def _statement(side: ForecastSide, setting: TableSetting) -> Statement:
    """Build the statement of a side, about a row of the first file or about every row."""
    everywhere = side.conditions == ()
    return Statement(
        side.kind,
        None if everywhere else 1,
        "d1" if setting.partitioned and not everywhere else None,
        traced=side.traced,
        application=side.application,
        obstacle=side.obstacle,
        reads_all=side.reads_all,
        opens_all=side.opens_all,
        changes_metadata=side.changes_metadata or side.changes_protocol,
        inserts=side.inserts,
        deletes_only=side.deletes_only,
    )


@lru_cache(maxsize=4096)
def _places(setting: TableSetting, current: Statement, winner: Statement) -> _Places:
    elsewhere = replace(winner, date="d2") if setting.partitioned else replace(winner, id=5)
    if winner.id is None:
        elsewhere = winner
    beside = winner if winner.id is None else replace(winner, id=2)
    places = dict.fromkeys((elsewhere, beside, winner))
    at = {place: _conflicts(setting, current, place) for place in places}
    return _Places(
        at[elsewhere],
        at[beside],
        at[winner],
        _is_exempt(setting, current, winner),
    )


def _conflicts(
    setting: TableSetting, current: Statement, winner: Statement
) -> tuple[ConflictFacts, ...]:
    """Return the conflicts of both sides, also with all rows of a file on either side."""
    sides = product(
        (current, replace(current, whole_file=True)), (winner, replace(winner, whole_file=True))
    )
    errors = (first_conflict(mine, (theirs,), setting) for mine, theirs in sides)
    as_they_are = next(errors)
    if as_they_are is None:
        return ()
    return tuple(error.conflict for error in (as_they_are, *errors) if error is not None)


def _is_exempt(setting: TableSetting, current: Statement, winner: Statement) -> bool:
    sample_table = SampleTable(setting)
    staged = build_current(current, sample_table)
    return not staged.reads_nothing and is_exempt(staged, build_winner(winner, sample_table))


def _may_miss(current: ForecastSide, winner: ForecastSide) -> bool:
    """Return whether a compaction and the other side may have no file in common.

    A compaction of the sample table rewrites every file, one of a real table rarely does.
    """
    every_file = current.reads_all or current.opens_all
    every_row = () in (current.conditions, winner.conditions)
    moves_rows = current.kind.moves_rows or winner.kind.moves_rows
    if every_file or every_row or not moves_rows:
        return False
    restores = winner.kind is StatementKind.RESTORE
    return current.kind.opens_some_files and (restores or winner.kind.opens_some_files)


def _decide_forecast(places: _Places, proof: _Proof | None, *, may_miss: bool) -> Forecast:
    exceptions = _exceptions(places.all)
    by_files = (*places.other_files, *places.other_rows)
    anywhere = places.other_files
    if anywhere and (not may_miss or anywhere[0].rule not in FILE_RULES):
        return Forecast(Verdict.ALWAYS, _title(anywhere[0].rule), exceptions)
    if by_files:
        why = by_files[0].row_level or _title(by_files[0].rule)
        return Forecast(Verdict.SAME_FILES, f"file level: {why}", exceptions)
    if places.same_row:
        return Forecast(
            Verdict.SAME_ROW,
            "row level: it conflicts only if both concern the same rows",
            exceptions,
        )
    return _harmless(places, proof)


def _harmless(places: _Places, proof: _Proof | None) -> Forecast:
    if proof is not None:
        return Forecast(Verdict.NEVER, proof.why)
    if places.exempt:
        return Forecast(Verdict.EXEMPT, "a blind append, which can be ordered after it")
    return Forecast(Verdict.NEVER, "no check finds a conflict, regardless of the rows")


def _always(rule: Rule) -> Forecast:
    return Forecast(Verdict.ALWAYS, _title(rule), (CHECK_OF[rule].error.__name__,))


def _title(rule: Rule) -> str:
    title = CHECK_OF[rule].title
    return title[0].lower() + title[1:]


def _exceptions(conflicts: Iterable[ConflictFacts]) -> tuple[str, ...]:
    rules = {conflict.rule for conflict in conflicts}
    names = (check.error.__name__ for rule, check in CHECK_OF.items() if rule in rules)
    return tuple(dict.fromkeys(names))


def _proof(
    current: ForecastSide, winner: ForecastSide, table: RecordedTable | None
) -> _Proof | None:
    if not current.conditions or current.reads_all or current.opens_all:
        return None
    if table is not None and winner.actions is not None:
        mine = _build_skipper(table, current.conditions)
        files = (action for action in winner.actions if isinstance(action, AddFile | RemoveFile))
        if not any(_may_hold(mine, file, table) for file in files):
            why = "no file that it added or removed can contain a row that matches the condition"
            return _Proof(why, is_of_files=True)
    partition_columns = table.partition_columns if table is not None else ()
    if _are_apart(current.conditions, winner, partition_columns):
        return _Proof("the conditions select different partitions", is_of_files=True)
    if _are_apart(current.conditions, winner, None):
        return _Proof("no row matches both conditions", is_of_files=False)
    return None


def _build_skipper(table: RecordedTable, parts: Sequence[Expression]) -> Skipper:
    return Skipper(
        conjunction(list(parts)), table.schema, table.partition_columns, table.mapping_mode
    )


def _may_hold(skipper: Skipper, file: AddFile | RemoveFile, table: RecordedTable) -> bool:
    """Return whether a file may hold a matching row; a removed file may lack statistics."""
    if isinstance(file, RemoveFile):
        if table.partition_columns and not file.partition_values:
            return True
        file = file_of(file)
    return may_hold(skipper, file)


def _are_apart(
    mine: Sequence[Expression], winner: ForecastSide, columns: Sequence[str] | None
) -> bool:
    """Return whether no row the winning commit read or wrote can match.

    Only conditions on `columns` are considered, None for all.
    """
    taken = _filter_by_columns(winner.conditions or (), columns)
    written = _derive_row_conditions(winner, taken)
    if not taken or written is None:
        return False
    own = _filter_by_columns(mine, columns)
    return disjoint(own, taken) and (written == () or disjoint(own, written))


def _derive_row_conditions(
    winner: ForecastSide, taken: Sequence[Expression]
) -> tuple[Expression, ...] | None:
    """Derive conditions for the rows the winning commit wrote: () for no rows, None if unknown."""
    if winner.kind is StatementKind.DELETE or winner.deletes_only:
        return ()
    if winner.kind is not StatementKind.UPDATE or winner.assigns is None:
        return None
    kept = tuple(part for part in taken if not _names(part) & winner.assigns)
    return kept or None


def _filter_by_columns(
    parts: Sequence[Expression], columns: Sequence[str] | None
) -> tuple[Expression, ...]:
    if columns is None:
        return tuple(parts)
    only = {name.lower() for name in columns}
    return tuple(part for part in parts if _names(part) and _names(part) <= only)


def _names(part: Expression) -> frozenset[str]:
    return frozenset(path[0].lower() for path in columns_of(part))


def disjoint(one: Sequence[Expression], other: Sequence[Expression]) -> bool:
    """Return whether certainly no row satisfies both conditions; False if unknown.

    Each condition is a list of conjuncts; omitted conjuncts only make it wider.
    """
    return any(
        not possible(part, _bounds(against)).true
        for parts, against in ((one, other), (other, one))
        for part in parts
    )


def _bounds(parts: Iterable[Expression]) -> Callable[[Column], ValueRange]:
    """Return a function giving the possible values of a column under a condition."""
    ranges: dict[tuple[str, ...], ValueRange] = {}
    for part in parts:
        match part:
            case Call(function, (Column() as column, *options)):
                narrower = _range(function, column, options)
                ranges[column.path] = _intersect_ranges(ranges.get(column.path, UNKNOWN), narrower)
            case _:
                continue
    return lambda column: ranges.get(column.path, UNKNOWN)


def _range(function: str, column: Column, options: Sequence[Expression]) -> ValueRange:
    """Return the values of a column allowed by a comparison with literals."""
    values = [_convert_option(column, option) for option in options]
    bounds = [value for value in values if value is not None]
    if not bounds or len(bounds) < len(values):
        return UNKNOWN
    match function:
        case "=" | "in":
            low, high = min(bound.low for bound in bounds), max(bound.high for bound in bounds)
            return ValueRange(low, high, null=False, nan=False)
        case "<" | "<=":
            return ValueRange(None, bounds[0].high, null=False)
        case ">" | ">=":
            return ValueRange(bounds[0].low, None, null=False)
        case _:
            return UNKNOWN


def _convert_option(column: Column, option: Expression) -> ValueRange | None:
    """Convert a literal to the column's type; return None if Spark compares in another type."""
    if not isinstance(option, Literal) or option.value is None:
        return None
    if common_type([column.type, option.type]) != column.type:
        return None
    try:
        [value] = cast_ranges([constant(option.value)], option.type, column.type)
    except (CannotEvaluateError, TypeError, ValueError, ArithmeticError):
        return None
    return value if value.known and not value.null and not value.nan else None


def _intersect_ranges(one: ValueRange, other: ValueRange) -> ValueRange:
    lows = [side.low for side in (one, other) if side.low is not None]
    highs = [side.high for side in (one, other) if side.high is not None]
    return ValueRange(
        max(lows, default=None),
        min(highs, default=None),
        null=one.null and other.null,
        nan=one.nan and other.nan,
    )


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
