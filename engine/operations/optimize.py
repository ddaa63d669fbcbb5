"""OPTIMIZE: compacts small files into larger ones without changing a row.

Rows keep their order, and every removed file records where its rows went, so a concurrent DELETE
can be rebased. Large tables are compacted in batches of one commit each; completed batches remain.
"""

from collections.abc import Sequence

from engine.actions.files import AddFile
from engine.commands.model import Optimize
from engine.errors import RequestError
from engine.expressions.render import to_sql
from engine.expressions.traits import columns_of
from engine.expressions.tree import Expression
from engine.operations.auto_compaction import CompactionTerms, settings_of, worth_joining
from engine.operations.cluster import files_to_cluster, rewrite_ordered
from engine.operations.execution import Execution, keeps_row_ids
from engine.operations.file_bins import Bin, BinRule, batches, digest, pack
from engine.operations.result import (
    OperationResult,
    Plan,
    PlannedFile,
    plan_of,
    size_metrics,
)
from engine.operations.row_deletion import split_by_partition
from engine.operations.row_sums import check_compacted
from engine.operations.staged_actions import removal
from engine.snapshot.snapshot import Snapshot
from engine.spark.compaction import CompactedBin, compact
from engine.spark.jobs import Progress
from engine.transaction.optimistic_transaction import OptimisticTransaction
from engine.words import count_noun

BATCH_BYTES = 50 * 1024**3
NOTHING_TO_DO = "The files are as large as they should be: there was nothing to do."


def optimize(command: Optimize, execution: Execution) -> OperationResult:
    """Run an OPTIMIZE: compaction, or ordering if columns are given or the table is clustered.

    Raises:
        RequestError: the condition names columns other than partition columns, or the request
            contradicts the table's clustering.
        ConflictError: a concurrent commit rewrote the same files.
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
        msg = f"{others[0]} is not a partition column: whole files are chosen, by partition."
        raise RequestError(msg, "Leave it out of the condition.", field="where")
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
        recognised=all(result.recognised for result in results),
        versions=tuple(version for result in results for version in result.versions),
    )


def _check_order(command: Optimize, snapshot: Snapshot) -> None:
    """Refuse ZORDER BY on a clustered table, and FULL on any other table."""
    clustering = ", ".join(snapshot.clustering_columns)
    if command.zorder_by and clustering:
        what = f"The table is clustered by {clustering}: OPTIMIZE orders its rows by that alone."
        raise RequestError(what, "Leave ZORDER BY out, or change CLUSTER BY.", field="zorder_by")
    if command.full and not clustering:
        what = "The table is not clustered: there is no order to bring every file into."
        raise RequestError(what, "Leave FULL out, or give the table CLUSTER BY.", field="full")


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
            f"joined with {len(bin_) - 1} others" if len(bin_) > 1 else "has deleted rows",
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
