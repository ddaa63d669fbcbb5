"""UPDATE: sets columns of the matching rows; other rows stay in place.

With deletion vectors the old rows are marked deleted and only the new images are written.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from time import monotonic

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from engine.actions.files import AddCDCFile
from engine.commands.model import Update
from engine.conflicts.reads import SUBQUERY
from engine.expressions.render import to_sql
from engine.expressions.traits import has_subquery, is_asked_once
from engine.expressions.tree import TRUE, Expression
from engine.operations.execution import Execution, keeps_row_ids
from engine.operations.query_tables import QueryTables
from engine.operations.result import OperationResult
from engine.operations.rows.arrow_changes import Images, write_in_process
from engine.operations.rows.dry_run_counts import plan_of_matches
from engine.operations.rows.row_deletion import (
    MATCH,
    ImagesAlong,
    RowDeletion,
    find_rows,
    mark_rows,
    step_times,
)
from engine.operations.rows.row_sums import check_images, check_rewritten
from engine.snapshot.snapshot import Snapshot
from engine.spark.collection import materialize_rows
from engine.spark.columns import column
from engine.spark.row_positions import MOST_COLUMNS_ALONG
from engine.spark.scan.reader import FILE, ROW, ROW_COMMIT_VERSION, ROW_ID
from engine.spark.table_files import TableFiles
from engine.spark.write.assignment import (
    Assignments,
    assign_columns,
    check_assignments,
    recompute_generated,
    split_single_evaluation,
)
from engine.spark.write.table_rules import enforce
from engine.spark.write.writer import (
    CHANGE_TYPE,
    FEW_ROWS,
    WriteOutput,
    data_target,
    is_scattered,
    physical_frame,
    rebalance_partitions,
    write,
    write_changes,
    write_few,
    write_here,
)


def update(command: Update, execution: Execution) -> OperationResult:
    """Run an UPDATE.

    Raises:
        SchemaMismatchError: a column cannot store its new value.
        InvariantViolationError: a new row breaks a rule of the table.
    """
    started = monotonic()
    txn = execution.begin(operation="UPDATE")
    snapshot = execution.snapshot_of(txn)
    tables = QueryTables(execution, txn)
    condition = execution.condition(command, snapshot, tables.schema)
    assignments = command.parse_assignments(
        snapshot.schema, now_ms=execution.now_ms, tables=tables.schema
    )
    check_assignments(snapshot.schema, assignments)
    if tables.reads_target and any(map(has_subquery, assignments.values())):
        txn.use_files_alone(SUBQUERY)  # it reads every row regardless of its condition
    txn.read_where(condition, every_match_changes=True, reads_itself=tables.reads_target)
    candidates = snapshot.add_files(condition)
    if execution.options.dry_run:
        plan = plan_of_matches(execution, snapshot, condition, candidates, "updated")
        return OperationResult(plan=plan)
    setting = _Setting(condition or TRUE, assignments, tables)
    along = _plan_images(execution, snapshot, setting)
    gone = find_rows(execution, snapshot, condition, candidates, tables, along)
    txn.stage(*gone.actions())
    scanned = monotonic()
    written, changes = _images(execution, snapshot, setting, gone)
    check_rewritten(snapshot, gone, written.rows)
    if written.images is not None:
        check_images(snapshot, gone, written.images)
    txn.stage(*written.adds, *changes)
    updated = gone.rows if gone.rows is not None else written.rows
    metrics: dict[str, int | str] = {
        **gone.metrics(written, changes),
        "numUpdatedRows": updated,
        "numCopiedRows": max(0, written.rows - updated),
        **step_times(started, scanned),
    }
    predicate = [to_sql(condition)] if condition is not None else []
    result = execution.commit(txn, "UPDATE", {"predicate": predicate}, metrics)
    return (
        result
        if not gone.is_empty
        else result.replace_message("No row matches: nothing was changed.")
    )


@dataclass(frozen=True)
class _Setting:
    """The assignments of an UPDATE and its condition; `tables` reads their subqueries."""

    condition: Expression
    assignments: Assignments
    tables: QueryTables

    @property
    def is_asked_once(self) -> bool:
        """Whether a value is to be computed once, before the rows are written."""
        return any(map(is_asked_once, self.assignments.values()))


def _plan_images(execution: Execution, snapshot: Snapshot, setting: _Setting) -> ImagesAlong | None:
    """Plan new images while rows are found, to save a second read of few files.

    Return None for a wide table, where the second read covers only the columns images need, and for
    a table with a change feed, which needs the old rows.
    """
    is_wide = len(snapshot.schema) > MOST_COLUMNS_ALONG
    feeds = snapshot.properties.enable_change_data_feed
    if is_wide or feeds or setting.is_asked_once or not execution.options.in_process_bytes:
        return None
    kept = keeps_row_ids(snapshot)
    table = execution.files_of(snapshot)

    def make(matches: DataFrame) -> DataFrame:
        marked = matches.withColumn(MATCH, F.lit(True))
        images = _assign_rows(
            marked, snapshot, setting.assignments, execution.caller, kept=kept, beside=(FILE, ROW)
        )
        images = _enforce(execution, snapshot, images)
        return physical_frame(images, table, keep_row_ids=kept, beside=(FILE, ROW))

    return ImagesAlong(make, kept)


def _images(
    execution: Execution, snapshot: Snapshot, setting: _Setting, gone: RowDeletion
) -> tuple[WriteOutput, list[AddCDCFile]]:
    """Write the new images, and with them the unchanged rows of rewritten files."""
    touched = (*gone.removed, *(file.add for file in gone.masked))
    if not touched:
        return WriteOutput(), []
    images_of = Images(setting.condition, setting.assignments, touched, leaves=not gone.masked)
    by_arrow = write_in_process(execution, snapshot, images_of, touched)
    if by_arrow is not None:
        return by_arrow
    table, kept = execution.files_of(snapshot), keeps_row_ids(snapshot)
    if gone.images is not None:
        return _write_images(execution, table, gone.images, kept=kept), []
    with execution.spark_stage("write new rows"):
        rows = mark_rows(execution, snapshot, setting.condition, gone, touched, row_ids=kept)
        if not gone.rewritten:  # only images are written: the row sum notices a missing match
            rows = rows.filter(column(MATCH))
        assignments = setting.assignments
        if snapshot.properties.enable_change_data_feed or setting.is_asked_once:
            rows, assignments = _materialize_values(rows, setting)
        counting = Observation()
        counted = F.count_if(column(MATCH)).alias("images")
        watched = rows.observe(counting, counted) if gone.rewritten else rows
        images = _assign_rows(watched, snapshot, assignments, execution.caller, kept=kept)
        images = _enforce(execution, snapshot, images)
        written = _write_updated_rows(images, table, gone, _few(execution, gone), kept=kept)
        execution.wrote(written.adds)
        if gone.rewritten:
            written = replace(written, images=int(counting.get["images"] or 0))
        changes: list[AddCDCFile] = []
        if snapshot.properties.enable_change_data_feed:
            changes = _changes(execution, rows, snapshot, assignments)
            execution.wrote(changes)
    execution.wrote_in_words(written.adds)
    return written, changes


def _write_images(
    execution: Execution, table: TableFiles, images: pa.Table, *, kept: bool
) -> WriteOutput:
    execution.begin_stage("write new rows")
    written = write_here(images, data_target(table, keep_row_ids=kept))
    execution.wrote(written.adds)
    execution.wrote_in_words(written.adds)
    return written


def _write_updated_rows(
    images: DataFrame, table: TableFiles, gone: RowDeletion, few: int | None, *, kept: bool
) -> WriteOutput:
    written = write_few(images, table, few, keep_row_ids=kept)
    if written is not None:
        return written
    if gone.masked and is_scattered(table, len(gone.removed) + len(gone.masked)):
        images = rebalance_partitions(images, table)
    return write(images, table, keep_row_ids=kept)


def _few(execution: Execution, gone: RowDeletion) -> int | None:
    """Return the number of new images if it is small and no unchanged rows are written."""
    if not (execution.options.in_process_bytes and gone.masked):
        return None
    return gone.rows if gone.rows is not None and gone.rows <= FEW_ROWS else None


def _materialize_values(rows: DataFrame, setting: _Setting) -> tuple[DataFrame, Assignments]:
    """Materialize values evaluated once; return the rows with them and assignments over them."""
    values, over = split_single_evaluation(setting.assignments)
    rows = setting.tables.prepare_rows(rows, list(values.values()), column(MATCH))
    for name, value in values.items():
        rows = rows.withColumn(name, F.when(column(MATCH), setting.tables.value(value)))
    return materialize_rows(rows) if values else rows, over


def _assign_rows(
    rows: DataFrame,
    snapshot: Snapshot,
    assignments: Assignments,
    caller: SparkSession,
    *,
    kept: bool,
    beside: Sequence[str] = (),
) -> DataFrame:
    """Return the rows with their new values; a changed row keeps its id and takes a new version.

    Columns `beside` the table's are kept.
    """
    new = assign_columns(snapshot.schema, assignments)
    columns: list[Column] = []
    for field in snapshot.schema:
        old = column(field.name)
        value = F.when(column(MATCH), new[field.name]).otherwise(old) if field.name in new else old
        columns.append(value.alias(field.name))
    if kept:
        stays = F.when(~column(MATCH), column(ROW_COMMIT_VERSION))
        columns += [column(ROW_ID), stays.alias(ROW_COMMIT_VERSION)]
    columns += [column(name) for name in beside]
    stand = {path[0]: F.lit(True) for path in assignments}
    rows = rows.select(*columns)
    return recompute_generated(rows, caller, snapshot.table_uri, snapshot.schema, stand)


def _enforce(execution: Execution, snapshot: Snapshot, images: DataFrame) -> DataFrame:
    table, caller = snapshot.table_uri, execution.caller
    return enforce(images, caller, table, snapshot.schema, snapshot.metadata)


def _changes(
    execution: Execution, rows: DataFrame, snapshot: Snapshot, assignments: Assignments
) -> list[AddCDCFile]:
    matched = rows.filter(column(MATCH))
    before = matched.select(*[column(n) for n in snapshot.schema.names])
    after = _assign_rows(matched, snapshot, assignments, execution.caller, kept=False)
    both = before.withColumn(CHANGE_TYPE, F.lit("update_preimage")).unionByName(
        after.withColumn(CHANGE_TYPE, F.lit("update_postimage"))
    )
    return write_changes(both, execution.files_of(snapshot))
