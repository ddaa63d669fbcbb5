"""Statements unknown to Spark's parser: maintenance, history and clones of Delta tables.

The engine's grammar reads them. The table's name is looked up in the session's catalog, and a plain
name stands for it while the rest is read.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise

from pyspark.sql import DataFrame, SparkSession

from engine.catalog.catalog import CatalogTableName
from engine.commands.command import Command
from engine.commands.merge import Merge
from engine.commands.model import (
    Append,
    Clone,
    Create,
    Optimize,
    Overwrite,
    Reorg,
    Restore,
    SetProperties,
    UnsetProperties,
    Update,
    Vacuum,
)
from engine.commands.names import is_location
from engine.commands.script import Script, step_table
from engine.commands.sources import DataFrameSource, QuerySource, Source, TableSource
from engine.commands.sql import parse_request
from engine.commands.sql_alter import parse_hive_changes
from engine.commands.statement_cursor import StatementCursor
from engine.delta.conversion import convert_files
from engine.delta.creation import NewTableDefinition, check_definition, make_table
from engine.delta.handle import Handle
from engine.delta.names import (
    PROVIDERS,
    NameUnknownError,
    NotADeltaTableError,
    find_delta,
    name_sql,
    open_table,
    parts_of,
    path_in,
    timestamp_text,
)
from engine.delta.optimize_builder import DeltaOptimizeBuilder, run_optimize
from engine.delta.result_frames import (
    clone_frame,
    count_frame,
    description_frame,
    detail_frame,
    hadoop_uri,
    history_frame,
    merge_frame,
    nothing,
    pairs_frame,
    paths_frame,
    restore_frame,
    table_properties,
)
from engine.delta.row_statements import rename_by_position
from engine.delta.statement_views import StatementNotRoutedError
from engine.delta.table_reads import frame_of
from engine.errors import RequestError, TableNotFoundError
from engine.operations.execution import Execution
from engine.operations.maintenance.manifest import generate
from engine.spark.columns import quote_column
from engine.spark.session import plain_sql
from engine.spark.session_catalog import SessionTable, find_catalog, find_table
from engine.storage.uri import is_same_place

_OF_SPARK = frozenset(
    {("RENAME", "TO"), ("ADD", "PARTITION"), ("DROP", "PARTITION"), ("RECOVER", "PARTITIONS")}
)
"""Changes of a named table that Spark makes in its catalog, or refuses."""
_RETENTION_CHECK = "spark.databricks.delta.retentionDurationCheck.enabled"


class StatisticsError(RequestError):
    """ANALYZE TABLE names a Delta table."""

    code = "NOT_SUPPORTED_COMMAND_FOR_V2_TABLE"

    def __init__(self) -> None:
        """Say where the statistics are."""
        what = "ANALYZE TABLE is not supported for Delta tables: each write keeps statistics."
        super().__init__(what, "Leave the statement out.", field="sql")


class NotPartitionedError(
    RequestError, code="DELTA_SHOW_PARTITION_IN_NON_PARTITIONED_TABLE", sqlstate="42809"
):
    """SHOW PARTITIONS of a table without partition columns."""


class DefinitionShownError(RequestError, code="DELTA_OPERATION_NOT_ALLOWED", sqlstate="0AKDC"):
    """SHOW CREATE TABLE of a Delta table."""


class NewLocationError(RequestError, code="DELTA_SET_LOCATION_SCHEMA_MISMATCH"):
    """The table at a new location has other columns."""


@dataclass(frozen=True)
class StatementTable:
    """A table as a statement names it: the parts of its name, or a path alone."""

    parts: tuple[str, ...]
    start: int
    end: int

    @property
    def sql(self) -> str:
        """The name as SQL."""
        return name_sql(self.parts)


def table_name(cursor: StatementCursor) -> StatementTable:
    """Parse the next name: parts separated by dots, or a path in quotes.

    Raises:
        StatementError: the next token is no name.
    """
    token = cursor.token()
    if token is not None and token.kind == "string":
        cursor.index += 1
        return StatementTable(("delta", token.value), token.position, token.end)
    start = cursor.position
    if cursor.peek() == "IDENTIFIER" and cursor.peek(1) == "(":
        cursor.need("IDENTIFIER", "(")
        text = cursor.string("a name")
        cursor.need(")")
        return StatementTable(parts_of(text), start, cursor.tokens[cursor.index - 1].end)
    parts = [cursor.name()]
    while cursor.take("."):
        parts.append(cursor.name())
    return StatementTable(tuple(parts), start, cursor.tokens[cursor.index - 1].end)


def handle_of(spark: SparkSession, name: StatementTable) -> Handle:
    """Return the Delta table of a name.

    Raises:
        NameUnknownError: there is no table of this name.
        NotADeltaTableError: it is a table of another format, or a view.
    """
    place = find_delta(spark, name.parts)
    shown = name.parts[-1] if name.parts[0].lower() in PROVIDERS else ".".join(name.parts)
    if place is None:
        unknown = find_table(spark, name.sql) is None
        raise NameUnknownError(shown) if unknown else NotADeltaTableError(shown)
    return Handle(spark, open_table(spark, place.location, name=shown), name=place.name)


Statement = Callable[[SparkSession, StatementCursor], DataFrame | None]


def _parse_table_statement(
    spark: SparkSession, cursor: StatementCursor
) -> tuple[Handle, Command, bool]:
    """Parse a statement of the engine's grammar from its table's name on."""
    name = table_name(cursor)
    handle = handle_of(spark, name)
    text = cursor.text[: name.start] + "t".ljust(name.end - name.start) + cursor.text[name.end :]
    command, dry_run = parse_request(text)
    return handle, replace(command, table=""), dry_run


def _refuse_dry_run(dry_run: bool) -> None:
    if dry_run:
        what = "Only VACUUM has a DRY RUN in spark.sql."
        raise StatementNotRoutedError(what, "Leave it out.", field="sql")


def _optimize(spark: SparkSession, cursor: StatementCursor) -> DataFrame:
    handle, command, dry_run = _parse_table_statement(spark, cursor)
    _refuse_dry_run(dry_run)
    if isinstance(command, Optimize) and command == Optimize(command.where, command.zorder_by):
        builder = DeltaOptimizeBuilder(handle)
        if command.where:
            builder.where(command.where)
        columns = list(command.zorder_by)
        return builder.executeZOrderBy(columns) if columns else builder.executeCompaction()
    return run_optimize(handle, command)


def _reorg(spark: SparkSession, cursor: StatementCursor) -> DataFrame:
    handle, command, dry_run = _parse_table_statement(spark, cursor)
    _refuse_dry_run(dry_run)
    if not isinstance(command, Reorg) or command.upgrade_uniform is not None:
        handle.run(command)
        return nothing(spark)
    return run_optimize(handle, command)


def _vacuum(spark: SparkSession, cursor: StatementCursor) -> DataFrame:
    handle, command, dry_run = _parse_table_statement(spark, cursor)
    unchecked = (handle.setting(_RETENTION_CHECK) or "").lower() == "false"
    if isinstance(command, Vacuum) and unchecked:
        command = replace(command, override_retention=True)
    result = handle.run(command, dry_run=dry_run)
    uri = handle.table.uri
    if result.plan is None:
        return paths_frame(spark, [hadoop_uri(uri)])
    return paths_frame(spark, [f"{hadoop_uri(uri)}/{file.path}" for file in result.plan.files])


def _restore(spark: SparkSession, cursor: StatementCursor) -> DataFrame:
    handle, command, dry_run = _parse_table_statement(spark, cursor)
    _refuse_dry_run(dry_run)
    if isinstance(command, Restore) and command.timestamp is not None:
        command = replace(command, timestamp=timestamp_text(spark, command.timestamp))
    return restore_frame(spark, handle.run(command))


def _change(spark: SparkSession, cursor: StatementCursor) -> DataFrame | None:
    """Run ALTER TABLE, TRUNCATE TABLE or COMMENT ON TABLE; return None for other tables and for Spark's RENAME."""
    start = cursor.index
    name = table_name(cursor)
    place = find_delta(spark, name.parts)
    if place is None:
        return None
    if place.name and cursor.take("SET", "LOCATION"):
        _check_new_location(spark, place, cursor.string("a location"))
        return None
    if place.name and (cursor.peek(), cursor.peek(1)) in _OF_SPARK:
        return None
    changes = _changes_of_column(spark, name, cursor)
    if changes is not None:
        return changes
    cursor.index = start
    handle, command, dry_run = _parse_table_statement(spark, cursor)
    _refuse_dry_run(dry_run)
    if isinstance(command, UnsetProperties):
        command = replace(command, if_exists=True)
    handle.run(command)
    return nothing(spark)


def _check_new_location(spark: SparkSession, place: SessionTable, location: str) -> None:
    """Refuse to move a name to a location without a table, or to a table with other columns.

    Raises:
        NotADeltaTableError: there is no table.
        NewLocationError: its columns differ.
    """
    there = open_table(spark, location).snapshot()
    here = open_table(spark, place.location).snapshot()
    try:
        check_definition(location, there, here.schema, here.partition_columns, (), {})
    except RequestError as error:
        raise NewLocationError(error.what, "Drop the name and create it there.") from error


def _changes_of_column(
    spark: SparkSession, name: StatementTable, cursor: StatementCursor
) -> DataFrame | None:
    """CHANGE COLUMN as Hive has it; None of any other change."""
    if cursor.peek() != "CHANGE":
        return None
    handle = handle_of(spark, name)
    changes = parse_hive_changes(cursor, handle.table.snapshot().schema)
    if changes is None:
        return None
    for change in changes:
        handle.run(change)
    return nothing(spark)


def _history(spark: SparkSession, cursor: StatementCursor) -> DataFrame:
    handle = handle_of(spark, table_name(cursor))
    limit = cursor.integer() if cursor.take("LIMIT") else None
    cursor.end()
    return history_frame(spark, handle.table, limit)


def _detail(spark: SparkSession, cursor: StatementCursor) -> DataFrame:
    handle = handle_of(spark, table_name(cursor))
    cursor.end()
    return detail_frame(spark, handle.table.snapshot(), handle.name)


def _convert(spark: SparkSession, cursor: StatementCursor) -> DataFrame:
    """CONVERT TO DELTA parquet.`/path` [NO STATISTICS] [PARTITIONED BY (columns)]."""
    name = table_name(cursor)
    cursor.take("NO", "STATISTICS")
    columns = None
    if cursor.take("PARTITIONED", "BY"):
        cursor.need("(")
        columns = cursor.take_until(")")
        cursor.need(")")
    cursor.end()
    convert_files(spark, name.sql, columns)
    return nothing(spark)


def _generate(spark: SparkSession, cursor: StatementCursor) -> DataFrame:
    """GENERATE mode FOR TABLE t."""
    mode = cursor.name()
    cursor.need("FOR", "TABLE")
    handle = handle_of(spark, table_name(cursor))
    cursor.end()
    generate(mode, Execution(handle.table, spark))
    return nothing(spark)


def _properties(spark: SparkSession, cursor: StatementCursor) -> DataFrame | None:
    """SHOW TBLPROPERTIES t [('key')]."""
    name = table_name(cursor)
    place = find_delta(spark, name.parts)
    if place is None:
        return None
    shown = table_properties(handle_of(spark, name).table.snapshot())
    if cursor.take("("):
        key = cursor.property_key()
        cursor.need(")")
        shown_name = place.name.replace("`", "") or name.sql
        absent = f"Table {shown_name} does not have property: {key}"
        shown = {key: shown.get(key, absent)}
    cursor.end()
    return pairs_frame(spark, shown)


def _partitions(spark: SparkSession, cursor: StatementCursor) -> DataFrame | None:
    """SHOW PARTITIONS t: the values of its partition columns; None for another format."""
    name = table_name(cursor)
    if find_delta(spark, name.parts) is None:
        return None
    table = handle_of(spark, name).table
    snapshot = table.snapshot()
    cursor.end()
    if not snapshot.partition_columns:
        what = f"{name.sql} has no partition columns."
        raise NotPartitionedError(what, "Leave the statement out.", field="sql")
    columns = [quote_column(column) for column in snapshot.partition_columns]
    return frame_of(spark, table, snapshot).select(*columns).distinct()


def _refuse_definition(spark: SparkSession, cursor: StatementCursor) -> None:
    """SHOW CREATE TABLE t: leave another table to Spark."""
    if find_delta(spark, table_name(cursor).parts) is not None:
        what = "SHOW CREATE TABLE is not supported for Delta tables."
        raise DefinitionShownError(what, "Use DESCRIBE DETAIL and DESCRIBE TABLE.", field="sql")


def _analyze(spark: SparkSession, cursor: StatementCursor) -> None:
    """ANALYZE TABLE t: leave another table to Spark."""
    if find_delta(spark, table_name(cursor).parts) is not None:
        raise StatisticsError


def _describe(spark: SparkSession, cursor: StatementCursor) -> DataFrame | None:
    """Run DESCRIBE [TABLE] [EXTENDED | FORMATTED] t: its columns and location."""
    cursor.take("TABLE")
    extended = cursor.take("EXTENDED") or cursor.take("FORMATTED")
    token = cursor.token()
    if token is None or token.kind not in {"word", "name", "string"}:
        return None
    name = table_name(cursor)
    place = find_delta(spark, name.parts) if cursor.at_end else None
    if place is None:
        return None
    snapshot = handle_of(spark, name).table.snapshot()
    return description_frame(spark, snapshot, place, extended=extended)


def _drop(spark: SparkSession, cursor: StatementCursor) -> DataFrame | None:
    """Run DROP TABLE [IF EXISTS] t [PURGE] for a catalog with Unity Catalog's API; None for another."""
    guard = cursor.take("IF", "EXISTS")
    name = table_name(cursor)
    catalog = find_catalog(spark, name.parts[0]) if len(name.parts) == 3 else None
    if catalog is None:
        return None
    cursor.take("PURGE")
    cursor.end()
    try:
        catalog.drop_table(CatalogTableName(*name.parts))
    except TableNotFoundError as error:
        if not guard:
            raise NameUnknownError(name.sql) from error
    return nothing(spark)


def clone(spark: SparkSession, cursor: StatementCursor) -> DataFrame:
    """CREATE [OR REPLACE] TABLE [IF NOT EXISTS] t [SHALLOW | DEEP] CLONE s [… AS OF …] [LOCATION '…']."""
    replaces = cursor.take("REPLACE") or cursor.take("CREATE", "OR", "REPLACE")
    if not replaces:
        cursor.need("CREATE")
    cursor.need("TABLE")
    guard = cursor.take("IF", "NOT", "EXISTS")
    target = table_name(cursor)
    shallow = cursor.take("SHALLOW")
    if not shallow:
        cursor.take("DEEP")
    cursor.need("CLONE")
    source = handle_of(spark, table_name(cursor))
    version, timestamp = cursor.point()
    if timestamp is not None:
        timestamp = timestamp_text(spark, timestamp)
    properties = cursor.properties() if cursor.take("TBLPROPERTIES") else {}
    location = cursor.string("a location") if cursor.take("LOCATION") else ""
    cursor.end()
    command = Clone(
        source.table.uri,
        version,
        timestamp,
        if_not_exists=guard,
        replace=replaces,
        deep=not shallow,
    )
    definition = NewTableDefinition(
        target.sql, location, replace=replaces, if_not_exists=guard, clone=command
    )
    place, result = make_table(spark, definition)
    if properties:
        place.run(SetProperties(properties=properties))
    cloned = clone_frame(spark, result)
    return cloned if result.version is not None else cloned.limit(0)


def _rows(spark: SparkSession, cursor: StatementCursor) -> DataFrame | None:
    """Run DELETE FROM or UPDATE, parsed by the engine; return None for another format."""
    start = cursor.index
    if find_delta(spark, table_name(cursor).parts) is None:
        return None
    cursor.index = start
    handle, command, dry_run = _parse_table_statement(spark, cursor)
    _refuse_dry_run(dry_run)
    metric = "numUpdatedRows" if isinstance(command, Update) else "numDeletedRows"
    return count_frame(spark, handle.run(command), metric)


Statements = tuple[tuple[tuple[str, ...], Statement], ...]


def write_rows(spark: SparkSession, cursor: StatementCursor) -> DataFrame | None:
    """Run MERGE or INSERT, parsed by the engine; return None for another format."""
    while not cursor.at_end and not (cursor.take("INTO") or cursor.take("OVERWRITE")):
        cursor.index += 1
    cursor.take("TABLE")
    name = table_name(cursor)
    if find_delta(spark, name.parts) is None:
        return None
    handle = handle_of(spark, name)
    command, dry_run = parse_request(cursor.text)
    _refuse_dry_run(dry_run)
    if isinstance(command, Merge):
        source = _readable_source(spark, command.source, (command.source_alias,))
        return merge_frame(spark, handle.run(replace(command, source=source)))
    if not isinstance(command, Append | Overwrite):
        return None
    given, source = command.source, _readable_source(spark, command.source)
    if isinstance(source, DataFrameSource) and getattr(given, "by_position", False):
        columns = given.columns if isinstance(given, QuerySource) else ()
        names = columns or handle.table.snapshot().schema.names
        source = replace(source, frame=rename_by_position(source.frame, names))
    handle.run(replace(command, source=source))
    return nothing(spark)


def _run_transaction(spark: SparkSession, cursor: StatementCursor) -> DataFrame:
    """Run BEGIN ATOMIC …; END at the tables of its statements.

    Raises:
        StatementNotRoutedError: one changes a table called `t` that is not the first one.
    """
    command, dry_run = parse_request(cursor.text)
    _refuse_dry_run(dry_run)
    steps = command.steps if isinstance(command, Script) else (command,)
    first = handle_of(spark, StatementTable(_parts_of_target(steps[0].table), 0, 0))
    for step in steps[1:]:
        if not step_table(step):  # `t`, which means the first table to `run`
            other = handle_of(spark, StatementTable(_parts_of_target(step.table), 0, 0))
            if not is_same_place(other.table.uri, first.table.uri):
                what = f"The transaction runs on {first.table.uri}, and a statement changes "
                what += f"{other.table.uri}."
                remedy = "Use a transaction for each table."
                raise StatementNotRoutedError(what, remedy, field="sql")
    first.run(command)
    return nothing(spark)


def _parts_of_target(name: str) -> tuple[str, ...]:
    return ("delta", name) if is_location(name) else parts_of(name)


def _create(spark: SparkSession, cursor: StatementCursor) -> DataFrame | None:
    """Run CREATE or REPLACE TABLE … USING delta, parsed by the engine; None for another format."""
    guard = cursor.take("IF", "NOT", "EXISTS")
    name = table_name(cursor)
    location, text = _cut_location(cursor)
    words = [token.value for token in cursor.tokens]
    uses = [words[at + 1].lower() for at, word in enumerate(words[:-1]) if word == "USING"][:1]
    if path_in(name.sql) is None and uses not in (["delta"], ["lake"]):
        return None
    command, dry_run = parse_request(text)
    _refuse_dry_run(dry_run)
    if not isinstance(command, Create):
        return None
    source = None if command.source is None else _readable_source(spark, command.source)
    make_table(
        spark,
        NewTableDefinition(
            name.sql,
            location,
            columns=command.schema.fields if command.schema is not None else (),
            partition_columns=command.partition_columns,
            clustering_columns=command.clustering_columns,
            properties=command.properties,
            description=command.description,
            if_not_exists=guard,
            replace=command.replace,
            must_exist=words[0] == "REPLACE",
            source=source,
        ),
    )
    return nothing(spark)


def _cut_location(cursor: StatementCursor) -> tuple[str, str]:
    """Return the text after LOCATION, and the statement without it."""
    text = cursor.text
    for word, place in pairwise(cursor.tokens):
        if word.value in {"AS", "SELECT"}:
            break
        if word.value == "LOCATION" and word.kind == "word" and place.kind == "string":
            return place.value, text[: word.position] + text[place.end :]
    return "", text


def _readable_source(spark: SparkSession, source: Source, names: tuple[str, ...] = ()) -> Source:
    """Return a source that the engine reads: of Delta tables itself, of others by the server."""
    if not isinstance(source, TableSource | QuerySource):
        return source
    is_ours = {find_delta(spark, parts_of(name)) is not None for name in source.tables_read()}
    if is_ours == {True, False}:
        what = "The statement reads Delta tables together with views or tables of another format."
        raise StatementNotRoutedError(what, "Write the others to a Delta table first.", field="sql")
    if is_ours != {False}:
        return source
    return DataFrameSource(plain_sql(spark, source.sql()), names)


CHANGES: Statements = (
    (("DELETE", "FROM"), _rows),
    (("UPDATE",), _rows),
    (("MERGE",), write_rows),
    (("INSERT",), write_rows),
    (("CREATE", "TABLE"), _create),
    (("CREATE", "OR", "REPLACE", "TABLE"), _create),
    (("REPLACE", "TABLE"), _create),
)
"""Statements that Spark's parser knows as well."""
TABLE_STATEMENTS: Statements = (
    (("OPTIMIZE", "TABLE"), _optimize),
    (("OPTIMIZE",), _optimize),
    (("VACUUM", "TABLE"), _vacuum),
    (("VACUUM",), _vacuum),
    (("REORG", "TABLE"), _reorg),
    (("RESTORE", "TABLE"), _restore),
    (("RESTORE",), _restore),
    (("ALTER", "TABLE"), _change),
    (("TRUNCATE", "TABLE"), _change),
    (("DROP", "TABLE"), _drop),
    (("COMMENT", "ON", "TABLE"), _change),
    (("ANALYZE", "TABLE"), _analyze),
    (("DESCRIBE", "HISTORY"), _history),
    (("DESC", "HISTORY"), _history),
    (("DESCRIBE", "DETAIL"), _detail),
    (("DESC", "DETAIL"), _detail),
    (("DESCRIBE",), _describe),
    (("DESC",), _describe),
    (("CONVERT", "TO", "DELTA"), _convert),
    (("GENERATE",), _generate),
    (("SHOW", "TBLPROPERTIES"), _properties),
    (("SHOW", "PARTITIONS"), _partitions),
    (("SHOW", "CREATE", "TABLE"), _refuse_definition),
    (("BEGIN", "ATOMIC"), _run_transaction),
)
"""The first words of each statement, before the name of its table."""


def is_clone(cursor: StatementCursor) -> bool:
    """Whether a CREATE or REPLACE is of a clone."""
    words = [token.value for token in cursor.tokens[:20] if token.kind == "word"]
    if words[:1] not in (["CREATE"], ["REPLACE"]) or "CLONE" not in words:
        return False
    before = words[: words.index("CLONE")]
    return "TABLE" in before and not {"AS", "USING", "SELECT"} & set(before)
