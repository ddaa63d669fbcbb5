"""The rows a write takes: of files, written out, of a Delta table, or of a DataFrame."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import Column as SparkColumn
from pyspark.sql import functions as F  # noqa: N812

from engine.commands.defaults import (
    default_tree,
    is_default,
    query_with_defaults,
    values_with_defaults,
)
from engine.commands.names import plain_names
from engine.commands.sources import (
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
from engine.expressions.tree import INTERVAL, VOID, Call, Column, Expression, Literal
from engine.expressions.types import common_type, sql_name
from engine.operations.arrow_rows import evaluated_as, need_spark
from engine.operations.execution import READ_SOURCE, Execution
from engine.operations.frame_sources import rows_of_frame
from engine.operations.query_tables import QueryTables, open_table
from engine.operations.query_tables import other_files as other_files
from engine.schema.arrow import to_arrow_type
from engine.schema.assignment import storing
from engine.schema.types import STRING, ArrayType, DataType, MapType, StructField, StructType
from engine.schema.write_errors import ColumnCountError
from engine.snapshot.snapshot import Snapshot
from engine.spark.assignment import stored_value
from engine.spark.columns import from_spark_schema, is_true, to_column, to_spark_type
from engine.spark.reader import ScanRequest, scan
from engine.spark.shape import INSERT
from engine.spark.sources import SourceRows, read_files
from engine.storage.uri import is_same_place
from engine.table import DeltaTable
from engine.transaction.optimistic_transaction import OptimisticTransaction

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
    """The rows of a source.

    Args:
        execution: the run.
        source: where they come from.
        target_schema: the columns of the table that takes them, None where the source decides.
        txn: the transaction that writes them: what is read of its own table it has read.
        stored: whether values that are written out go into the table's columns of their names, and
            are cast to their types at once, and whether a DataFrame's session casts its times to them;
            a MERGE compares them first.
        takes_more: whether columns beyond the table's may come by position: the schema evolves.

    Raises:
        RequestError: the source is not there, or is none.
        ColumnCountError: its columns are not as many as the table's, to which they go by position.
    """
    execution.begin_stage(READ_SOURCE)
    if isinstance(source, FileSource):
        return _of_files(execution, source, target_schema)
    if isinstance(source, RowsSource):
        return _written_out(execution, source, target_schema, stored=stored, takes_more=takes_more)
    if isinstance(source, QuerySource):
        return _of_query(execution, source, target_schema, txn, takes_more=takes_more)
    if isinstance(source, DataFrameSource):
        return rows_of_frame(execution, source, txn, target_schema if stored else None)
    return _of_table(execution, source, target_schema, txn, takes_more=takes_more)


def _of_files(
    execution: Execution, source: FileSource, target_schema: StructType | None
) -> SourceRows:
    @contextmanager
    def apart(stage: str) -> Iterator[None]:
        with execution.watched_stage(stage):
            yield
        execution.begin_stage(READ_SOURCE)

    options = execution.table.storage_options
    try:
        return read_files(execution.spark, source, target_schema, options, apart=apart)
    except AnalysisException as error:  # a format cannot hold a type: JSON's keys are text
        reason = str(error).partition("SQLSTATE")[0].strip()[:400]
        msg = f"Files of the format {source.format} cannot be read into these columns: {reason}"
        raise RequestError(
            msg, "Use Parquet files, or other types.", field="source.format"
        ) from error


def _of_query(
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
    query = bind_query(text, tables.schema, now_ms=execution.now_ms)
    names = plain_names(source.columns) or query.names
    if len(names) != len(query.columns):
        msg = f"{len(names)} columns are named, and the query gives {len(query.columns)}."
        raise ColumnCountError(msg, "Name as many as it gives.", field="source.columns")
    if source.by_position and not source.columns and target_schema is not None:
        names = _positions(target_schema, names, takes_more=takes_more)
    _check_names(names)
    frame = tables.frame(query).toDF(*names)
    return SourceRows(frame, from_spark_schema(frame.schema))


def _check_names(names: Sequence[str]) -> None:
    lowered = [name.lower() for name in names]
    repeated = next((name for name in names if lowered.count(name.lower()) > 1), None)
    if repeated is not None:
        msg = f"Two columns of the query are called {repeated}."
        raise RequestError(msg, "Give one another name with AS.", field="source")


def _of_table(
    execution: Execution,
    source: TableSource,
    target_schema: StructType | None,
    txn: OptimisticTransaction | None,
    *,
    takes_more: bool,
) -> SourceRows:
    other = open_table(execution, source.table)
    snapshot = _version(other, source, execution, txn)
    scope = Scope((Relation(snapshot.schema, "", _names(source)),))
    where = parse_condition(source.where, scope, now_ms=execution.now_ms) if source.where else None
    own = is_same_place(other.uri, execution.table.uri)
    if txn is not None and own and source.version is None:
        txn.read_where(where)
    files = snapshot.add_files(where)
    table = other_files(execution, other, snapshot)
    frame = scan(execution.spark, table, ScanRequest(files))
    if where is not None:
        frame = frame.filter(is_true(where))
    if source.columns:
        texts = source.columns
        if source.by_position and target_schema is not None:
            texts = values_with_defaults(texts, target_schema)
        chosen = [_chosen(text, scope, execution.now_ms) for text in texts]
        frame = frame.select(*[to_column(tree).alias(name) for name, tree in chosen])
    if source.by_position and target_schema is not None:
        frame = frame.toDF(*_positions(target_schema, frame.columns, takes_more=takes_more))
    _check_names(frame.columns)
    return SourceRows(frame, from_spark_schema(frame.schema))


def _version(
    other: DeltaTable, source: TableSource, execution: Execution, txn: OptimisticTransaction | None
) -> Snapshot:
    """The version read: of the transaction's own table, the one the transaction reads."""
    if source.version is not None:
        return other.snapshot(source.version)
    own = is_same_place(other.uri, execution.table.uri)
    if txn is not None and txn.snapshot is not None and own:
        return txn.snapshot
    return other.snapshot()


def _names(source: TableSource) -> tuple[str, ...]:
    return tuple(name for name in (source.alias, source.table.rpartition(".")[2]) if name)


def _chosen(text: str, scope: Scope, now_ms: int) -> tuple[str, Expression]:
    """`expression AS name`: the name is the column's own where there is no AS."""
    tokens = tokenize(text)
    name = ""
    if len(tokens) > 2 and tokens[-2].kind == "word" and tokens[-2].value == "AS":
        last = tokens[-1]
        name = last.text if last.kind == "word" else last.value
        text = text[: tokens[-2].position]
    tree = parse_expression(text, scope, now_ms=now_ms)
    if not name:
        name = tree.path[-1] if isinstance(tree, Column) else to_sql(tree)
    return name, tree


def _positions(target_schema: StructType, names: Sequence[str], *, takes_more: bool) -> list[str]:
    """The names under which columns go into a table by their places."""
    width, expected = len(names), len(target_schema)
    if width < expected or (width > expected and not takes_more):
        missing = ", ".join(target_schema.names[width:][:20])
        lacking = f": there is nothing for {missing}" if missing else ""
        msg = f"INSERT by position gives {width} columns, and the table has {expected}{lacking}."
        remedy = "Name the columns after the table, or match them BY NAME."
        raise ColumnCountError(msg, remedy, field="source")
    return [*target_schema.names, *names[expected:]]


def _written_out(
    execution: Execution,
    source: RowsSource,
    target_schema: StructType | None,
    *,
    stored: bool,
    takes_more: bool,
) -> SourceRows:
    trees, schema = _values(execution, source, target_schema, stored=stored, takes_more=takes_more)
    spark = execution.spark
    try:
        frame = spark.createDataFrame(_evaluated(trees, schema)).coalesce(1)
    except CannotEvaluateError:
        pass  # Spark evaluates them
    else:
        return SourceRows(frame, schema, is_together=True)
    clause = INSERT if stored else "MERGE"
    rows = [
        F.struct(
            *[
                _stored(tree, column, clause).alias(column.name)
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
    """The rows of a source as Arrow where that takes no Spark: rows that are written out.

    Arguments as `source_rows`.

    Raises:
        RequestError: their values take Spark, and there is no session.
    """
    if not isinstance(source, RowsSource):
        return None
    trees, schema = _values(execution, source, target_schema, stored=stored, takes_more=False)
    try:
        return _evaluated(trees, schema), schema
    except CannotEvaluateError as error:
        need_spark(execution, error)
        return None


def _values(
    execution: Execution,
    source: RowsSource,
    target_schema: StructType | None,
    *,
    stored: bool,
    takes_more: bool,
) -> tuple[list[list[Expression]], StructType]:
    """The values as trees, each of its column's type in all rows, and the columns they are for."""
    names = plain_names(source.columns) or [f"col{i + 1}" for i in range(len(source.rows[0]))]
    if not source.columns and target_schema:
        names = _positions(target_schema, names, takes_more=takes_more)
    trees = [
        [
            default_tree(target_schema, names[i], now_ms=execution.now_ms)
            if stored and is_default(text)
            else parse_value(text, now_ms=execution.now_ms)
            for i, text in enumerate(row)
        ]
        for row in source.rows
    ]
    columns = [_alike([row[i] for row in trees]) for i in range(len(names))]
    for name, column in zip(names, columns, strict=True):
        declared = target_schema.get(name) if target_schema is not None and stored else None
        if declared is not None:
            for tree in column:
                storing(tree.type, declared.type, declared.name)
    fields = [
        _typed(name, target_schema, [tree.type for tree in column], stored=stored)
        for name, column in zip(names, columns, strict=True)
    ]
    return [list(row) for row in zip(*columns, strict=True)], StructType(tuple(fields))


def _alike(column: Sequence[Expression]) -> list[Expression]:
    """The values of one column in the type that they share, as Spark's VALUES has them."""
    common = common_type([tree.type for tree in column])
    if common is None or common == VOID:
        return list(column)
    return [
        tree if tree.type in {common, VOID} else Call("cast", (tree,), common) for tree in column
    ]


def _typed(
    name: str, target_schema: StructType | None, types: Sequence[DataType], *, stored: bool
) -> StructField:
    """A column of values: of the table's type where it takes them all, else of the type they share."""
    declared = target_schema.get(name) if target_schema is not None else None
    if declared is not None and (stored or _takes(declared.type, types)):
        return StructField(declared.name, declared.type)
    own_name = name if declared is None else declared.name
    return StructField(own_name, common_type(types) or types[0])


def _takes(declared: DataType, types: Sequence[DataType]) -> bool:
    """Whether values become a type unchanged, or cannot be compared with it without it."""
    return all(
        kind in {VOID, STRING} or common_type([kind, declared]) in {declared, None}
        for kind in types
    )


def _stored(tree: Expression, column: StructField, clause: str) -> SparkColumn:
    way = storing(tree.type, column.type, column.name)
    return stored_value(tree, way, clause).cast(to_spark_type(column.type))


def _evaluated(trees: Sequence[Sequence[Expression]], schema: StructType) -> pa.Table:
    """The values as Arrow.

    Raises:
        CannotEvaluateError: only Spark can say what they are.
    """
    if any(isinstance(column.type, StructType | ArrayType | MapType) for column in schema):
        msg = "A struct, array or map is written out."
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
    """The values of one column: its constants, and casts of them, are computed together."""
    rows_of: dict[Expression | int, list[int]] = {}
    for row, tree in enumerate(trees):
        shape = _shape(tree)
        rows_of.setdefault(row if shape is tree else shape, []).append(row)
    parts = [
        evaluated_as(kind, _shape(trees[rows[0]]), _constants([trees[row] for row in rows]))
        for rows in rows_of.values()
    ]
    values = pa.chunked_array([part.chunk(0).cast(to_arrow_type(kind)) for part in parts])
    order = np.argsort([row for rows in rows_of.values() for row in rows])
    return values.take(pa.array(order)).combine_chunks()


def _shape(tree: Expression) -> Expression:
    """The tree with a column in the place of the constant that it is, or is a cast of."""
    match tree:
        case Literal(_, data_type) if data_type not in {VOID, INTERVAL}:
            return Column((_CONSTANT,), data_type)
        case Call("cast", (Literal() as constant,)):
            shape = _shape(constant)
            return tree if shape is constant else replace(tree, arguments=(shape,))
        case _:
            return tree


def _constants(trees: Sequence[Expression]) -> pa.Table:
    """The constants of trees of one shape, one to a row."""
    constants = [tree.arguments[0] if isinstance(tree, Call) else tree for tree in trees]
    if not isinstance(_shape(constants[0]), Column):
        return pa.table({"": pa.nulls(len(trees))})
    literals = [node for node in constants if isinstance(node, Literal)]
    try:
        values = pa.array([literal.value for literal in literals], arrow_type(literals[0].type))
    except (pa.ArrowException, ArithmeticError, ValueError, TypeError) as error:
        raise CannotEvaluateError(str(error)[:200]) from error
    return pa.table({_CONSTANT: values})
