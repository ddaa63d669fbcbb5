"""Jobs and commits as operations: their statement, their rows, the forecast of their overlap."""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

from engine.actions.codec import Action
from engine.commands.merge import BY_SOURCE, DELETE, NOT_MATCHED
from engine.commands.model import (
    Append,
    Command,
    Delete,
    DropFeature,
    Merge,
    Overwrite,
    QuerySource,
    Restore,
    RowsSource,
    Script,
    Source,
    Stream,
    TableSource,
    Update,
    Vacuum,
)
from engine.commands.script import step_table
from engine.conflict_facts import Verdict
from engine.conflicts.eligibility import IDENTITY_KEY
from engine.conflicts.overlap import records_deletes_only
from engine.conflicts.predict.forecast import FORECASTS, Forecast, ForecastSide, forecast
from engine.conflicts.predict.replay_history import RecordedTable
from engine.conflicts.predict.sample_table import TableSetting
from engine.conflicts.reads import READS_TARGET, SUBQUERY, is_stable, row_obstacle
from engine.errors import EngineError
from engine.expressions.queries.tables import tables_in_condition
from engine.expressions.traits import split_conjuncts
from engine.expressions.tree import Expression
from engine.schema.column_mapping import column_mapping_mode
from engine.schema.types import StructType, parse_schema
from engine.snapshot.timestamps import timestamp_to_ms
from engine.vocabulary import (
    EMPTY_COMMIT,
    INSERT_SELECT,
    UNKNOWN,
    Operation,
    StatementKind,
    operation_named,
)
from lakeui.catalog.command_tables import reads_itself, table_called
from lakeui.catalog.models import Commit, Table
from lakeui.conflicts.assessment import build_setting
from lakeui.conflicts.statements.clients import THIS_ENGINE, client_of
from lakeui.conflicts.statements.text import (
    Names,
    obstacle_of_value,
    parse_recorded_condition,
)
from lakeui.jobs.models import Job


@dataclass(frozen=True, slots=True)
class Target:
    """A table of operations, built once for all of them.

    `own_name` is the command's name for it.
    """

    name: str
    uri: str
    schema: StructType
    schema_json: str
    own_name: str = ""

    @classmethod
    def from_table(cls, table: Table) -> "Target":
        """Return the target of a mirrored table; an unreadable schema gives no columns."""
        try:
            schema = parse_schema(table.schema)
        except EngineError:
            schema = StructType(())
        return cls(table.name, table.uri, schema, json.dumps(table.schema))

    def is_among(self, names: Iterable[str]) -> bool:
        """Whether one of these names the table."""
        own = self.own_name.lower()
        return any(name in (self.name, self.uri) or (own and name.lower() == own) for name in names)


def operations_of_job(
    target: Target,
    kind: str,
    parameters: Any,  # noqa: ANN401 - JSON
    *,
    is_own: bool = True,
) -> tuple[ForecastSide, ...]:
    """Return a job's operations on a table: one, or each step of a script that changes it.

    `is_own` is false if the table is not the job's own. If a job's parameters cannot be read, its
    kind decides, and an append may then have read the table.
    """
    try:
        command = Command.from_parameters(kind, parameters)
    except EngineError:
        operation = operation_named(kind)
        named_kind = StatementKind.ALTER if operation is UNKNOWN else operation.statement
        doubtful = bool(parameters) and named_kind is StatementKind.INSERT
        return (ForecastSide(kind=StatementKind.INSERT_SELECT if doubtful else named_kind),)
    if not isinstance(command, Script):
        return (operation_of(command, target),)
    names = {target.name, target.uri, *({""} if is_own else ())}
    return tuple(operation_of(step, target) for step in command.steps if step_table(step) in names)


def operation_of(command: Command, target: Target) -> ForecastSide:
    """Return the operation of a command on a table; facts that it cannot know yet are left open."""
    target = replace(target, own_name=command.own_name)
    reads_itself = isinstance(command, Append) and _source_reads(command.source, target)
    operation = ForecastSide(
        kind=StatementKind.INSERT_SELECT if reads_itself else command.operation.statement
    )
    match command:
        case Append():
            return _complete_append(operation, command, target)
        case Delete() | Update():
            return _complete_condition(operation, command, target)
        case Overwrite():
            return _complete_overwrite(operation, command, target)
        case Merge():
            return _merge(operation, command, target)
        case _:
            return _complete_maintenance(operation, command, target)


def _complete_maintenance(
    operation: ForecastSide, command: Command, target: Target
) -> ForecastSide:
    match command:
        case Stream():
            return replace(operation, application=_application(command))
        case Restore():
            return replace(operation, changes_metadata=_restores_terms(command, target))
        case DropFeature():
            return replace(operation, changes_protocol=True)
        case Vacuum():
            return replace(operation, reads_late=True)
        case _:
            return operation


def operation_of_commit(
    commit: Commit, target: Target, actions: tuple[Action, ...] | None = None
) -> ForecastSide:
    """Return the operation of a mirrored version; `actions` are its committed ones, if known."""
    named = _operation_of_commit(commit)
    text = commit.predicate if named.changes_matches else ""
    condition = parse_recorded_condition(text, target.schema_json) if text else None
    query = (commit.operation_parameters or {}).get("queryId")
    return ForecastSide(
        kind=named.statement,
        application=str(query) if query else None,
        conditions=condition.target_parts or None if condition else None,
        traced=client_of(commit.engine_info).name == THIS_ENGINE,
        deletes_only=named.statement is StatementKind.MERGE
        and records_deletes_only(commit.operation, commit.operation_parameters),
        changes_metadata=commit.changes_metadata,
        changes_protocol=commit.changes_protocol,
        actions=actions,
    )


def _application(command: Stream) -> str | None:
    """Return its commits' application id; None if its source is unregistered or was never read."""
    source = table_called(command.source_table)
    if source is None or not source.table_uuid:
        return None
    return command.application(source.uri, source.table_uuid)


def _restores_terms(command: Restore, target: Target) -> bool:
    """Whether the metadata changed since, except for marks of identity columns, which go on."""
    since = Commit.objects.filter(table__uri=target.uri, changes_metadata=True)
    if command.version is not None:
        since = since.filter(version__gt=command.version)
    elif command.timestamp is not None:
        moment = datetime.fromtimestamp(timestamp_to_ms(command.timestamp) / 1000, UTC)
        since = since.filter(committed_at__gt=moment)
    if IDENTITY_KEY in target.schema_json:
        since = since.filter(changes_data=False)
    return since.exists()


def _reads(command: Command, target: Target) -> bool:
    """Whether a query or subquery of it reads the table itself; true if uncertain."""
    try:
        return target.is_among(command.tables_read())
    except EngineError:
        return True


def _source_reads(source: Source, target: Target) -> bool:
    """Whether the rows of a source are of the latest version of the table itself; in doubt, yes."""
    if isinstance(source, TableSource):
        return source.version is None and target.is_among((source.table,))
    try:
        return isinstance(source, QuerySource) and target.is_among(source.tables_read())
    except EngineError:
        return True


def _complete_append(operation: ForecastSide, command: Append, target: Target) -> ForecastSide:
    """Add the reads of an INSERT that reads the table: the rows selected by its query."""
    source = command.source
    if operation.kind is not StatementKind.INSERT_SELECT or not isinstance(source, TableSource):
        return operation
    if not source.where:
        return replace(operation, reads_all=True)
    names = tuple(name for name in (source.alias, source.table.rpartition(".")[2]) if name)
    condition = parse_recorded_condition(source.where, target.schema_json, (names, ()))
    return replace(operation, conditions=condition.target_parts or None)


def _complete_condition(
    operation: ForecastSide, command: Delete | Update, target: Target
) -> ForecastSide:
    """Add the condition: a subquery on the table reads all of it; an untestable one, all files."""
    nested = _reads(command, target)
    try:
        condition = command.condition(target.schema)
        assigned = command.parse_assignments(target.schema) if isinstance(command, Update) else {}
    except EngineError:
        return replace(operation, reads_all=nested)
    parts = _parts(condition)
    return replace(
        operation,
        conditions=parts,
        assigns=frozenset(path[0].lower() for path in assigned),
        obstacle=row_obstacle(condition) if condition is not None else None,
        reads_all=nested,
        opens_all=parts is None,
    )


def _complete_overwrite(
    operation: ForecastSide, command: Overwrite, target: Target
) -> ForecastSide:
    """Add the reads of an overwrite; REPLACE ON a source, not written-out rows, reads every row.

    No condition of the overwrite covers its source's reads of the table itself.
    """
    operation = replace(operation, changes_metadata=command.overwrite_schema)
    by_rows = command.replace_using and isinstance(command.source, RowsSource)
    if command.replace_on or (command.replace_using and not by_rows):
        nested = _reads(command, target)
        return replace(operation, reads_all=nested, opens_all=True, obstacle=SUBQUERY)
    if _source_reads(command.source, target) or operation.kind is StatementKind.OVERWRITE:
        return operation
    try:
        condition = command.parse_replace_where(target.schema)
    except EngineError:
        return operation
    if condition is None:  # the new rows decide
        return operation
    parts = _parts(condition)
    return replace(
        operation, conditions=parts, obstacle=row_obstacle(condition), opens_all=parts is None
    )


def _parts(condition: Expression | None) -> tuple[Expression, ...] | None:
    """Return the testable parts; empty for every row, None if none can be tested."""
    if condition is None:
        return ()
    return tuple(part for part in split_conjuncts(condition) if is_stable(part)) or None


def _merge(operation: ForecastSide, command: Merge, target: Target) -> ForecastSide:
    """Add the condition of ON on the target; a clause NOT MATCHED BY SOURCE reaches every row.

    A source that reads the target reads rows outside of ON.
    """
    own, source = command.target_alias, command.source_alias
    names = ((own, command.table.rpartition(".")[2]), (source,))
    condition = parse_recorded_condition(command.on, target.schema_json, names)
    beyond = any(clause.when == BY_SOURCE for clause in command.clauses)
    from_target = _source_reads(command.source, target)
    inner = (name for text in _texts(command) for name in _tables_in(text))
    obstacles = (condition.obstacle, *_obstacles(command, target, names))
    return replace(
        operation,
        conditions=None if beyond or from_target else condition.target_parts or None,
        obstacle=READS_TARGET if from_target else next(filter(None, obstacles), None),
        reads_all=target.is_among(inner),
        opens_all=beyond,
        inserts=any(clause.when == NOT_MATCHED for clause in command.clauses),
        deletes_only=all(clause.action == DELETE for clause in command.clauses),
    )


def _texts(command: Merge) -> Iterator[str]:
    """Yield the conditions and values of its clauses."""
    for clause in command.clauses:
        texts = (clause.condition, *clause.assignments.values())
        yield from (text for text in texts if text and isinstance(text, str))


def _tables_in(text: str) -> tuple[str, ...]:
    try:
        return tables_in_condition(text)
    except EngineError:
        return ()


def _obstacles(command: Merge, target: Target, names: Names) -> Iterator[str | None]:
    for clause in command.clauses:
        if clause.condition and isinstance(clause.condition, str):
            yield parse_recorded_condition(clause.condition, target.schema_json, names).obstacle
        for value in clause.assignments.values():
            if isinstance(value, str):
                yield obstacle_of_value(value, target.schema_json, names)


def _operation_of_commit(commit: Commit) -> Operation:
    """Return INSERT_SELECT for an append that read, or does not say; an unknown one may have changed any row."""
    parameters = {**(commit.operation_parameters or {}), "predicate": commit.predicate}
    operation = operation_named(commit.operation, parameters)
    appends = operation.statement in (StatementKind.INSERT, StatementKind.STREAM)
    if appends and not commit.is_blind_append:
        return INSERT_SELECT
    if operation is UNKNOWN and not commit.changes_data:
        return EMPTY_COMMIT
    return operation


@dataclass(frozen=True)
class JobSide:
    """A job's side: its operations on its table, built once for all comparisons."""

    job: Job

    @cached_property
    def setting(self) -> TableSetting:
        return build_setting(self.job.table)

    @cached_property
    def target(self) -> Target:
        return Target.from_table(self.job.table)

    @cached_property
    def operations(self) -> tuple[ForecastSide, ...]:
        return operations_of_job(self.target, self.job.kind, self.job.parameters)

    @property
    def reads_itself(self) -> bool:
        """Whether a query or condition of its command names its own table."""
        try:
            command = Command.from_parameters(self.job.kind, self.job.parameters)
        except EngineError:
            return False
        return reads_itself(command, self.job.table)

    def forecast_with_commit(self, commit: Commit, actions: tuple[Action, ...] | None) -> Forecast:
        return self._forecast_with([operation_of_commit(commit, self.target, actions)])

    def forecast_with_job(self, kind: str, parameters: Any, table_id: int) -> Forecast:  # noqa: ANN401 - JSON
        """Forecast the conflict with a job that lands first; `table_id` is its own table."""
        is_own = table_id == self.job.table_id
        return self._forecast_with(operations_of_job(self.target, kind, parameters, is_own=is_own))

    def _forecast_with(self, theirs: Sequence[ForecastSide]) -> Forecast:
        """Return the worst forecast; a side that does nothing to the table never conflicts."""
        table = self.job.table
        columns = RecordedTable(
            table.name,
            self.target.schema,
            tuple(table.partition_columns),
            column_mapping_mode(table.properties),
        )
        forecasts = [
            forecast(self.setting, mine, other, columns)
            for mine in self.operations
            for other in theirs
        ]
        nothing = Forecast(Verdict.NEVER, "it does not change this table")
        return max(
            forecasts, key=lambda candidate: FORECASTS.index(candidate.verdict), default=nothing
        )
