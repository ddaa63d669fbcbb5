"""OPTIMIZE: compacts small files into larger ones without changing a row.

Rows keep their order, and every removed file records where its rows went, so a concurrent DELETE
can be rebased. Large tables are compacted in batches of one commit each; completed batches remain.

With ZORDER BY, or on a clustered table, rows are sorted into other files, so only row ids can trace
them. Clustered files are marked in the log and left alone until new files arrive, unless OPTIMIZE …
FULL requests all of them.
"""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import msgspec
from pyspark.sql import Column

from engine.actions.files import AddFile
from engine.commands.model import Optimize
from engine.conflicts.decide.row_access import live_rows, physical_rows
from engine.errors import RequestError
from engine.expressions.render import to_sql
from engine.expressions.traits import columns_of
from engine.expressions.tree import Expression
from engine.operations.execution import Execution, keeps_row_ids
from engine.operations.maintenance.auto_compaction import (
    CompactionTerms,
    settings_of,
    worth_joining,
)
from engine.operations.result import OperationResult, Plan, PlannedFile, plan_of, size_metrics
from engine.operations.rows.row_deletion import split_by_partition
from engine.operations.rows.row_sums import check_compacted, check_moved
from engine.operations.write_rows import removal
from engine.protocol.iceberg_compat import is_tagged
from engine.schema.column_paths import ColumnPath, column_path, render_column_path
from engine.schema.types import ArrayType, MapType, StructType
from engine.snapshot.new_table import resolve_column
from engine.snapshot.snapshot import Snapshot
from engine.spark.columns import column
from engine.spark.jobs import Progress
from engine.spark.scan.reader import ScanRequest, scan
from engine.spark.table_files import TableFiles
from engine.spark.write.assignment import target_type
from engine.spark.write.compaction import CompactedBin, compact
from engine.spark.write.writer import WriteOutput, write
from engine.spark.write.zorder import RankSample, sort_by_zorder
from engine.transaction.optimistic_transaction import OptimisticTransaction
from engine.words import count_noun

BATCH_BYTES = 50 * 1024**3
NOTHING_TO_DO = "The files already have their target size: there was nothing to do."

MAX_DELETED_RATIO = 0.05
"""A file with a larger share of deleted rows is rewritten even if it is large and single."""

CLUSTERED = "liquid"
_SAMPLE_FILES = 64
_ENOUGH = 0.5
"""Clustered files below this share of the target size are clustered again with new ones."""

Bin = tuple[AddFile, ...]


@dataclass(frozen=True, slots=True)
class BinRule:
    """The rule for choosing files.

    Attributes:
        target_size_bytes: the maximum size of a bin.
        purge: rewrite exactly the files with a deletion vector (REORG … PURGE).
        fits_iceberg: with `purge`, also rewrite files not readable by Iceberg clients.
    """

    target_size_bytes: int
    purge: bool = False
    fits_iceberg: bool = False

    def wants(self, add: AddFile) -> bool:
        """Return whether a file takes part in the rewrite."""
        if self.purge:
            return add.deletion_vector is not None or (self.fits_iceberg and not is_tagged(add))
        return add.size < self.target_size_bytes or has_many_deleted(add)


def optimize(command: Optimize, execution: Execution) -> OperationResult:
    """Run an OPTIMIZE: compaction, or ordering if columns are given or the table is clustered.

    Raises:
        RequestError: the condition names columns other than partition columns, or the request
            contradicts the table's clustering.
    """
    snapshot = execution.table.snapshot()
    _check_order(command, snapshot)
    condition = execution.condition(command, snapshot)
    files = choose_files(snapshot, condition)
    target = command.target_size_bytes or execution.files_of(snapshot).target_size_bytes
    if command.auto:
        terms = CompactionTerms.resolve(settings_of(execution.session), target, command)
        files, target = worth_joining(files, terms), terms.target_bytes
        if not files:
            return _nothing_to_do()
    if command.zorder_by or snapshot.clustering_columns:
        if not command.zorder_by:
            files = files_to_cluster(snapshot, target, full=command.full)
        if not files:
            return _nothing_to_do()
        return rewrite_ordered(command, execution, snapshot, files, condition)
    bins = pack(files, BinRule(target))
    predicate = [to_sql(condition)] if condition is not None else []
    parameters = {"predicate": predicate, "zOrderBy": [], "clusterBy": [], "auto": command.auto}
    return rewrite_bins(execution, snapshot, bins, "OPTIMIZE", parameters)


def choose_files(snapshot: Snapshot, condition: Expression | None) -> list[AddFile]:
    """Return the live files of the matching partitions.

    Raises:
        RequestError: the condition names columns other than partition columns.
    """
    names = {path[0] for path in columns_of(condition)} if condition is not None else set()
    others = sorted(names - set(snapshot.partition_schema.names))
    if others:
        msg = f"{others[0]} is not a partition column. OPTIMIZE selects whole files by partition."
        raise RequestError(msg, "Remove it from the condition.", field="where")
    whole, unsure = split_by_partition(snapshot, condition, snapshot.add_files(condition))
    return whole + unsure


def rewrite_bins(
    execution: Execution,
    snapshot: Snapshot,
    bins: Sequence[Bin],
    operation: str,
    parameters: dict[str, object],
) -> OperationResult:
    """Compact bins, in as many commits as their size requires."""
    if execution.options.dry_run:
        return _plan(snapshot, bins)
    if not bins:
        return _nothing_to_do()
    results: list[OperationResult] = []
    done: list[CompactedBin] = []
    groups = list(batches(bins, BATCH_BYTES))
    for number, group in enumerate(groups):
        execution.progress(Progress("batches", number, len(groups), "commits"))
        txn = execution.begin(digest(group), operation=operation)
        execution.chose(sum(map(len, group)), execution.snapshot_of(txn))
        compacted = _compact(execution, txn, group)
        if compacted:
            done += compacted
            results.append(execution.commit(txn, operation, parameters, _metrics(compacted)))
    return combine_results(results, _metrics(done))


def combine_results(
    results: Sequence[OperationResult], metrics: dict[str, int | str]
) -> OperationResult:
    """Combine several commits of one run into one result."""
    if not results:
        return OperationResult(metrics=metrics, message=NOTHING_TO_DO)
    return OperationResult(
        version=results[-1].version,
        metrics=metrics,
        resolved=tuple(row_resolution for result in results for row_resolution in result.resolved),
        attempts=sum(result.attempts for result in results),
        recognized=all(result.recognized for result in results),
        versions=tuple(version for result in results for version in result.versions),
    )


def _check_order(command: Optimize, snapshot: Snapshot) -> None:
    """Refuse ZORDER BY on a clustered table, and FULL on any other table."""
    clustering = ", ".join(snapshot.clustering_columns)
    if command.zorder_by and clustering:
        what = f"The table is clustered by {clustering}, so OPTIMIZE orders its rows only by that."
        raise RequestError(what, "Remove ZORDER BY, or change CLUSTER BY.", field="zorder_by")
    if command.full and not clustering:
        what = "The table is not clustered, so OPTIMIZE FULL has no order to apply."
        raise RequestError(
            what, "Remove FULL, or set clustering columns with CLUSTER BY.", field="full"
        )


def _compact(
    execution: Execution, txn: OptimisticTransaction, bins: Sequence[Bin]
) -> list[CompactedBin]:
    """Compact the bins whose files are still live and unchanged, and stage them."""
    snapshot = execution.snapshot_of(txn)
    paths = {add.path for bin_ in bins for add in bin_}
    live = {add.key for add in snapshot.add_files(paths=paths)}
    current = [bin_ for bin_ in bins if all(add.key in live for add in bin_)]
    if not current:
        return []
    table = execution.files_of(snapshot)
    with execution.spark_stage("compact files"):
        done = compact(execution.spark, table, current, keep_row_ids=keeps_row_ids(snapshot))
    execution.wrote(compacted.target for compacted in done if compacted.target is not None)
    check_compacted(snapshot, done)
    for compacted in done:
        if compacted.target is not None:
            txn.stage(compacted.target)
        for source, info in zip(compacted.sources, compacted.infos, strict=True):
            txn.stage(removal(source, data_change=False, tags=info.tags() if info else None))
    return done


def _nothing_to_do() -> OperationResult:
    return OperationResult(
        metrics=size_metrics((), ()), plan=Plan(NOTHING_TO_DO), message=NOTHING_TO_DO
    )


def _metrics(done: Sequence[CompactedBin]) -> dict[str, int | str]:
    added = [compacted.target for compacted in done if compacted.target is not None]
    return size_metrics(added, [add for compacted in done for add in compacted.sources])


def _plan(snapshot: Snapshot, bins: Sequence[Bin]) -> OperationResult:
    files = [
        PlannedFile.from_add(
            add,
            f"combined with {len(bin_) - 1} others" if len(bin_) > 1 else "has deleted rows",
        )
        for bin_ in bins
        for add in bin_
    ]
    summary = (
        f"{len(files):,} of {count_noun(snapshot.file_count, 'file')} would become {len(bins):,}."
        if bins
        else NOTHING_TO_DO
    )
    return OperationResult(plan=plan_of(summary, files, new_files=len(bins)))


def pack(files: Iterable[AddFile], rule: BinRule) -> list[Bin]:
    """Pack files into bins for rewriting, each of one partition and in the order of the log.

    Smallest files first, so a later run finds nothing to join: any two bins together exceed
    the target size.
    """
    partitions: dict[tuple[tuple[str, str | None], ...], list[tuple[int, AddFile]]] = {}
    for order, add in enumerate(files):
        if rule.wants(add):
            key = tuple(sorted((k, v or None) for k, v in add.partition_values.items()))
            partitions.setdefault(key, []).append((order, add))
    return [bin_ for group in partitions.values() for bin_ in _bins(group, rule)]


def batches(bins: Sequence[Bin], size_bytes: int) -> Iterator[list[Bin]]:
    """Yield groups of bins of about `size_bytes`; each group is one commit."""
    group: list[Bin] = []
    total = 0
    for bin_ in bins:
        size = sum(add.size for add in bin_)
        if group and total + size > size_bytes:
            yield group
            group, total = [], 0
        group.append(bin_)
        total += size
    if group:
        yield group


def digest(bins: Iterable[Bin]) -> str:
    """Return a digest of the bins' files, stable across runs."""
    keys = sorted(f"{add.path}\0{add.key[1] or ''}" for bin_ in bins for add in bin_)
    return hashlib.sha256("\n".join(keys).encode()).hexdigest()[:16]


def has_many_deleted(add: AddFile) -> bool:
    """Return whether the share of deleted rows is large enough to slow down reads."""
    rows = physical_rows(add)
    if add.deletion_vector is None:
        return False
    return not rows or add.deletion_vector.cardinality / rows > MAX_DELETED_RATIO


def _bins(files: list[tuple[int, AddFile]], rule: BinRule) -> Iterator[Bin]:
    group: list[tuple[int, AddFile]] = []
    total = 0
    for order, add in sorted(files, key=lambda file: (file[1].size, file[0])):
        if group and total + add.size > rule.target_size_bytes:
            yield from _worth(group, rule)
            group, total = [], 0
        group.append((order, add))
        total += add.size
    yield from _worth(group, rule)


def _worth(group: list[tuple[int, AddFile]], rule: BinRule) -> Iterator[Bin]:
    """Yield the group as a bin unless it is one file without enough deleted rows."""
    ordered = tuple(add for _, add in sorted(group, key=lambda item: item[0]))
    alone = len(ordered) == 1 and not (rule.purge or has_many_deleted(ordered[0]))
    if ordered and not alone:
        yield ordered


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
    """
    names = command.zorder_by or snapshot.clustering_columns
    paths = (
        [resolve_column(snapshot.schema, name) for name in command.zorder_by]
        if command.zorder_by
        else [column_path(name) for name in snapshot.clustering_columns]
    )
    _check_columns(snapshot, paths)
    if execution.options.dry_run:
        listed = [PlannedFile.from_add(add, "its rows are reordered") for add in files]
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
            msg = f"{name} is a partition column: each of its values already has separate files."
            raise RequestError(msg, "Order by other columns.", field="zorder_by")
        if isinstance(target_type(snapshot.schema, path), StructType | ArrayType | MapType):
            msg = f"{name} is nested, so its values have no order."
            raise RequestError(msg, "Order by one of its fields.", field="zorder_by")


def _value(path: ColumnPath) -> Column:
    value = column(path[0])
    for part in path[1:]:
        value = value.getField(part)
    return value


def _mark_clustered(add: AddFile) -> AddFile:
    return msgspec.structs.replace(add, clustering_provider=CLUSTERED)
