"""Reading for the data source `lake`: files on the executors, as Arrow batches of Spark's types."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Any

import pyarrow as pa
from pyspark.sql import datasource as spark_filters
from pyspark.sql import types as spark_types
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema

from engine.actions.codec import decode, encode
from engine.actions.files import AddFile
from engine.actions.table import Metadata
from engine.errors import ExpressionError, RequestError, UnsupportedFeatureError
from engine.expressions.build import call
from engine.expressions.scope import Scope
from engine.expressions.tree import Column, Expression, Literal
from engine.schema.column_mapping import column_mapping_mode
from engine.schema.types import (
    BOOLEAN,
    BYTE,
    DATE,
    DOUBLE,
    INTEGER,
    LONG,
    SHORT,
    STRING,
    StructType,
    parse_schema,
)
from engine.snapshot.reader import iter_file
from engine.snapshot.snapshot import Snapshot
from engine.spark.columns import to_spark_schema
from engine.spark.data_source_options import LakeOptions, SourcePlace
from engine.storage.base import Store
from engine.storage.uri import open_store

_BATCH_ROWS = 65_536
_PARTITION_BYTES = 64 * 1024 * 1024
_OPEN_COST_BYTES = 4 * 1024 * 1024

_COMPARISONS: Mapping[type[spark_filters.Filter], str] = {
    spark_filters.EqualTo: "=",
    spark_filters.EqualNullSafe: "<=>",
    spark_filters.GreaterThan: ">",
    spark_filters.GreaterThanOrEqual: ">=",
    spark_filters.LessThan: "<",
    spark_filters.LessThanOrEqual: "<=",
    spark_filters.StringStartsWith: "startswith",
}
_PYTHON_TYPES: Mapping[Any, type] = {
    **dict.fromkeys((BYTE, SHORT, INTEGER, LONG), int),
    STRING: str,
    BOOLEAN: bool,
    DATE: date,
    DOUBLE: float,
}


@dataclass(frozen=True)
class FileShape:
    """The inputs of an executor for reading a table's files; it is pickled.

    Attributes:
        columns: the names of the columns to read.
        arrow: their schema as Spark expects it.
    """

    uri: str
    schema: StructType
    columns: tuple[str, ...]
    arrow: pa.Schema
    partition_columns: Sequence[str] = ()
    mapping_mode: str = "none"
    allowed_roots: Sequence[str] = ()
    storage_options: dict[str, str] = field(default_factory=dict)

    @property
    def store(self) -> Store:
        """The table's files."""
        return open_store(self.uri, self.storage_options)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Iterate over the live rows of a partition's files."""
        for line in partition.value or ():
            add = decode(line)
            if isinstance(add, AddFile):
                for rows in iter_file(self, add, self.columns, batch_rows=_BATCH_ROWS):
                    yield from convert_to_batches(rows, self.arrow)


class LakeReader(DataSourceReader):
    """A batch read of one version; every file is one piece of work, small ones share."""

    def __init__(self, snapshot: Snapshot, shape: FileShape) -> None:
        """Read the columns of `shape` from a snapshot."""
        self._snapshot: Snapshot | None = snapshot
        self._shape = shape
        self._conditions: list[Expression] = []

    def __getstate__(self) -> dict[str, Any]:
        """Executors need the shape alone."""
        return {"_snapshot": None, "_shape": self._shape, "_conditions": []}

    def partitions(self) -> Sequence[InputPartition]:
        """Return the live files that may satisfy the pushed filters, as partitions."""
        if self._snapshot is None:
            return []
        kept = self._snapshot.add_files()
        for condition in self._conditions:
            paths = {add.path for add in self._snapshot.add_files(condition)}
            kept = [add for add in kept if add.path in paths]
        return partitions_of(kept)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Iterate over the rows of one partition."""
        return self._shape.read(partition)

    def _push(self, filters: list[Filter]) -> Iterator[Filter]:
        """Use filters to prune files, and yield every filter back: Spark filters the rows."""
        for filter_ in filters:
            condition = to_condition(filter_, self._shape.schema)
            if condition is not None:
                self._conditions.append(condition)
            yield filter_


class PruningLakeReader(LakeReader):
    """A reader for sessions with filter pushdown to Python data sources."""

    def pushFilters(self, filters: list[Filter]) -> list[Filter]:  # noqa: N802 - Spark's name
        """Prune files; return all filters for Spark to evaluate."""
        return list(self._push(filters))


def shape_of(
    options: LakeOptions, place: SourcePlace, metadata: Metadata, schema: spark_types.StructType
) -> FileShape:
    """Return the shape for reading the columns of a Spark schema from a table's files.

    Raises:
        RequestError: the table lacks a column or has it in another type.
        UnsupportedFeatureError: a column holds variants.
    """
    refuse_variants(options.uri, schema, "read")
    table_schema = parse_schema(metadata.schema_string)
    offered = to_spark_schema(table_schema)
    for asked in schema:
        if not any(f.name == asked.name and f.dataType == asked.dataType for f in offered):
            kind = asked.dataType.simpleString()
            msg = f"{options.uri} has no column {asked.name} of type {kind}."
            raise RequestError(msg, f"It has {offered.simpleString()[:500]}.", field="schema")
    return FileShape(
        uri=options.uri,
        schema=table_schema,
        columns=tuple(schema.fieldNames()),
        arrow=to_arrow_schema(schema, timezone="UTC"),
        partition_columns=tuple(metadata.partition_columns),
        mapping_mode=column_mapping_mode(metadata.configuration),
        allowed_roots=place.allowed_roots,
        storage_options=dict(options.storage_options),
    )


def refuse_variants(table: str, schema: spark_types.StructType, purpose: str) -> None:
    """Refuse variant columns, which Spark's Python data sources cannot exchange.

    Raises:
        UnsupportedFeatureError: a column holds variants.
    """
    for column in schema:
        if "variant" in column.dataType.simpleString():
            what = f"variants ({column.name}) in Spark's data source"
            raise UnsupportedFeatureError(table, [what], purpose)


def partitions_of(adds: Sequence[AddFile]) -> list[InputPartition]:
    """Return files in order as units of work, small ones together."""
    pieces: list[list[str]] = []
    room = 0
    for add in adds:
        cost = add.size + _OPEN_COST_BYTES
        if cost > room:
            pieces.append([])
            room = _PARTITION_BYTES
        pieces[-1].append(encode(add))
        room -= cost
    return [InputPartition(piece) for piece in pieces]


def convert_to_batches(rows: pa.Table, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Convert the rows to batches in the exact types that Spark expects."""
    columns = [
        rows.column(target.name)
        if rows.column(target.name).type == target.type
        else rows.column(target.name).cast(target.type)
        for target in schema
    ]
    table = pa.Table.from_arrays(columns, schema=schema)
    return itertools.chain.from_iterable(
        batch for batch in [table.to_batches(max_chunksize=_BATCH_ROWS)]
    )


def to_condition(filter_: spark_filters.Filter, schema: StructType) -> Expression | None:
    """Return a filter as a condition; None if it has none, because Spark filters rows itself."""
    try:
        return _condition(filter_, schema)
    except ExpressionError:
        return None


def _condition(filter_: spark_filters.Filter, schema: StructType) -> Expression | None:
    match filter_:
        case spark_filters.IsNull(attribute):
            return call("isnull", [Scope.from_schema(schema).resolve(attribute)])
        case spark_filters.IsNotNull(attribute):
            return call("isnotnull", [Scope.from_schema(schema).resolve(attribute)])
        case spark_filters.In(attribute, values):
            return _build_value_test("in", Scope.from_schema(schema).resolve(attribute), values)
        case _:
            name = _COMPARISONS.get(type(filter_))
            if name is None:
                return None
            column = Scope.from_schema(schema).resolve(filter_.attribute)  # type: ignore[attr-defined] # all of these have it
            return _build_value_test(name, column, (filter_.value,))  # type: ignore[attr-defined]


def _build_value_test(name: str, column: Column, values: tuple[Any, ...]) -> Expression | None:
    kind = _PYTHON_TYPES.get(column.type)
    exact = [type(value) is kind and not isinstance(value, datetime) for value in values]
    if kind is None or not values or not all(exact):
        return None
    return call(name, [column, *[Literal(value, column.type) for value in values]])
