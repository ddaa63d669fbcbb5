"""DELETE and TRUNCATE: DELETE removes the rows matching a condition, or all rows without one.

TRUNCATE removes every row without reading a file.
"""

from dataclasses import replace
from time import monotonic

from pyspark.sql import functions as F  # noqa: N812

from engine.actions.files import AddCDCFile
from engine.commands.model import Delete, Truncate
from engine.expressions.render import to_sql
from engine.expressions.tree import Expression
from engine.operations.execution import Execution, keeps_row_ids
from engine.operations.query_tables import QueryTables
from engine.operations.result import OperationResult, PlannedFile, plan_of
from engine.operations.rows.arrow_changes import Images, write_in_process
from engine.operations.rows.dry_run_counts import plan_of_matches
from engine.operations.rows.row_deletion import (
    MATCH,
    RowDeletion,
    find_rows,
    mark_rows,
    step_times,
)
from engine.operations.rows.row_sums import check_rewritten
from engine.operations.write_rows import removal
from engine.snapshot.snapshot import Snapshot
from engine.spark.columns import column
from engine.spark.write.writer import CHANGE_TYPE, WriteOutput, write, write_changes


def delete(command: Delete, execution: Execution) -> OperationResult:
    """Run a DELETE.

    Raises:
        AppendOnlyError: the table only grows.
    """
    started = monotonic()
    txn = execution.begin(operation="DELETE")
    snapshot = execution.snapshot_of(txn)
    tables = QueryTables(execution, txn)
    condition = execution.condition(command, snapshot, tables.schema)
    txn.read_where(condition, every_match_changes=True, reads_itself=tables.reads_target)
    candidates = snapshot.add_files(condition)
    if execution.options.dry_run:
        plan = plan_of_matches(execution, snapshot, condition, candidates, "deleted")
        facts = {"predicate": to_sql(condition) if condition is not None else ""}
        return OperationResult(plan=replace(plan, facts=facts))
    gone = find_rows(execution, snapshot, condition, candidates, tables)
    txn.stage(*gone.actions())
    scanned = monotonic()
    written, changes = rewrite_without(execution, snapshot, condition, gone)
    txn.stage(*written.adds, *changes)
    metrics: dict[str, int | str] = {
        **gone.metrics(written, changes),
        "numCopiedRows": written.rows,
        **step_times(started, scanned),
    }
    if gone.rows is not None:
        metrics["numDeletedRows"] = gone.rows
    predicate = [to_sql(condition)] if condition is not None else []
    result = execution.commit(txn, "DELETE", {"predicate": predicate}, metrics)
    if gone.is_empty:
        return result.replace_message("No row matches: nothing was changed.")
    if result.version is None:
        return result.replace_message(
            "Concurrent commits had already deleted the rows: nothing was changed."
        )
    return result


def rewrite_without(
    execution: Execution, snapshot: Snapshot, condition: Expression | None, gone: RowDeletion
) -> tuple[WriteOutput, list[AddCDCFile]]:
    """Rewrite files without their deleted rows; return also the change files, if a feed needs them.

    With deletion vectors, and for whole files, readers of the feed find the rows themselves; once
    a version has change files, these must hold all of its changes.

    Raises:
        RowSumError: the files would not hold every remaining row.
    """
    if not gone.rewritten or condition is None:
        return WriteOutput(), []
    written, changes = _rewrite_files(execution, snapshot, condition, gone)
    check_rewritten(snapshot, gone, written.rows, new_rows=0)
    return written, changes


def _rewrite_files(
    execution: Execution, snapshot: Snapshot, condition: Expression, gone: RowDeletion
) -> tuple[WriteOutput, list[AddCDCFile]]:
    left = tuple(file.add for file in gone.rewritten)
    by_arrow = write_in_process(
        execution, snapshot, Images(condition, None, left, leaves=True), gone.removed
    )
    if by_arrow is not None:
        return by_arrow
    table, kept = execution.files_of(snapshot), keeps_row_ids(snapshot)
    changes: list[AddCDCFile] = []
    with execution.spark_stage("rewrite files"):
        rows = mark_rows(execution, snapshot, condition, gone, left, row_ids=kept)
        written = write(rows.filter(~column(MATCH)).drop(MATCH), table, keep_row_ids=kept)
        execution.wrote(written.adds)
        if snapshot.properties.enable_change_data_feed:
            removed = mark_rows(execution, snapshot, condition, gone, gone.removed)
            deleted = removed.filter(column(MATCH)).drop(MATCH)
            changes = write_changes(deleted.withColumn(CHANGE_TYPE, F.lit("delete")), table)
            execution.wrote(changes)
    execution.wrote_in_words(written.adds)
    return written, changes


def truncate(command: Truncate, execution: Execution) -> OperationResult:  # noqa: ARG001
    """Run a TRUNCATE.

    Raises:
        AppendOnlyError: the table only grows.
    """
    started = monotonic()
    txn = execution.begin()
    files = execution.snapshot_of(txn).add_files()
    if execution.options.dry_run:
        listed = [PlannedFile.from_add(add, "every row is removed") for add in files]
        return OperationResult(plan=plan_of(f"All {len(files)} files would be removed.", listed))
    txn.read_where(None, every_match_changes=True)
    txn.stage(*map(removal, files))
    metrics: dict[str, int | str] = {
        "numRemovedFiles": len(files),
        "executionTimeMs": round((monotonic() - started) * 1000),
    }
    result = execution.commit(txn, "TRUNCATE", {}, metrics)
    return result if files else result.replace_message("The table is empty: nothing was changed.")
