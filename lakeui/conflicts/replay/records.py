"""Recorded conflicts as the engine judges them: the rule, the level, and both sides' facts."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from django.db.models import QuerySet
from django.db.models.fields.json import KeyTransform

from engine.conflict_facts import Rule
from engine.conflicts.checker import RULE_OF_ERROR
from engine.conflicts.forecast import ForecastSide
from engine.conflicts.record_replay import RecordedConflict
from engine.vocabulary import UNKNOWN, StatementKind, operation_named
from lakeui.catalog.former_tables import is_former
from lakeui.catalog.models import Table
from lakeui.conflicts.models import Conflict
from lakeui.conflicts.statements.conditions import parse_recorded_condition, shape_of
from lakeui.conflicts.statements.operations import Target, operation_of_commit

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
