"""A DataFrame into fresh files of a table: actions come back to the driver, and few, small rows."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext
from pyspark.sql import Column, DataFrame

from engine.actions.codec import decode, encode
from engine.actions.files import AddCDCFile, AddFile
from engine.errors import EngineError, StorageError
from engine.protocol.iceberg_compat import COMPAT_TAG, COMPAT_VERSION
from engine.schema.types import STRING, StructField, StructType
from engine.spark.collection import collect_if_small
from engine.spark.columns import column, to_spark_type
from engine.spark.file_writer import FileTarget, write_files
from engine.spark.jvm import get_analyzed_plan
from engine.spark.scan.reader import ROW_COMMIT_VERSION, ROW_ID
from engine.spark.session import is_remote
from engine.spark.statement_plan import optional
from engine.spark.table_files import TableFiles, arrow_schema
from engine.storage.uri import open_store

CHANGE_TYPE = "_change_type"
_FEW_FILES = 8
FEW_ROWS = 10_000
"""So many rows are written by this process where it knows of them before."""
_KEEP_PARTITIONS = frozenset({"Project", "Filter", "SubqueryAlias", "View"})
_REPORT = "action string, rows long"


@dataclass(frozen=True)
class WriteOutput:
    """The files of one write and their number of rows.

    `images` counts the new images of existing rows among them; None if they were not counted.
    """

    adds: tuple[AddFile, ...] = ()
    rows: int = 0
    images: int | None = None

    @property
    def size_bytes(self) -> int:
        """Bytes written."""
        return sum(add.size for add in self.adds)

    def __add__(self, other: "WriteOutput") -> "WriteOutput":
        return WriteOutput(self.adds + other.adds, self.rows + other.rows)


def write(
    frame: DataFrame,
    table: TableFiles,
    *,
    data_change: bool = True,
    keep_row_ids: bool = False,
    ordered: bool = False,
) -> WriteOutput:
    """Write rows under the table's column names; missing columns must have been added as nulls.

    Args:
        frame: the table's columns; with `keep_row_ids` also the reader's row tracking columns.
        table: location and shape of the files.
        data_change: false if the rows only move.
        ordered: rows of one partition are adjacent already, and stay in their order.
        keep_row_ids: write row ids and row commit versions into the table's materialized columns.

    Returns:
        The files, durable but not yet in the log.
    """
    target = replace(data_target(table, keep_row_ids=keep_row_ids), data_change=data_change)
    frame = physical_frame(frame, table, keep_row_ids=keep_row_ids)
    return _run(frame, target, ordered=ordered)


def write_few(
    frame: DataFrame, table: TableFiles, most_rows: int | None, *, keep_row_ids: bool = False
) -> WriteOutput | None:
    """Write as `write` does, at most a few rows: Spark computes them, this process writes them.

    No task waits for Python then. Return None unless the rows are known to be few and small: tasks
    must write them.
    """
    if most_rows is None:
        return None
    rows = collect_if_small(physical_frame(frame, table, keep_row_ids=keep_row_ids), most_rows)
    target = data_target(table, keep_row_ids=keep_row_ids)
    return None if rows is None else write_here(rows, target)


def physical_frame(
    frame: DataFrame, table: TableFiles, *, keep_row_ids: bool, beside: Sequence[str] = ()
) -> DataFrame:
    """Return a frame in the order of a file's columns, as `write` writes it, then `beside`."""
    kept: list[Column] = []
    if keep_row_ids:
        sources = {table.row_id_column: ROW_ID, table.row_commit_version_column: ROW_COMMIT_VERSION}
        kept = [
            column(sources[row_field.name]).alias(row_field.name) for row_field in table.row_fields
        ]
    return _physical_frame(frame, table, kept, beside)


def few_rows(frame: DataFrame) -> int | None:
    """Return the most rows a frame can have, by its plan before it runs; None if not few."""
    if is_remote(frame.sparkSession):
        return None
    most = optional(get_analyzed_plan(frame).maxRows())
    return int(most) if most is not None and most <= FEW_ROWS else None


def has_own_partitions(frame: DataFrame) -> bool:
    """Whether the program partitioned its rows (`repartition`, `coalesce`): each part has its files."""
    if is_remote(frame.sparkSession):
        return False
    node = get_analyzed_plan(frame)
    while (kind := str(node.nodeName())) in _KEEP_PARTITIONS:
        node = node.children().apply(0)
    return kind in {"Repartition", "RepartitionByExpression"}


def is_scattered(table: TableFiles, file_count: int) -> bool:
    """Whether new images of rows of this many files must be gathered.

    The table's property decides; by default, many files are gathered because each would leave a
    small one.
    """
    optimizes = table.properties.optimize_write
    return file_count > _FEW_FILES if optimizes is None else optimizes


def rebalance_partitions(frame: DataFrame, table: TableFiles) -> DataFrame:
    """Rebalance the rows into as few tasks as their bytes require, each partition's rows together.

    Otherwise each task writes a file for each partition of its rows. Spark sizes the tasks once it
    has seen the rows: small ones are joined, and a partition too large for one is split.
    """
    return frame.hint(
        "rebalance", *[column(partition_field.name) for partition_field in table.partition_fields]
    )


def write_changes(frame: DataFrame, table: TableFiles) -> list[AddCDCFile]:
    """Write row changes (the table's columns and `_change_type`) under `_change_data`."""
    written = _run(_physical_frame(frame, table, [column(CHANGE_TYPE)]), change_target(table))
    return [
        AddCDCFile(path=add.path, partition_values=add.partition_values, size=add.size)
        for add in written.adds
    ]


def data_target(table: TableFiles, *, keep_row_ids: bool) -> FileTarget:
    """Return the target of data files; `keep_row_ids` adds row ids and row commit versions."""
    target = file_target(table)
    return add_columns(target, table.row_fields) if keep_row_ids else target


def change_target(table: TableFiles) -> FileTarget:
    """Return the target of change data files: the table's columns and `_change_type`."""
    target = replace(
        file_target(table),
        directory="_change_data",
        prefix="cdc",
        has_partition_columns=False,
        random_prefix_length=0,
    )
    return add_columns(target, (StructField(CHANGE_TYPE, STRING),))


def file_target(table: TableFiles) -> FileTarget:
    """Return the target for executors that write files of the table."""
    return FileTarget(
        table_uri=table.uri,
        schema=table.data_schema,
        arrow_schema=arrow_schema(table.data_schema),
        partitions=table.partition_fields,
        storage_options=dict(table.storage_options),
        write_id=table.run_id,
        target_size_bytes=table.target_size_bytes,
        max_rows=table.max_rows,
        indexed=table.indexed,
        described=table.data_schema,
        tags={COMPAT_TAG: str(COMPAT_VERSION)} if table.fits_iceberg else None,
        has_partition_columns=table.fits_iceberg,
        random_prefix_length=table.random_prefix_length,
    )


def collect_actions(frame: DataFrame) -> WriteOutput:
    """Run a frame of (action, rows) and read the actions."""
    report = frame.toArrow()
    adds = [decode(line) for line in report.column("action").to_pylist()]
    files = tuple(add for add in adds if isinstance(add, AddFile))
    return WriteOutput(files, sum(report.column("rows").to_pylist()))


def report_batches(written: Iterable[tuple[AddFile, int]]) -> Iterator[pa.RecordBatch]:
    """Return actions as rows for the driver."""
    for add, rows in written:
        yield pa.RecordBatch.from_pydict(
            {"action": [encode(add)], "rows": pa.array([rows], pa.int64())}
        )


def _run(frame: DataFrame, target: FileTarget, *, ordered: bool = False) -> WriteOutput:
    if target.partitions and not ordered:
        frame = frame.sortWithinPartitions(
            *[column(partition.name) for partition in target.partitions]
        )
    numbered = frame.toDF(*map(str, range(len(frame.columns))))  # mapInArrow reads a dot as a path
    return collect_actions(numbered.mapInArrow(_build_write_task(target, frame.columns), _REPORT))


def write_here(rows: pa.Table, target: FileTarget) -> WriteOutput:
    """Write rows in this process: the target's columns by position, then partition columns.

    Raises:
        StorageError: they cannot be stored; no file of them is left.
    """
    rows = rows.rename_columns([str(place) for place in range(rows.num_columns)])
    if target.partitions:
        rows = sort_by_partition(rows, rows.column_names[-len(target.partitions) :])
    written = WriteOutput()
    try:
        for add, count in write_files(rows.to_batches(), target, 0):
            written += WriteOutput((add,), count)
    except BaseException as error:
        store = open_store(target.table_uri, target.storage_options)
        for add in written.adds:
            store.delete(unquote(add.path))
        if isinstance(error, Exception) and not isinstance(error, EngineError):
            reason = getattr(error, "strerror", None) or f"{type(error).__name__}: {error}"
            msg = f"A file of {target.table_uri} could not be written: {reason}."
            raise StorageError(msg, "Check the disk and the permissions.") from error
        raise
    return written


def sort_by_partition(rows: pa.Table, names: Sequence[str]) -> pa.Table:
    """Sort rows by partition: null, then an empty text, which the log keeps as null too.

    Arrow would parse a name that begins with a dot or a bracket as a path.
    """
    keys = dict[str, pa.ChunkedArray]()
    for number, name in enumerate(names):
        values = rows.column(name)
        keys |= {f"present {number}": pc.is_valid(values), f"value {number}": values}
    order = pc.sort_indices(pa.table(keys), sort_keys=[(key, "ascending") for key in keys])
    return rows.take(order)


def _build_write_task(
    target: FileTarget, names: list[str]
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def write_task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        task = context.partitionId() if context else 0
        named = (batch.rename_columns(names) for batch in batches)
        yield from report_batches(write_files(named, target, task))

    return write_task


def _physical_frame(
    frame: DataFrame, table: TableFiles, extra: list[Column], beside: Sequence[str] = ()
) -> DataFrame:
    """Return data columns in the files' order, extra ones, then the partition columns by name."""
    physical_fields = table.data_schema
    if not extra and not beside and _has_form(frame, physical_fields, table):
        return frame
    data = [
        column(field.name).cast(to_spark_type(physical.type)).alias(physical.name)
        for field, physical in zip(table.data_fields, physical_fields, strict=True)
    ]
    partitions = [partition_field.name for partition_field in table.partition_fields]
    return frame.select(*data, *extra, *[column(name) for name in (*partitions, *beside)])


def _has_form(frame: DataFrame, physical_fields: StructType, table: TableFiles) -> bool:
    """Whether a frame's columns are those of the files already, in their order: a plan the less."""
    partitions = [partition_field.name for partition_field in table.partition_fields]
    return frame.columns == [*physical_fields.names, *partitions] and all(
        given.dataType == to_spark_type(physical.type)
        for given, physical in zip(frame.schema, physical_fields, strict=False)
    )


def add_columns(target: FileTarget, fields: tuple[StructField, ...]) -> FileTarget:
    """Return the target with the engine's own columns after the table's."""
    schema = StructType(target.schema.fields + fields)
    return replace(target, schema=schema, arrow_schema=_extend_schema(target.arrow_schema, fields))


def _extend_schema(schema: pa.Schema, fields: tuple[StructField, ...]) -> pa.Schema:
    return pa.schema([*schema, *arrow_schema(StructType(fields))])
