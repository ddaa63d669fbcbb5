"""A table's recent history as the engine replays it: mirrored commits and recorded conflicts.

Commits are decoded from their mirrored texts. Of a conflict the rule, the level and both sides'
facts are known.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from django.db.models import QuerySet
from django.db.models.fields.json import KeyTransform

from engine.actions.codec import decode_lines
from engine.actions.commit_info import CommitInfo
from engine.conflict_facts import Rule
from engine.conflicts.candidates import counts_appends
from engine.conflicts.decide.checker import RULE_OF_ERROR
from engine.conflicts.predict.forecast import ForecastSide
from engine.conflicts.predict.record_replay import RecordedConflict
from engine.conflicts.predict.replay_history import PassedOver, RecordedTable, find_passed_over
from engine.conflicts.transaction_info import WinningCommit
from engine.errors import EngineError
from engine.schema.column_mapping import column_mapping_mode
from engine.schema.types import StructType, parse_schema
from engine.vocabulary import UNKNOWN, StatementKind, operation_named
from lakeui.catalog.former_tables import is_former
from lakeui.catalog.models import Commit, Table
from lakeui.conflicts.assessment import level_of
from lakeui.conflicts.models import Conflict
from lakeui.conflicts.statements.operations import Target, operation_of_commit
from lakeui.conflicts.statements.text import parse_recorded_condition, shape_of

MAX_VERSIONS = 500

_FIELDS = (
    "table", "kind", "exception", "rule", "subclass", "row_count", "isolation_level", "occurred_at",
    "read_version", "attempted_version", "winning_version", "current_operation",
    "current_user_name", "current_predicate", "winner_operation", "wasted_ms", "wasted_bytes",
    "job__committed_version", "job__statement", "transaction__statement",
)  # fmt: skip
_OF_A_WINNER = (
    "table", "version", "operation", "operation_parameters", "predicate", "engine_info",
    "is_blind_append", "changes_data", "changes_metadata", "changes_protocol",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class History:
    """The replayable commits of a range, and the versions that are not."""

    table: RecordedTable
    commits: tuple[WinningCommit, ...]
    missing: frozenset[int]


def find_out_of_order(
    table: Table, first: int, last: int, history: History | None = None
) -> tuple[PassedOver, ...]:
    """Return out-of-order versions with the appends that they passed over, in stored commits.

    `history` is that range if it has been read already.
    """
    history = history or load_recorded_history(table, first, last)
    serializable = {
        commit.version
        for commit in history.commits
        if counts_appends(level_of(commit.info.isolation_level, table))
    }
    pairs = find_passed_over(history.commits, history.table)
    return tuple(pair for pair in pairs if pair.version not in serializable)


def latest_versions(table: Table, count: int) -> tuple[int, int]:
    """Return the last `count` versions, as first and last."""
    last = table.version or 0
    return max(0, last - min(count, MAX_VERSIONS) + 1), last


def clamp_range(table: Table, first: int, last: int) -> tuple[int, int]:
    """Return a range cut to existing versions, and to its latest `MAX_VERSIONS`."""
    last = min(last, table.version or 0)
    return max(first, last - MAX_VERSIONS + 1, 0), last


def load_recorded_history(table: Table, first: int, last: int) -> History:
    """Load the commits of a range from the mirror's texts, decoded as the engine does it."""
    first, last = clamp_range(table, first, last)
    rows = list(table.commits.filter(version__range=(first, last)).order_by("version"))
    read = {row.version: decode_commit(row) for row in rows}
    here = {version: commit for version, commit in read.items() if commit is not None}
    recorded = build_recorded_table(table)
    missing = frozenset(range(first, last + 1)) - here.keys() if rows else frozenset()
    return History(recorded, tuple(here.values()), missing)


def build_recorded_table(table: Table) -> RecordedTable:
    """Return the table for the engine's replays; without columns if its schema cannot be read."""
    return RecordedTable(
        table.name,
        _schema(table),
        tuple(table.partition_columns),
        column_mapping_mode(table.properties),
    )


def _schema(table: Table) -> StructType:
    try:
        return parse_schema(table.schema)
    except EngineError:
        return StructType(())


def decode_commit(row: Commit) -> WinningCommit | None:
    """Decode a mirrored commit; None if its text is not stored completely."""
    return decode_commit_text(row.version, row.raw, row.raw_bytes)


def decode_commit_text(version: int, raw: str, raw_bytes: int) -> WinningCommit | None:
    """Decode a commit of `raw_bytes` from its text; None if that is cut, or cannot be read."""
    text = raw.encode("utf-8")
    if not text or len(text) < raw_bytes:
        return None
    try:
        actions = tuple(decode_lines(text))
    except EngineError:
        return None
    info = next((action for action in actions if isinstance(action, CommitInfo)), None)
    return WinningCommit(version=version, actions=actions, info=info or CommitInfo())


def prepare_for_judgment(conflicts: QuerySet[Conflict]) -> QuerySet[Conflict]:
    """Load only the fields for judging conflicts, without the long facts."""
    blind = KeyTransform("is_blind_append", KeyTransform("winner", "facts"))
    return (
        conflicts.select_related("job", "transaction")
        .only(*_FIELDS)
        .annotate(winner_is_blind=blind)
    )


def records_of(table: Table, conflicts: Sequence[Conflict]) -> Mapping[int, RecordedConflict]:
    """Return the records of a table's conflicts by id, in one query."""
    target = Target.from_table(table)
    winners = _winners(table, target, (conflict.winning_version for conflict in conflicts))
    return {
        conflict.pk: _record(
            conflict,
            _winner(conflict, {} if is_former(table, conflict.occurred_at) else winners),
            target,
        )
        for conflict in conflicts
    }


def rule_of(conflict: Conflict) -> Rule | None:
    """Return the recorded rule, or the one of the exception."""
    return conflict.decided_by or RULE_OF_ERROR.get(conflict.exception)


def _winners(
    table: Table, target: Target, versions: Iterable[int | None]
) -> Mapping[int, ForecastSide]:
    read_versions = {version for version in versions if version is not None}
    rows = table.commits.filter(version__in=read_versions).only(*_OF_A_WINNER)
    return {row.version: operation_of_commit(row, target) for row in rows}


def _winner(conflict: Conflict, winners: Mapping[int, ForecastSide]) -> ForecastSide | None:
    """Return the mirrored winning commit; if it is not stored, derive it from its operation's name.

    A write that is not known to be blind may have overwritten anything. It is also unknown whether
    a compaction records the moves of rows or reorders them.
    """
    version = conflict.winning_version
    if version is not None and version in winners:
        return winners[version]
    named = operation_named(conflict.winner_operation)
    kind = named.statement
    is_blind = getattr(conflict, "winner_is_blind", None)
    if kind in (StatementKind.INSERT, StatementKind.STREAM) and not is_blind:
        return None
    if kind is StatementKind.OPTIMIZE:
        kind = StatementKind.ZORDER
    return None if named is UNKNOWN else ForecastSide(kind=kind, traced=False)


def _record(conflict: Conflict, winner: ForecastSide | None, target: Target) -> RecordedConflict:
    return RecordedConflict(
        rule=rule_of(conflict),
        resolved=conflict.kind == Conflict.Kind.RESOLVED,
        level=conflict.isolation_level,
        subclass=conflict.subclass,
        rows_compared=conflict.row_count is not None,
        winner_is_blind=getattr(conflict, "winner_is_blind", None),
        current=_current(conflict, target),
        winner=winner,
    )


def _current(conflict: Conflict, target: Target) -> ForecastSide | None:
    """Return the aborted or rebased side, from its condition and its statement."""
    named, statement = operation_named(conflict.current_operation), _statement(conflict)
    if named is UNKNOWN:
        return None
    kind = named.statement
    operation = ForecastSide(kind=kind)
    if kind is StatementKind.OPTIMIZE and (not statement or "ZORDER" in statement):
        return replace(operation, kind=StatementKind.ZORDER)
    if not conflict.current_predicate:
        return operation
    condition = parse_recorded_condition(conflict.current_predicate, target.schema_json)
    reads_beyond = kind is StatementKind.MERGE and (not statement or "BY SOURCE" in statement)
    shape = parse_recorded_condition(shape_of(conflict.current_predicate), target.schema_json)
    return replace(
        operation,
        conditions=None if reads_beyond else condition.target_parts or None,
        obstacle=shape.obstacle,
    )


def _statement(conflict: Conflict) -> str:
    """Return the statement of its job or its pipeline, in capitals; empty if unknown."""
    origin = conflict.job or conflict.transaction
    return origin.statement.upper() if origin else ""
