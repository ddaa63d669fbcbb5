"""OPTIMIZE with an order of rows: ZORDER BY, and the clustering columns of clustered tables.

Rows move to other files, so only row ids can trace them. Clustered files are marked in the log and
left alone until new files arrive, unless OPTIMIZE … FULL requests all of them.
"""

from collections.abc import Sequence

import msgspec
from pyspark.sql import Column

from engine.actions.files import AddFile
from engine.commands.model import Optimize
from engine.conflicts.row_counts import live_rows
from engine.errors import RequestError
from engine.expressions.render import to_sql
from engine.expressions.tree import Expression
from engine.operations.execution import Execution, keeps_row_ids
from engine.operations.file_bins import has_many_deleted
from engine.operations.result import OperationResult, PlannedFile, plan_of, size_metrics
from engine.operations.row_sums import check_moved
from engine.operations.staged_actions import removal
from engine.schema.column_paths import ColumnPath, column_path, render_column_path
from engine.schema.types import ArrayType, MapType, StructType
from engine.snapshot.new_table import resolve_column
from engine.snapshot.snapshot import Snapshot
from engine.spark.assignment import target_type
from engine.spark.columns import column
from engine.spark.reader import ScanRequest, scan
from engine.spark.table_files import TableFiles
from engine.spark.writer import WriteOutput, write
from engine.spark.zorder import RankSample, sort_by_zorder

CLUSTERED = "liquid"
_SAMPLE_FILES = 64
_ENOUGH = 0.5
"""Clustered files below this share of the target size are clustered again with new ones."""


def files_to_cluster(snapshot: Snapshot, target_bytes: int, *, full: bool) -> list[AddFile]:
    """Return the files to cluster; without new files, only those with many deleted rows."""
    files = snapshot.add_files()
    if full:
        return files
    new = [add for add in files if add.clustering_provider != CLUSTERED]
    if not new:
        return [add for add in files if has_many_deleted(add)]
    small = [
        add
        for add in files
        if add.clustering_provider == CLUSTERED and add.size < _ENOUGH * target_bytes
    ]
    return new + small


def rewrite_ordered(
    command: Optimize,
    execution: Execution,
    snapshot: Snapshot,
    files: Sequence[AddFile],
    condition: Expression | None,
) -> OperationResult:
    """Write files' rows in order of the columns, as one commit.

    Raises:
        RequestError: a column is a partition column or has no order.
        ConflictError: a concurrent commit rewrote the same files.
    """
    names = command.zorder_by or snapshot.clustering_columns
    paths = (
        [resolve_column(snapshot.schema, name) for name in command.zorder_by]
        if command.zorder_by
        else [column_path(name) for name in snapshot.clustering_columns]
    )
    _check_columns(snapshot, paths)
    if execution.options.dry_run:
        listed = [PlannedFile.from_add(add, "its rows are ordered anew") for add in files]
        plan = plan_of(f"{len(files)} files would be ordered by {', '.join(names)}.", listed)
        return OperationResult(plan=plan)
    txn = execution.begin(operation="OPTIMIZE")
    current = execution.snapshot_of(txn)
    live = {add.key for add in current.add_files(paths=[add.path for add in files])}
    present = [add for add in files if add.key in live]
    written = _write(command, execution, current, present, paths)
    check_moved(current, present, written.rows)
    clustered = not command.zorder_by
    adds = [_mark_clustered(add) for add in written.adds] if clustered else list(written.adds)
    txn.stage(*adds, *[removal(add, data_change=False) for add in present])
    parameters = {
        "predicate": [to_sql(condition)] if condition is not None else [],
        "zOrderBy": list(command.zorder_by),
        "clusterBy": list(names) if clustered else [],
        "auto": command.auto,
        **({"isFull": True} if command.full else {}),
    }
    metrics = size_metrics(written.adds, present)
    return execution.commit(txn, "OPTIMIZE", parameters, metrics)


def _write(
    command: Optimize,
    execution: Execution,
    snapshot: Snapshot,
    files: Sequence[AddFile],
    paths: Sequence[ColumnPath],
) -> WriteOutput:
    table, kept = execution.files_of(snapshot), keeps_row_ids(snapshot)
    target = command.target_size_bytes or table.target_size_bytes
    pieces = max(1, -(-sum(add.size for add in files) // target))
    with execution.spark_stage("order rows"):
        frame = scan(execution.spark, table, ScanRequest(files, row_ids=kept))
        columns = [_value(path) for path in paths]
        partitions = [column(partition_field.name) for partition_field in table.partition_fields]
        if len(columns) > 1:
            sample = _sample(execution, table, files)
            ordered = sort_by_zorder(frame, columns, partitions, pieces, sample)
        else:
            parted = frame.repartitionByRange(pieces, *partitions, *columns)
            ordered = parted.sortWithinPartitions(*partitions, *columns)
        written = write(ordered, table, data_change=False, keep_row_ids=kept, ordered=True)
        execution.wrote(written.adds)
    execution.wrote_in_words(written.adds)
    return written


def _sample(execution: Execution, table: TableFiles, files: Sequence[AddFile]) -> RankSample:
    """Sample rows from files spread over the table; neighboring files hold similar rows."""
    some = files[:: max(1, len(files) // _SAMPLE_FILES)]
    rows = scan(execution.spark, table, ScanRequest(some))
    counts = [live_rows(add) for add in some]
    told = [count for count in counts if count is not None]
    return RankSample(rows, sum(told) if len(told) == len(counts) else rows.count())


def _check_columns(snapshot: Snapshot, paths: Sequence[ColumnPath]) -> None:
    for path in paths:
        name = render_column_path(path)
        if path[0] in snapshot.partition_columns:
            msg = f"{name} is a partition column: each of its values has files of its own already."
            raise RequestError(msg, "Order by other columns.", field="zorder_by")
        if isinstance(target_type(snapshot.schema, path), StructType | ArrayType | MapType):
            msg = f"{name} is nested: its values have no order."
            raise RequestError(msg, "Order by a field inside it.", field="zorder_by")


def _value(path: ColumnPath) -> Column:
    value = column(path[0])
    for part in path[1:]:
        value = value.getField(part)
    return value


def _mark_clustered(add: AddFile) -> AddFile:
    return msgspec.structs.replace(add, clustering_provider=CLUSTERED)
