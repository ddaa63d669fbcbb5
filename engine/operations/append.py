"""INSERT INTO: rows are added, and nothing of the table is read."""

from engine.commands.model import Append
from engine.commands.sources import FileSource
from engine.operations.arrow_rows import (
    FOR_SPARK,
    RuledRows,
    check_plain,
    need_spark,
    write_tables,
)
from engine.operations.execution import Execution
from engine.operations.insert_rows import read_rows_in_process, read_source_rows
from engine.operations.result import OperationResult, Plan
from engine.operations.write_rows import (
    WriteTerms,
    add_columns,
    assign_identity,
    file_metrics,
    write_rows,
)
from engine.spark.writer import WriteOutput, data_target


def append(command: Append, execution: Execution) -> OperationResult:
    """Run an append. It is blind unless its source is the table itself.

    Raises:
        SchemaMismatchError: the data does not fit the table.
        BadRowsError: a row of the source does not fit.
        InvariantViolationError: a row breaks a rule of the table.
    """
    if execution.options.dry_run:
        return OperationResult(plan=Plan(f"Rows would be added: {command.source.sql()}"))
    txn = execution.begin(operation="WRITE")
    snapshot = execution.snapshot_of(txn)
    terms = WriteTerms.from_snapshot(snapshot)
    written, dropped = _append_in_process(command, execution, terms), 0
    if written is None:
        rows = read_source_rows(execution, command, terms, txn)
        if command.merge_schema:
            terms = add_columns(terms, rows.schema)
        rows, terms = assign_identity(execution, terms, rows)
        written = write_rows(execution, terms, rows)
        dropped = rows.dropped()
    txn.stage(*terms.changes_from(snapshot), *written.adds)
    parameters = {"mode": "Append", "partitionBy": list(snapshot.metadata.partition_columns)}
    metrics = file_metrics(written)
    if isinstance(command.source, FileSource) and command.source.bad_rows != "fail":
        metrics["numDroppedRows"] = dropped
    if not txn.actions:
        return OperationResult(
            metrics=metrics, message="The source has no rows: nothing was added."
        )
    return execution.commit(txn, "WRITE", parameters, metrics)


def _append_in_process(
    command: Append, execution: Execution, terms: WriteTerms
) -> WriteOutput | None:
    """Write the given rows in this process; return None if Spark must write them."""
    if command.merge_schema or not execution.options.in_process_bytes:
        return None
    files = terms.files(execution)
    try:
        rows = read_rows_in_process(execution, command, terms)
        if rows is None or not set(rows.column_names) <= set(terms.schema.names):
            return None
        check_plain(terms.schema, files, {})
        ruled = RuledRows.plan(execution, terms.metadata, terms.schema, rows.column_names).check(
            rows
        )
    except FOR_SPARK as error:
        need_spark(execution, error)
        return None
    execution.begin_stage("write files")
    written = write_tables(execution, [ruled], data_target(files, keep_row_ids=False), files)
    execution.wrote_in_words(written.adds)
    return written
