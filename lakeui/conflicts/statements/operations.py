"""Jobs and commits as the operations that forecasts are about: which statement, which rows."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from engine.actions.codec import Action
from engine.commands.merge import BY_SOURCE
from engine.commands.model import (
    AddColumns,
    AddConstraint,
    Append,
    ChangeColumn,
    Clone,
    ClusterBy,
    Command,
    Create,
    Delete,
    DropColumns,
    DropConstraint,
    DropFeature,
    Merge,
    Optimize,
    Overwrite,
    RenameColumn,
    Reorg,
    Restore,
    Script,
    SetProperties,
    Stream,
    Truncate,
    UnsetProperties,
    Update,
    Vacuum,
)
from engine.commands.script import named
from engine.conflicts.forecast import Operation
from engine.conflicts.reads import is_stable, row_obstacle
from engine.conflicts.statements import StatementKind
from engine.errors import EngineError
from engine.expressions.traits import split_conjuncts
from engine.expressions.tree import Expression
from engine.schema.types import StructType, parse_schema
from lakeui.catalog.models import Commit, Table
from lakeui.conflicts.statements.clients import THIS_ENGINE, client_of
from lakeui.conflicts.statements.conditions import understood
from lakeui.conflicts.statements.kinds import logged_kind

KIND_OF: Mapping[type[Command], StatementKind] = {
    Append: StatementKind.INSERT,
    Overwrite: StatementKind.OVERWRITE,
    Delete: StatementKind.DELETE,
    Update: StatementKind.UPDATE,
    Merge: StatementKind.MERGE,
    Truncate: StatementKind.TRUNCATE,
    Stream: StatementKind.STREAM,
    Restore: StatementKind.RESTORE,
    Clone: StatementKind.REPLACE,
    Create: StatementKind.REPLACE,
    Optimize: StatementKind.OPTIMIZE,
    Reorg: StatementKind.PURGE,
    Vacuum: StatementKind.VACUUM,
    ClusterBy: StatementKind.CLUSTER_BY,
    AddConstraint: StatementKind.CHECKED_ALTER,
    DropFeature: StatementKind.CHECKED_ALTER,
    AddColumns: StatementKind.ALTER,
    ChangeColumn: StatementKind.ALTER,
    DropColumns: StatementKind.ALTER,
    DropConstraint: StatementKind.ALTER,
    RenameColumn: StatementKind.ALTER,
    SetProperties: StatementKind.ALTER,
    UnsetProperties: StatementKind.ALTER,
}
"""What each command is to other writes, before its parameters are read; a script is what its steps are."""
_CHANGES = frozenset({StatementKind.UPDATE, StatementKind.DELETE, StatementKind.MERGE})


@dataclass(frozen=True, slots=True)
class Target:
    """A table that operations are on: made once for all that is asked of it."""

    name: str
    uri: str
    schema: StructType
    schema_json: str

    @classmethod
    def of(cls, table: Table) -> "Target":
        """A mirrored table; one whose schema cannot be read has no columns."""
        try:
            schema = parse_schema(table.schema)
        except EngineError:
            schema = StructType(())
        return cls(table.name, table.uri, schema, json.dumps(table.schema))


def operations_of_job(
    target: Target,
    kind: str,
    parameters: Any,  # noqa: ANN401 - JSON
    *,
    is_own: bool = True,
) -> tuple[Operation, ...]:
    """What a job of a kind does to a table: one operation, of a script each step that changes it.

    `is_own` is false where the table is another one than the job's. Of a job whose parameters cannot be
    read its kind decides, and an append may then have read the table.
    """
    try:
        command = Command.from_parameters(kind, parameters)
    except EngineError:
        named_kind = logged_kind(kind) or StatementKind.ALTER
        doubtful = bool(parameters) and named_kind is StatementKind.INSERT
        return (Operation(kind=StatementKind.INSERT_SELECT if doubtful else named_kind),)
    if not isinstance(command, Script):
        return (operation_of(command, target),)
    names = {target.name, target.uri, *({""} if is_own else ())}
    return tuple(operation_of(step, target) for step in command.steps if named(step) in names)


def operation_of(command: Command, target: Target) -> Operation:
    """A command on a table, by what it says: what it cannot know yet is left open."""
    operation = Operation(kind=_kind_of(command, target))
    match command:
        case Delete() | Update():
            operation = _conditioned(operation, command, target)
        case Overwrite() if command.replace_where:
            operation = replace(operation, conditions=_replaced(command, target))
        case Overwrite():
            operation = replace(operation, changes_metadata=command.overwrite_schema)
        case Merge():
            operation = _merge(operation, command, target)
        case Stream():
            source = command.stream_name or command.source_table
            operation = replace(operation, application=source)
        case DropFeature():
            operation = replace(operation, changes_protocol=True)
        case _:
            pass
    return operation


def operation_of_commit(
    commit: Commit, target: Target, actions: tuple[Action, ...] | None = None
) -> Operation:
    """A version by what the mirror keeps of it; `actions` are those that it committed, if known."""
    kind = _committed_kind(commit)
    text = commit.predicate if kind in _CHANGES else ""
    condition = understood(text, target.schema_json) if text else None
    return Operation(
        kind=kind,
        conditions=condition.target_parts or None if condition else None,
        traced=client_of(commit.engine_info).name == THIS_ENGINE,
        changes_metadata=commit.changes_metadata,
        changes_protocol=commit.changes_protocol,
        actions=actions,
    )


def _kind_of(command: Command, target: Target) -> StatementKind:
    kind = KIND_OF[type(command)]
    match command:
        case Append() if _reads(command, target):
            kind = StatementKind.INSERT_SELECT
        case Delete() | Update() if _reads(command, target):
            kind = StatementKind.DELETE_BY_SUBQUERY
        case Overwrite() if command.replaces_some:
            kind = StatementKind.MERGE
        case Optimize() if command.zorder_by:
            kind = StatementKind.ZORDER
        case Reorg() if command.upgrade_uniform is not None:
            kind = StatementKind.UPGRADE
        case Create() | Clone() if not command.replace:
            kind = StatementKind.CREATE
        case _:
            pass
    return kind


def _reads(command: Command, target: Target) -> bool:
    """Whether a query or subquery of it reads the table itself; in doubt, yes."""
    try:
        return not {target.name, target.uri}.isdisjoint(command.tables_read())
    except EngineError:
        return True


def _conditioned(operation: Operation, command: Delete | Update, target: Target) -> Operation:
    try:
        condition = command.condition(target.schema)
        assigned = command.assigned(target.schema) if isinstance(command, Update) else {}
    except EngineError:
        return operation
    return replace(
        operation,
        conditions=_parts(condition),
        assigns=frozenset(path[0].lower() for path in assigned),
        obstacle=row_obstacle(condition) if condition is not None else None,
    )


def _replaced(command: Overwrite, target: Target) -> tuple[Expression, ...] | None:
    try:
        return _parts(command.replaced(target.schema))
    except EngineError:
        return None


def _parts(condition: Expression | None) -> tuple[Expression, ...] | None:
    """The parts that can be tested; empty for every row, None where none of them can."""
    if condition is None:
        return ()
    return tuple(part for part in split_conjuncts(condition) if is_stable(part)) or None


def _merge(operation: Operation, command: Merge, target: Target) -> Operation:
    """What its ON says of the target; a clause NOT MATCHED BY SOURCE reaches every row."""
    condition = understood(command.on, target.schema_json)
    beyond = any(clause.when == BY_SOURCE for clause in command.clauses)
    return replace(
        operation,
        conditions=None if beyond else condition.target_parts or None,
        obstacle=condition.obstacle,
    )


def _committed_kind(commit: Commit) -> StatementKind:
    """An append that read, or does not say, is none; what is not known may have changed any row."""
    parameters = commit.operation_parameters or {}
    kind = logged_kind(commit.operation, parameters)
    if kind in (StatementKind.INSERT, StatementKind.STREAM) and not commit.is_blind_append:
        return _written_kind(parameters, has_condition=bool(commit.predicate))
    if kind is None:
        return StatementKind.MERGE if commit.changes_data else StatementKind.VACUUM
    return kind


def _written_kind(parameters: Mapping[str, Any], *, has_condition: bool) -> StatementKind:
    if parameters.get("mode") != "Overwrite":
        return StatementKind.INSERT_SELECT
    return StatementKind.MERGE if has_condition else StatementKind.OVERWRITE
