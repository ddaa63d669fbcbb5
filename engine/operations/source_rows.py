"""Rows of a write's source: files, literal rows, a Delta table, or a DataFrame."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from pyspark.errors import AnalysisException

from engine.commands.defaults import (
    query_with_defaults,
    values_with_defaults,
)
from engine.commands.names import plain_names
from engine.commands.sources import (
    ArrowSource,
    DataFrameSource,
    FileSource,
    QuerySource,
    RowsSource,
    Source,
    TableSource,
)
from engine.errors import RequestError
from engine.expressions.lexer import tokenize
from engine.expressions.parse import parse_condition, parse_expression
from engine.expressions.queries.binder import bind_query
from engine.expressions.render import to_sql
from engine.expressions.scope import Relation, Scope
from engine.expressions.session_terms import alike_conjuncts
from engine.expressions.tree import Column, Expression
from engine.expressions.types import holds_timestamps
from engine.operations.caller_rows import names_by_position
from engine.operations.execution import READ_SOURCE, Execution
from engine.operations.frame_sources import rows_of_frame
from engine.operations.literal_rows import rows_in_spark
from engine.operations.query_tables import QueryTables
from engine.operations.query_tables import other_files as other_files
from engine.schema.types import StructType
from engine.schema.write_errors import ColumnCountError
from engine.spark.columns import from_spark_schema, is_true, to_column
from engine.spark.own_columns import move_to_session
from engine.spark.reader import ScanRequest, scan
from engine.spark.session import ENGINE_TERMS, is_in_utc
from engine.spark.shape import cast_in_session
from engine.spark.sources import SourceRows, read_files
from engine.transaction.optimistic_transaction import OptimisticTransaction

_TEXT_FORMATS = ("csv", "json")
_CONSTANT = "constant"


def source_rows(
    execution: Execution,
    source: Source,
    target_schema: StructType | None,
    txn: OptimisticTransaction | None,
    *,
    stored: bool = True,
    takes_more: bool = False,
) -> SourceRows:
    """Return the rows of a source.

    Args:
        execution: the run.
        source: the source.
        target_schema: the columns of the target table, None if the source decides.
        txn: the writing transaction; reads of its own table are registered with it.
        stored: whether written-out values are cast at once to the table's columns of their names,
            and a DataFrame's session casts its times to them; a MERGE compares the values first.
        takes_more: whether extra columns may come by position: the schema evolves.

    Raises:
        RequestError: the source does not exist or is not readable as rows.
        ColumnCountError: given by position, it has more or fewer columns than the table.
    """
    execution.begin_stage(READ_SOURCE)
    if isinstance(source, FileSource):
        return _read_files(execution, source, target_schema)
    if isinstance(source, DataFrameSource):
        return rows_of_frame(execution, source, txn, target_schema if stored else None)
    if isinstance(source, RowsSource | ArrowSource):
        rows = rows_in_spark(execution, source, target_schema, stored=stored, takes_more=takes_more)
    elif isinstance(source, QuerySource):
        rows = _read_query(execution, source, target_schema, txn, takes_more=takes_more)
    else:
        rows = _read_table(execution, source, target_schema, txn, takes_more=takes_more)
    frame = rows.frame
    if stored and target_schema is not None and not is_in_utc(frame.sparkSession):
        frame = cast_in_session(frame, target_schema)
    frame = move_to_session(frame, execution.spark)
    return replace(rows, frame=frame, schema=from_spark_schema(frame.schema))


def _read_files(
    execution: Execution, source: FileSource, target_schema: StructType | None
) -> SourceRows:
    @contextmanager
    def apart(stage: str) -> Iterator[None]:
        with execution.watch_stage(stage):
            yield
        execution.begin_stage(READ_SOURCE)

    tells_time = target_schema is None or holds_timestamps(target_schema)
    if source.format in _TEXT_FORMATS and tells_time and not is_in_utc(execution.caller):
        msg = "Times in text files are read in UTC, and this session has another time zone."
        raise RequestError(msg, ENGINE_TERMS, field="session")
    options = execution.table.storage_options
    try:
        return read_files(execution.spark, source, target_schema, options, apart=apart)
    except AnalysisException as error:  # a format cannot hold a type: JSON's keys are text
        reason = str(error).partition("SQLSTATE")[0].strip()[:400]
        msg = f"Files of the format {source.format} cannot be read into these columns: {reason}"
        raise RequestError(
            msg, "Use Parquet files, or other types.", field="source.format"
        ) from error


def _read_query(
    execution: Execution,
    source: QuerySource,
    target_schema: StructType | None,
    txn: OptimisticTransaction | None,
    *,
    takes_more: bool,
) -> SourceRows:
    tables = QueryTables(execution, txn)
    text = source.query
    if target_schema is not None:
        places = source.columns or (target_schema.names if source.by_position else ())
        text = query_with_defaults(text, target_schema, plain_names(places))
    by_session = not execution.has_engine_terms
    query = bind_query(text, tables.schema, now_ms=execution.now_ms, by_session=by_session)
    names = plain_names(source.columns) or query.names
    if len(names) != len(query.columns):
        msg = f"{len(names)} columns are named, and the query gives {len(query.columns)}."
        raise ColumnCountError(msg, "Name as many as it gives.", field="source.columns")
    if source.by_position and not source.columns and target_schema is not None:
        names = names_by_position(target_schema, names, takes_more=takes_more)
    _check_names(names)
    frame = tables.frame(query).toDF(*names)
    return SourceRows(frame, from_spark_schema(frame.schema))


def _check_names(names: Sequence[str]) -> None:
    lowered = [name.lower() for name in names]
    repeated = next((name for name in names if lowered.count(name.lower()) > 1), None)
    if repeated is not None:
        msg = f"Two columns of the query are called {repeated}."
        raise RequestError(msg, "Give one another name with AS.", field="source")


def _read_table(
    execution: Execution,
    source: TableSource,
    target_schema: StructType | None,
    txn: OptimisticTransaction | None,
    *,
    takes_more: bool,
) -> SourceRows:
    other, snapshot = execution.open_named(source.table, source.version)
    scope = Scope((Relation(snapshot.schema, "", _names(source)),))
    now_ms, by_session = execution.now_ms, not execution.has_engine_terms
    where = None
    if source.where:
        where = parse_condition(source.where, scope, now_ms=now_ms, by_session=by_session)
    portable = alike_conjuncts(where) if by_session else where
    own = execution.named_tables.is_target(other)
    if txn is not None and own and source.version is None:
        txn.read_where(portable)
    files = snapshot.add_files(portable)
    table = other_files(execution, other, snapshot)
    frame = move_to_session(scan(execution.spark, table, ScanRequest(files)), execution.caller)
    if where is not None:
        frame = frame.filter(is_true(where))
    if source.columns:
        texts = source.columns
        if source.by_position and target_schema is not None:
            texts = values_with_defaults(texts, target_schema)
        chosen = [_parse_projection(text, scope, now_ms, by_session) for text in texts]
        frame = frame.select(*[to_column(tree).alias(name) for name, tree in chosen])
    if source.by_position and target_schema is not None:
        frame = frame.toDF(*names_by_position(target_schema, frame.columns, takes_more=takes_more))
    _check_names(frame.columns)
    return SourceRows(frame, from_spark_schema(frame.schema))


def _names(source: TableSource) -> tuple[str, ...]:
    return tuple(name for name in (source.alias, source.table.rpartition(".")[2]) if name)


def _parse_projection(
    text: str, scope: Scope, now_ms: int, by_session: bool
) -> tuple[str, Expression]:
    """Parse `expression AS name`; without AS the name is the column's own."""
    tokens = tokenize(text)
    name = ""
    if len(tokens) > 2 and tokens[-2].kind == "word" and tokens[-2].value == "AS":
        last = tokens[-1]
        name = last.text if last.kind == "word" else last.value
        text = text[: tokens[-2].position]
    tree = parse_expression(text, scope, now_ms=now_ms, by_session=by_session)
    if not name:
        name = tree.path[-1] if isinstance(tree, Column) else to_sql(tree)
    return name, tree
