"""Deleted rows of files: whole files are removed, others get vectors or are rewritten.

DELETE, UPDATE and MERGE share this. The numbers describing it are delta-spark's metrics.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from time import monotonic

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from engine.actions.codec import Action
from engine.actions.files import AddCDCFile, AddFile
from engine.actions.statistics import loosen_bounds
from engine.conflicts.decide.row_access import live_rows
from engine.errors import CannotEvaluateError
from engine.expressions.evaluate import evaluate_partition
from engine.expressions.traits import columns_of, is_asked_once, is_deterministic
from engine.expressions.tree import TRUE, Expression
from engine.operations.arrow_rows import IN_PROCESS
from engine.operations.execution import Execution, uses_deletion_vectors
from engine.operations.match_cache import FoundRows
from engine.operations.query_tables import QueryTables
from engine.operations.rows.arrow_changes import find_in_process
from engine.operations.write_rows import removal, replace_vector
from engine.schema.column_mapping import physical_name
from engine.schema.partition_values import (
    YearOutOfRangeError,
    parse_partition_value,
    partition_text,
)
from engine.snapshot.snapshot import Snapshot
from engine.spark.collection import materialize_rows
from engine.spark.columns import column, is_true
from engine.spark.row_positions import (
    FileDeletion,
    delete_and_take,
    delete_positions,
    is_one_task,
    merge_bitmaps,
    vector_merge,
)
from engine.spark.scan.reader import FILE, ROW, ScanRequest, scan
from engine.spark.table_files import TableFiles
from engine.spark.write.writer import WriteOutput
from engine.words import count_noun

MATCH = "__lake_match"


@dataclass(frozen=True)
class RowDeletion:
    """The rows to delete, by file.

    `whole` files are removed, `masked` ones get a larger vector, `rewritten` ones must be read and
    written without those rows (tables without deletion vectors). For a condition evaluated once
    (`is_asked_once`), `positions` are its matching rows in the files `read`.
    """

    whole: tuple[AddFile, ...] = ()
    masked: tuple[FileDeletion, ...] = ()
    rewritten: tuple[FileDeletion, ...] = ()
    rows: int | None = 0
    positions: DataFrame | None = None
    read: tuple[AddFile, ...] = ()
    images: pa.Table | None = field(default=None, compare=False)

    @property
    def is_empty(self) -> bool:
        """Return whether nothing is deleted."""
        return not (self.whole or self.masked or self.rewritten)

    @property
    def removed(self) -> tuple[AddFile, ...]:
        """The files no longer live, except masked ones."""
        return self.whole + tuple(file.add for file in self.rewritten)

    def describe(self) -> str:
        """Describe the number of files with a match."""
        files = len(self.whole) + len(self.masked) + len(self.rewritten)
        return f"{files:,} {'file holds' if files == 1 else 'files hold'} a match"

    def actions(self) -> list[Action]:
        """Return tombstones, and masked files under their new vectors."""
        changes: list[Action] = [removal(add) for add in self.removed]
        for file in self.masked:
            if file.vector is not None:
                stats = loosen_bounds(file.add.stats, file.physical)
                changes += [removal(file.add), replace_vector(file.add, file.vector, stats)]
        return changes

    def metrics(self, written: WriteOutput, changes: Sequence[AddCDCFile]) -> dict[str, int]:
        """Return the metrics of files removed, written and masked, as delta-spark does."""
        return {
            "numRemovedFiles": len(self.removed),
            "numRemovedBytes": sum(add.size for add in self.removed),
            "numAddedFiles": len(written.adds),
            "numAddedBytes": written.size_bytes,
            **self.vector_metrics(),
            "numAddedChangeFiles": len(changes),
        }

    def vector_metrics(self) -> dict[str, int]:
        """Return `numDeletionVectors…` as delta-spark does: an update is one removed, one added."""
        updated = sum(1 for file in self.masked if file.add.deletion_vector is not None)
        dropped = sum(1 for add in self.removed if add.deletion_vector is not None)
        return {
            "numDeletionVectorsAdded": len(self.masked),
            "numDeletionVectorsRemoved": updated + dropped,
            "numDeletionVectorsUpdated": updated,
        }


@dataclass(frozen=True)
class ImagesAlong:
    """Columns to compute for rows as they are found: `make` adds them, keeping FILE and ROW.

    `row_ids` adds the reader's row tracking columns.
    """

    make: Callable[[DataFrame], DataFrame]
    row_ids: bool


def find_rows(
    execution: Execution,
    snapshot: Snapshot,
    condition: Expression | None,
    candidates: Sequence[AddFile],
    tables: QueryTables | None = None,
    along: ImagesAlong | None = None,
) -> RowDeletion:
    """Find the matching rows of candidate files and write their vectors.

    If partition values decide, no data is read. `tables` reads the subqueries of the condition. The
    columns of `along` are computed only for few rows of few files.
    """
    execution.chose(len(candidates), snapshot)
    whole, unsure = split_by_partition(snapshot, condition, candidates)
    if condition is None or not unsure:
        return RowDeletion(whole=tuple(whole), rows=_live(whole))
    by_vector = uses_deletion_vectors(snapshot)
    by_arrow = find_in_process(execution, snapshot, condition, unsure, write_vectors=by_vector)
    if by_arrow is not None:
        deletion = _settle_deletions(execution, by_arrow, whole, by_vector=by_vector)
        execution.report_finding(f"{deletion.describe()}, {IN_PROCESS}")
        return deletion
    table = execution.files_of(snapshot)
    asked_once = tables is not None and is_asked_once(condition)
    if along is not None and not (asked_once or whole) and by_vector and is_one_task(unsure):
        return _find_with_images(execution, table, condition, unsure, along)
    if tables is None or not asked_once:
        return _find_in_spark(execution, snapshot, condition, unsure, whole)
    with execution.spark_stage("find rows"):
        rows = scan(execution.spark, table, ScanRequest(unsure, positions=True))
        matched = tables.filter_rows(rows, condition)
        matches = materialize_rows(matched.select(FILE, ROW))
        deletions = delete_positions(matches, table, unsure, write_vectors=by_vector)
        # inside the stage: cleanup after its failure must know these files
        settled = _settle_deletions(execution, deletions, whole, by_vector=by_vector)
    execution.report_finding(settled.describe())
    return replace(settled, positions=matches, read=tuple(unsure))


def _find_in_spark(
    execution: Execution,
    snapshot: Snapshot,
    condition: Expression,
    files: Sequence[AddFile],
    whole: Sequence[AddFile],
) -> RowDeletion:
    """Reuse the previous attempt's rows in unchanged files, and find the rows in the others."""
    table, by_vector = execution.files_of(snapshot), uses_deletion_vectors(snapshot)
    before = (
        execution.kept_rows.positions_at(snapshot, condition, files) if execution.kept_rows else {}
    )
    left = [add for place, add in enumerate(files) if place not in before]
    matching = {place: rows for place, rows in before.items() if rows}
    with execution.spark_stage("find rows"):
        merge = vector_merge(table, files, write_vectors=by_vector)
        deletions = merge_bitmaps(merge, matching)
        execution.wrote_vectors(deletion.vector for deletion in deletions)
        if left:
            rows = scan(execution.spark, table, ScanRequest(left, positions=True))
            matches = rows.filter(is_true(condition)).select(FILE, ROW)
            read = delete_positions(matches, table, left, write_vectors=by_vector)
            # inside the stage: cleanup after its failure must know these files
            execution.wrote_vectors(deletion.vector for deletion in read)
            deletions += read
    settled = settle(deletions, whole, by_vector=by_vector)
    again = f", {count_noun(len(before), 'file')} not read again" if before else ""
    execution.report_finding(f"{settled.describe()}{again}")
    execution.found_rows = FoundRows.record(snapshot, condition, files, deletions)
    return settled


def _find_with_images(
    execution: Execution,
    table: TableFiles,
    condition: Expression,
    files: Sequence[AddFile],
    along: ImagesAlong,
) -> RowDeletion:
    with execution.spark_stage("find rows"):
        request = ScanRequest(files, positions=True, row_ids=along.row_ids)
        matches = along.make(scan(execution.spark, table, request).filter(is_true(condition)))
        deletions, images = delete_and_take(matches, table, files)
        settled = _settle_deletions(execution, deletions, (), by_vector=True)
    execution.report_finding(settled.describe())
    has_all = images is not None and images.num_rows == settled.rows
    return replace(settled, images=images if has_all else None)


def _settle_deletions(
    execution: Execution,
    deletions: Sequence[FileDeletion],
    whole: Sequence[AddFile],
    *,
    by_vector: bool,
) -> RowDeletion:
    execution.wrote_vectors(deletion.vector for deletion in deletions)
    return settle(deletions, whole, by_vector=by_vector)


def mark_rows(
    execution: Execution,
    snapshot: Snapshot,
    condition: Expression,
    gone: RowDeletion,
    files: Sequence[AddFile],
    *,
    row_ids: bool = False,
) -> DataFrame:
    """Return the rows of some files with MATCH: whether the condition is true."""
    table = execution.files_of(snapshot)
    if gone.positions is None:
        rows = scan(execution.spark, table, ScanRequest(files, row_ids=row_ids))
        return rows.withColumn(MATCH, is_true(condition))
    keys = {add.key for add in files}
    only = frozenset(i for i, add in enumerate(gone.read) if add.key in keys)
    request = ScanRequest(gone.read, positions=True, row_ids=row_ids, only=only)
    matches = gone.positions.withColumn(MATCH, F.lit(True))
    joined = scan(execution.spark, table, request).join(matches, [FILE, ROW], "left")
    return joined.withColumn(MATCH, column(MATCH).isNotNull()).drop(FILE, ROW)


def settle(
    deletions: Iterable[FileDeletion], whole: Sequence[AddFile] = (), *, by_vector: bool
) -> RowDeletion:
    """Turn found positions into actions on their files."""
    touched = [deletion for deletion in deletions if deletion.deleted]
    gone = [deletion.add for deletion in touched if deletion.is_whole]
    left = tuple(deletion for deletion in touched if not deletion.is_whole)
    before = _live(whole)
    return RowDeletion(
        whole=(*whole, *gone),
        masked=left if by_vector else (),
        rewritten=() if by_vector else left,
        rows=None if before is None else before + sum(deletion.deleted for deletion in touched),
    )


def split_by_partition(
    snapshot: Snapshot, condition: Expression | None, candidates: Sequence[AddFile]
) -> tuple[list[AddFile], list[AddFile]]:
    """Split files into those fully matched by partition values and those to be read."""
    if condition is None or condition == TRUE:
        return list(candidates), []
    fields = snapshot.partition_schema
    names = {path[0] for path in columns_of(condition)}
    if not names <= set(fields.names) or not is_deterministic(condition):
        return [], list(candidates)
    whole: list[AddFile] = []
    unsure: list[AddFile] = []
    verdicts: dict[tuple[str | None, ...], bool | None] = {}
    for add in candidates:
        values = add.partition_values
        key = tuple(partition_text(values, physical_name(f, snapshot.mapping_mode)) for f in fields)
        if key not in verdicts:
            verdicts[key] = _verdict(snapshot, condition, key)
        if verdicts[key] is None:
            unsure.append(add)
        elif verdicts[key]:
            whole.append(add)
    return whole, unsure


def _verdict(snapshot: Snapshot, condition: Expression, texts: Sequence[str | None]) -> bool | None:
    """Return whether a partition's rows match; None if only Spark can decide."""
    fields = snapshot.partition_schema
    pairs = zip(fields, texts, strict=True)
    try:
        values = {field.name: parse_partition_value(text, field.type) for field, text in pairs}
        return evaluate_partition(condition, values) is True
    except (CannotEvaluateError, YearOutOfRangeError):
        return None


def _live(files: Iterable[AddFile]) -> int | None:
    """Count the live rows of files; return None if the log has no counts."""
    counts = [live_rows(add) for add in files]
    return None if None in counts else sum(count or 0 for count in counts)


def step_times(started: float, scanned: float) -> dict[str, int]:
    """Return the metrics of time, for a write that ends now; both are monotonic seconds."""
    now = monotonic()
    return {
        "executionTimeMs": round((now - started) * 1000),
        "scanTimeMs": round((scanned - started) * 1000),
        "rewriteTimeMs": round((now - scanned) * 1000),
    }
