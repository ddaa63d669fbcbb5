"""`DeltaTable.optimize()`: compaction and Z-ordering, of some partitions or of all."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pyspark.sql import DataFrame

from engine.actions.files import AddFile, RemoveFile
from engine.commands.command import Command
from engine.commands.model import Optimize
from engine.delta.arguments import names
from engine.delta.exceptions import delta_errors
from engine.delta.handle import Handle
from engine.delta.result_frames import optimize_frame
from engine.errors import ExpressionError, RequestError
from engine.expressions.parse import parse_condition
from engine.expressions.traits import columns_of
from engine.expressions.tree import Expression
from engine.log.commits import read_commit
from engine.operations.maintenance.optimize import choose_files
from engine.operations.result import OperationResult
from engine.snapshot.snapshot import Snapshot


class NotAPartitionColumnError(ExpressionError, code="DELTA_NON_PARTITION_COLUMN_REFERENCE"):
    """A partition filter with another column."""


class ZOrderError(RequestError, code="DELTA_ZORDERING_ON_PARTITION_COLUMN"):
    """Z-ordering by a column unsuited for it."""


class ZOrderColumnMissingError(ZOrderError, code="DELTA_ZORDERING_COLUMN_DOES_NOT_EXIST"):
    """Z-ordering by a missing column."""


class ClusteredZOrderError(ZOrderError, code="DELTA_CLUSTERING_WITH_ZORDER_BY"):
    """Z-ordering of a clustered table."""


class DeltaOptimizeBuilder:
    """Builder of an OPTIMIZE; `DeltaTable.optimize` makes one."""

    def __init__(self, handle: Handle) -> None:
        """Begin the OPTIMIZE of `DeltaTable.optimize`."""
        self._handle, self._where = handle, ""

    def where(self, partitionFilter: str) -> "DeltaOptimizeBuilder":  # noqa: N803 - delta-spark's
        """Select partitions; several filters are joined by AND."""
        self._where = f"({self._where}) AND ({partitionFilter})" if self._where else partitionFilter
        return self

    def executeCompaction(self) -> DataFrame:  # noqa: N802
        """Write many small files as few large ones.

        Returns:
            path, and the metrics of delta-spark.
        """
        return self._execute(())

    def executeZOrderBy(self, *cols: str | list[str] | tuple[str, ...]) -> DataFrame:  # noqa: N802
        """Write few large files, with the rows ordered along a curve through these columns.

        Raises:
            TypeError: a column name is not a text.
        """
        return self._execute(names(cols, "Z-order column must be str. "))

    def _execute(self, columns: tuple[str, ...]) -> DataFrame:
        with delta_errors():
            condition = self._condition(self._handle.table.snapshot(), columns)
        command = Optimize(where=self._where or None, zorder_by=columns)
        return run_optimize(self._handle, command, condition)

    def _condition(self, snapshot: Snapshot, columns: Sequence[str]) -> Expression | None:
        if columns and snapshot.clustering_columns:
            what = f"The table is clustered by {', '.join(snapshot.clustering_columns)}."
            raise ClusteredZOrderError(what, "Run OPTIMIZE without ZORDER BY.", field="columns")
        partitions = [column.lower() for column in snapshot.partition_columns]
        for column in columns:
            if column.lower() in partitions:
                what = f"{column} is a partition column."
                raise ZOrderError(what, "Z-Ordering can only be performed on data columns")
            if snapshot.schema.get(column) is None and "." not in column:
                what = f"Z-Ordering column {column} does not exist in data schema."
                raise ZOrderColumnMissingError(what, "Use an existing column.")
        if not self._where:
            return None
        condition = parse_condition(self._where, snapshot.schema)
        for path in sorted(columns_of(condition)):
            if path[0].lower() not in partitions:
                shown = ", ".join(snapshot.partition_columns)
                what = f"Predicate references non-partition column '{path[0]}'."
                remedy = f"Only the partition columns may be referenced: [{shown}]"
                raise NotAPartitionColumnError(what, remedy)
        return condition


def run_optimize(
    handle: Handle, command: Command, condition: Expression | None = None
) -> DataFrame:
    """Run a command that rewrites files; return its metrics as `executeCompaction` does."""
    started = handle.table.clock.now_ms()
    with delta_errors():
        before = handle.table.snapshot()
        considered = choose_files(before, condition)
    result = handle.run(command)
    ordered = isinstance(command, Optimize) and bool(command.zorder_by)
    metrics = _metrics(handle, considered, result, ordered=ordered)
    metrics |= {"startTimeMs": started, "endTimeMs": handle.table.clock.now_ms()}
    count = len(before.schema)
    metrics |= {"numTableColumns": count, "numTableColumnsWithStats": min(count, 32)}
    return optimize_frame(handle.spark, before.table_uri, metrics, result)


def _metrics(
    handle: Handle, considered: Sequence[AddFile], result: OperationResult, *, ordered: bool
) -> dict[str, Any]:
    """Return the metrics of an OPTIMIZE's commits, under delta-spark's names."""
    store = handle.table.store
    actions = [action for v in result.versions for action in read_commit(store, v).actions]
    added = [action for action in actions if isinstance(action, AddFile)]
    removed = [action for action in actions if isinstance(action, RemoveFile)]
    sizes = {add.path: add for add in considered}
    gone = [sizes[remove.path] for remove in removed if remove.path in sizes]
    partitions = {tuple(sorted((file.partition_values or {}).items())) for file in added}
    vectors = [add.deletion_vector for add in gone if add.deletion_vector is not None]
    metrics: dict[str, Any] = {
        "numFilesAdded": len(added),
        "numFilesRemoved": len(removed),
        "filesAdded": _sizes(add.size for add in added),
        "filesRemoved": _sizes(add.size for add in gone),
        "partitionsOptimized": len(partitions),
        "numBins": len(added),
        "numBatches": max(1, len(result.versions)),
        "totalConsideredFiles": len(considered),
        "totalFilesSkipped": len(considered) - len(removed),
        "preserveInsertionOrder": not ordered,
        "numFilesSkippedToReduceWriteAmplification": 0,
        "numBytesSkippedToReduceWriteAmplification": 0,
        "totalClusterParallelism": 0,
        "totalScheduledTasks": 0,
        "deletionVectorStats": {
            "numDeletionVectorsRemoved": len(vectors),
            "numDeletionVectorRowsRemoved": sum(vector.cardinality for vector in vectors),
        },
    }
    if ordered and added:
        metrics["zOrderStats"] = _order(gone, len(partitions))
    return metrics


def _order(files: Sequence[AddFile], partitions: int) -> dict[str, Any]:
    total = {"num": len(files), "size": sum(add.size for add in files)}
    return {
        "strategyName": "all",
        "inputCubeFiles": {"num": 0, "size": 0},
        "inputOtherFiles": total,
        "inputNumCubes": 0,
        "mergedFiles": total,
        "numOutputCubes": partitions,
    }


def _sizes(given: Iterable[int]) -> Mapping[str, Any]:
    sizes = sorted(given)
    return {
        "min": sizes[0] if sizes else None,
        "max": sizes[-1] if sizes else None,
        "avg": sum(sizes) / len(sizes) if sizes else 0.0,
        "totalFiles": len(sizes),
        "totalSize": sum(sizes),
    }
