"""Rows of a write's source: files, literal rows, a Delta table, or a DataFrame.

Literal rows are those after VALUES, or Arrow data from a program.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import Column as SparkColumn
from pyspark.sql import functions as F  # noqa: N812

from engine.commands.column_sql import (
    default_tree,
    is_default,
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
from engine.errors import CannotEvaluateError, RequestError
from engine.expressions.arrow_cast import arrow_type
from engine.expressions.lexer import tokenize
from engine.expressions.parse import parse_condition, parse_expression, parse_value
from engine.expressions.queries.binder import bind_query
from engine.expressions.render import to_sql
from engine.expressions.scope import Relation, Scope
from engine.expressions.session_terms import alike_conjuncts, is_alike_everywhere
from engine.expressions.tree import INTERVAL, VOID, Call, Column, Expression, Literal
from engine.expressions.types import common_type, holds_timestamps, is_cast_by_zone, sql_name
from engine.operations.arrow_rows import evaluate_as, need_spark
from engine.operations.caller_rows import convert_rows, names_by_position
from engine.operations.execution import READ_SOURCE, Execution
from engine.operations.frame_sources import rows_of_frame
from engine.operations.query_tables import QueryTables
from engine.operations.query_tables import other_files as other_files
from engine.schema.arrow import to_arrow_type
from engine.schema.assignment import is_storable, plan_storage
from engine.schema.types import STRING, ArrayType, DataType, MapType, StructField, StructType
from engine.schema.write_errors import ColumnCountError
from engine.spark.columns import from_spark_schema, is_true, to_column, to_spark_type
from engine.spark.own_columns import move_to_session
from engine.spark.scan.reader import ScanRequest, scan
from engine.spark.session import ENGINE_TERMS, is_in_utc
from engine.spark.sources import SourceRows, read_files
from engine.spark.write.assignment import store_value
from engine.spark.write.shape import INSERT, cast_in_session
from engine.transaction.optimistic_transaction import OptimisticTransaction

_CONSTANT = "constant"

_TEXT_FORMATS = ("csv", "json")


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
        msg = "Times in text files are read in UTC, but this session has a different time zone."
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
        msg = f"{len(names)} columns are listed, but the query returns {len(query.columns)}."
        raise ColumnCountError(
            msg, "List as many columns as the query returns.", field="source.columns"
        )
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
        raise RequestError(msg, "Rename one of them with AS.", field="source")


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


def rows_in_spark(
    execution: Execution,
    source: RowsSource | ArrowSource,
    target_schema: StructType | None,
    *,
    stored: bool,
    takes_more: bool,
) -> SourceRows:
    """Return the rows as a DataFrame.

    Raises:
        ColumnCountError: given by position, they have more or fewer columns than the table.
    """
    if isinstance(source, ArrowSource):
        given, _ = convert_rows(source, target_schema, stored=False, takes_more=takes_more)
        frame = move_to_session(execution.spark.createDataFrame(given), execution.caller)
        return SourceRows(frame, from_spark_schema(frame.schema))
    trees, schema = _values(execution, source, target_schema, stored=stored, takes_more=takes_more)
    spark = execution.caller
    try:
        _check_alike(execution, trees, schema)
        frame = execution.spark.createDataFrame(_evaluate_rows(trees, schema)).coalesce(1)
    except CannotEvaluateError:
        pass  # Spark evaluates them
    else:
        return SourceRows(frame, schema, is_together=True)
    clause = INSERT if stored else "MERGE"
    rows = [
        F.struct(
            *[
                _render_stored_value(tree, column, clause).alias(column.name)
                for tree, column in zip(row, schema, strict=True)
            ]
        )
        for row in trees
    ]
    frame = spark.range(1).select(F.inline(F.array(*rows)))
    return SourceRows(frame, schema, is_together=True)


def rows_at_hand(
    execution: Execution, source: Source, target_schema: StructType, *, stored: bool = True
) -> tuple[pa.Table, StructType] | None:
    """Return the rows of a VALUES or Arrow source as Arrow; None if the source needs Spark.

    Arguments as in `source_rows`.

    Raises:
        RequestError: their values need Spark, and there is no session.
    """
    if not isinstance(source, RowsSource | ArrowSource):
        return None
    try:
        if isinstance(source, ArrowSource):
            if stored and not execution.has_engine_terms:
                _check_casts(convert_rows(source, target_schema, stored=False)[1], target_schema)
            return convert_rows(source, target_schema, stored=stored)
        trees, schema = _values(execution, source, target_schema, stored=stored, takes_more=False)
        _check_alike(execution, trees, schema)
        return _evaluate_rows(trees, schema), schema
    except CannotEvaluateError as error:
        need_spark(execution, error)
        return None


def _check_alike(
    execution: Execution, trees: Sequence[Sequence[Expression]], schema: StructType
) -> None:
    """Refuse values in this process that depend on the caller's session."""
    if execution.has_engine_terms:
        return
    for tree, column in ((tree, column) for row in trees for tree, column in zip(row, schema)):  # noqa: B905 - of one length
        stored = tree if tree.type in {column.type, VOID} else Call("cast", (tree,), column.type)
        if not is_alike_everywhere(stored):
            msg = f"The value of {column.name} depends on the session's time zone or ANSI mode."
            raise CannotEvaluateError(msg)


def _check_casts(data: StructType, target_schema: StructType) -> None:
    """Refuse to store rows in this process if the session's time zone decides their values."""
    for field in data:
        column = target_schema.get(field.name)
        if column is not None and is_cast_by_zone(field.type, column.type):
            msg = f"The values of {field.name} are stored in the session's time zone."
            raise CannotEvaluateError(msg)


def _values(
    execution: Execution,
    source: RowsSource,
    target_schema: StructType | None,
    *,
    stored: bool,
    takes_more: bool,
) -> tuple[list[list[Expression]], StructType]:
    """Parse the values into trees, one type per column, and return them with their columns."""
    now_ms, by_session = execution.now_ms, not execution.has_engine_terms
    names = plain_names(source.columns) or [f"col{i + 1}" for i in range(len(source.rows[0]))]
    if not source.columns and target_schema:
        names = names_by_position(target_schema, names, takes_more=takes_more)
    trees = [
        [
            default_tree(target_schema, names[i], now_ms=now_ms, by_session=by_session)
            if stored and is_default(text)
            else parse_value(text, now_ms=now_ms, by_session=by_session)
            for i, text in enumerate(row)
        ]
        for row in source.rows
    ]
    columns = [_alike([row[i] for row in trees]) for i in range(len(names))]
    for name, column in zip(names, columns, strict=True):
        declared = target_schema.get(name) if target_schema is not None and stored else None
        if declared is not None:
            for tree in column:
                plan_storage(tree.type, declared.type, declared.name)
    fields = [
        _choose_column(name, target_schema, [tree.type for tree in column], stored=stored)
        for name, column in zip(names, columns, strict=True)
    ]
    return [list(row) for row in zip(*columns, strict=True)], StructType(tuple(fields))


def _alike(column: Sequence[Expression]) -> list[Expression]:
    """Cast the values of one column to their common type, as Spark's VALUES does."""
    common = common_type([tree.type for tree in column])
    if common is None or common == VOID:
        return list(column)
    return [
        tree if tree.type in {common, VOID} else Call("cast", (tree,), common) for tree in column
    ]


def _choose_column(
    name: str, target_schema: StructType | None, types: Sequence[DataType], *, stored: bool
) -> StructField:
    """Choose a column for values: the table's type if it takes them all, else their common type."""
    declared = target_schema.get(name) if target_schema is not None else None
    if declared is not None and (stored or _takes(declared.type, types)):
        return StructField(declared.name, declared.type)
    own_name = name if declared is None else declared.name
    return StructField(own_name, common_type(types) or types[0])


def _takes(declared: DataType, types: Sequence[DataType]) -> bool:
    """Return whether values become a type unchanged, or compare with it only once stored."""
    return all(
        kind in {VOID, STRING}
        or (common := common_type([kind, declared])) == declared
        or (common is None and is_storable(kind, declared))
        for kind in types
    )


def _render_stored_value(tree: Expression, column: StructField, clause: str) -> SparkColumn:
    way = plan_storage(tree.type, column.type, column.name)
    return store_value(tree, way, clause).cast(to_spark_type(column.type))


def _evaluate_rows(trees: Sequence[Sequence[Expression]], schema: StructType) -> pa.Table:
    """Evaluate the values as Arrow."""
    if any(isinstance(column.type, StructType | ArrayType | MapType) for column in schema):
        msg = "The rows have a literal struct, array or map."
        raise CannotEvaluateError(msg)
    columns = [_column([row[i] for row in trees], column) for i, column in enumerate(schema)]
    return pa.Table.from_arrays(columns, names=schema.names)


def _column(trees: Sequence[Expression], column: StructField) -> pa.Array:
    try:
        return _values_of(trees, column.type)
    except CannotEvaluateError as error:
        msg = f"Values of {column.name} ({sql_name(column.type)}): {error.what}"
        raise CannotEvaluateError(msg) from error


def _values_of(trees: Sequence[Expression], kind: DataType) -> pa.Array:
    """Evaluate the values of one column; constants and casts of constants in one batch."""
    rows_of: dict[Expression | int, list[int]] = {}
    for row, tree in enumerate(trees):
        shape = _shape(tree)
        rows_of.setdefault(row if shape is tree else shape, []).append(row)
    parts = [
        evaluate_as(kind, _shape(trees[rows[0]]), _constants([trees[row] for row in rows]))
        for rows in rows_of.values()
    ]
    values = pa.chunked_array([part.chunk(0).cast(to_arrow_type(kind)) for part in parts])
    order = np.argsort([row for rows in rows_of.values() for row in rows])
    return values.take(pa.array(order)).combine_chunks()


def _shape(tree: Expression) -> Expression:
    """Replace a constant, or the constant inside casts, by a column."""
    match tree:
        case Literal(_, data_type) if data_type not in {VOID, INTERVAL}:
            return Column((_CONSTANT,), data_type)
        case Call("cast", (Literal() as constant,)):
            shape = _shape(constant)
            return tree if shape is constant else replace(tree, arguments=(shape,))
        case _:
            return tree


def _constants(trees: Sequence[Expression]) -> pa.Table:
    """Return the constants of trees of one shape, one per row."""
    constants = [tree.arguments[0] if isinstance(tree, Call) else tree for tree in trees]
    if not isinstance(_shape(constants[0]), Column):
        return pa.table({"": pa.nulls(len(trees))})
    literals = [node for node in constants if isinstance(node, Literal)]
    try:
        values = pa.array([literal.value for literal in literals], arrow_type(literals[0].type))
    except (pa.ArrowException, ArithmeticError, ValueError, TypeError) as error:
        raise CannotEvaluateError(str(error)[:200]) from error
    return pa.table({_CONSTANT: values})
