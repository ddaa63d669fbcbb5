"""The installation's rules for a command, beyond those of the command itself.

Checked when the job is requested and again when a worker takes it.
"""

from collections.abc import Collection, Iterator
from dataclasses import fields, is_dataclass, replace

from django.conf import settings
from django.contrib.auth.models import User

from engine.commands.model import AtomicScript, Clone, Command, Create, Script, Vacuum
from engine.commands.names import ANY_TABLE
from engine.commands.script import step_table
from engine.commands.sources import QuerySource, TableSource
from engine.errors import EngineError, RequestError, TableNotFoundError, UnknownColumnError
from engine.expressions.queries.binder import bind_query
from engine.protocol.properties import TableProperties
from engine.schema.types import StructType, parse_schema
from engine.vocabulary import OPERATION_OF_COMMAND, Changes, NewFiles, Reads
from lakeui.catalog.access import action_for_kind, may
from lakeui.catalog.command_tables import table_called
from lakeui.catalog.database_catalog import may_commit_together
from lakeui.catalog.models import Table
from lakeui.catalog.roots import check_source_uri, check_table_uri
from lakeui.jobs.errors import NotPermittedError, ReadOnlyError
from lakeui.jobs.models import Job
from lakeui.jobs.uploads import check_upload
from lakeui.task_names import LIGHT_QUEUE, READS_QUEUE, SPARK_QUEUE

_FILE_COLUMN = "_metadata"
_CHANGES_COLUMNS = ("merge_schema", "overwrite_schema", "schema_evolution")


def command_of(job: Job) -> Command:
    """Return the command in a job's row."""
    return Command.from_parameters(job.kind, job.parameters)


def statement_of(command: Command, table: Table) -> str:
    """Return the command as SQL with the table's name.

    A command whose queries read its own table keeps their name for it.
    """
    return (command if command.names_itself else replace(command, table=table.name)).statement()


def queue_of(command: Command, *, dry_run: bool) -> str:
    """Choose the workers of a command: those without a JVM where it needs none.

    A dry run reads rows for a person, and shares the queue of such reads.
    """
    if dry_run:
        return READS_QUEUE
    if isinstance(command, Script):
        queues = {queue_of(step, dry_run=False) for step in command.steps}
        return SPARK_QUEUE if SPARK_QUEUE in queues else LIGHT_QUEUE
    if isinstance(command, Clone) and command.deep:
        return SPARK_QUEUE  # it needs no JVM, but would delay quick jobs
    loads = isinstance(command, Create) and command.source is not None
    return SPARK_QUEUE if loads or handles_rows(command.kind) else LIGHT_QUEUE


def handles_rows(kind: str) -> bool:
    """Return whether a kind of command may read or write rows; it then needs Spark."""
    operation = OPERATION_OF_COMMAND[kind]
    return operation.reads is not Reads.NOTHING or operation.files is NewFiles.WRITTEN


def check_command(command: Command, table: Table, *, knows_schema: bool = True) -> None:
    """Check that a command names this table, stays under the roots and fits the mirrored schema.

    The schema is checked only if the mirror knows it. Steps of a script are checked in any case.

    Raises:
        RequestError: it names another table, or does not fit.
        PathOutsideRootError: the table or a source lies outside the allowed roots.
    """
    if command.table not in ("", ANY_TABLE, table.name, table.uri):
        msg = f"The statement changes {command.table}, but the job is for {table.name}."
        raise RequestError(msg, "Use the same table in both places.", field="table")
    if isinstance(command, Script):
        check_table_uri(table.uri)
        _check_steps(command, table)
        return
    _check_at(command, table, knows_schema=knows_schema)


def _check_at(command: Command, table: Table, *, knows_schema: bool) -> None:
    check_table_uri(table.uri)
    for uri in source_uris(command):
        check_source_uri(uri)
    command.validate(parse_schema(table.schema) if table.schema and knows_schema else None)
    if knows_schema:
        _refuse_spark_columns(command, table)
    if isinstance(command, Vacuum):
        command.retention_ms(table.name, _retention_ms(table))


def _refuse_spark_columns(command: Command, table: Table) -> None:
    """Refuse a query of `_metadata`, Spark's column of files, if no table of it has such a column."""

    def schema_of(name: str, _version: int | str | None) -> StructType:
        named_table = table if command.is_own_name(name) else table_called(name)
        if named_table is None or not named_table.schema:
            raise TableNotFoundError(name)
        return parse_schema(named_table.schema)

    source = getattr(command, "source", None)
    if isinstance(source, QuerySource | TableSource) and _FILE_COLUMN in source.sql().lower():
        try:
            bind_query(source.sql(), schema_of)
        except UnknownColumnError as error:
            if _FILE_COLUMN in str(error).lower():
                raise
        except EngineError:
            return  # the worker reads the table itself, and reports it


def _check_names(step: Command, table: Table) -> None:
    """Refuse a step on another table that reads the job's table as "t", if a table is called so.

    A name that the step gives its own table is its own table's, whoever else has it.
    """
    if ANY_TABLE not in {name.lower() for name in step.other_tables_read()}:
        return
    other = table_called(ANY_TABLE)
    if other is not None and other.pk != table.pk:
        msg = (
            f"{ANY_TABLE} means {table.name} in this script, but it is also the name of "
            "another table."
        )
        remedy = (
            f"Use the name {table.name} for the job's table, and the location for the other table."
        )
        raise RequestError(msg, remedy, field="source.table")


def _retention_ms(table: Table) -> int:
    """Return the mirrored retention of deleted files; 0 if the properties are unreadable."""
    given = {str(name): str(value) for name, value in (table.properties or {}).items()}
    try:
        return TableProperties.parse(given).deleted_file_retention_ms
    except EngineError:
        return 0  # the operation reports their error


def _check_steps(script: Script, table: Table) -> None:
    """Check each step at its table; columns changed by an earlier step are not known yet."""
    redefined: set[int] = set()
    for step in script.steps:
        changed = resolve_step_table(step, table, None)
        if isinstance(script, AtomicScript) and not may_commit_together(table, changed):
            what = f"The transaction is for {table.name}, and a statement changes {changed.name}."
            remedy = "Use a transaction for each table, or tables that the catalog manages."
            raise RequestError(what, remedy, field="steps")
        _check_names(step, table)
        _check_at(step, changed, knows_schema=changed.pk not in redefined)
        if _redefines(step):
            redefined.add(changed.pk)


def _redefines(step: Command) -> bool:
    """Whether the columns may be others afterwards."""
    given = step.parameters()
    grows = any(given.get(name) for name in _CHANGES_COLUMNS)
    return grows or Changes.COLUMNS in OPERATION_OF_COMMAND[step.kind].changes


def resolve_step_table(step: Command, table: Table, by: User | None) -> Table:
    """Return the table that a step of a script changes: the job's own if it names none.

    Raises:
        RequestError: it is not registered, or hidden from this person.
    """
    name = step_table(step)
    if name in ("", table.name, table.uri):
        return table
    return readable_table(name, by, field="steps")


def check_sources(command: Command, by: User | None, checked_names: Collection[str] = ()) -> None:
    """Check that a person may read each table and each uploaded file of a command.

    The names in `checked_names` have been checked.

    Raises:
        RequestError: a table is not registered, or hidden from them; the message is the same.
        UploadNotFoundError: an uploaded file is missing, or not theirs; the message is the same.
    """
    for name in command.other_tables_read():
        if name.lower() not in checked_names:
            readable_table(name, by)
    for step in command.steps if isinstance(command, Script) else (command,):
        if isinstance(step, Clone):
            readable_table(step.source_table, by, field="source_table")
        for uri in source_uris(step):
            check_upload(uri, by)


def readable_table(name: str, by: User | None, field: str = "source.table") -> Table:
    """Return the registered table of a statement, by its name or location; `field` names it.

    Raises:
        RequestError: there is none, or it is hidden from this person.
    """
    named = table_called(name)
    if named is None or (by is not None and not may(by, "view", named)):
        msg = f"The source table {name[:200]} does not exist."
        raise RequestError(msg, "Use a registered table.", field=field)
    return named


def check_allowed(by: User | None, command: Command, table: Table | None) -> None:
    """Check that jobs are accepted here, and this one from this person.

    Raises:
        ReadOnlyError, NotPermittedError, RequestError: as they say.
    """
    if settings.READ_ONLY:
        raise ReadOnlyError
    check_rights(command, table, by)


def check_rights(command: Command, table: Table | None, by: User | None) -> None:
    """Check that a person may run this command, and each step of a script at its own table.

    Raises:
        NotPermittedError: they may not.
        RequestError: a step's table is hidden from them.
    """
    if isinstance(command, Script) and table is not None:
        for step in command.steps:
            check_rights(step, resolve_step_table(step, table, by), by)
        return
    action = action_for_kind(command.kind, command.parameters())
    if by is not None and not may(by, action, table):
        raise NotPermittedError(command.kind, action, table.name if table else "new tables")


def source_uris(value: object) -> Iterator[str]:
    """Iterate over the `uri` of every value inside a command, at any depth."""
    if not is_dataclass(value):
        return
    for part in fields(value):
        inner = getattr(value, part.name)
        if part.name == "uri" and isinstance(inner, str):
            yield inner
        yield from source_uris(inner)
