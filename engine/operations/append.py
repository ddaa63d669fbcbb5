"""INSERT INTO: rows are added, and nothing of the table is read."""

from engine.commands.model import Append
from engine.commands.sources import FileSource
from engine.operations.execution import Execution
from engine.operations.result import OperationResult, Plan
from engine.operations.source_rows import source_rows
from engine.operations.write_rows import Terms, file_metrics, numbered, with_new_columns, write_rows


def append(command: Append, execution: Execution) -> OperationResult:
    """Run an append. It is blind unless its source is the table itself.

    Raises:
        SchemaMismatchError: the data does not fit the table.
        BadRowsError: a row of the source does not fit.
        InvariantViolationError: a row breaks a rule of the table.
    """
    if execution.options.dry_run:
        return OperationResult(plan=Plan(f"Rows would be added: {command.source.sql()}"))
    txn = execution.begin()
    snapshot = execution.snapshot_of(txn)
    terms = Terms.of(snapshot)
    rows = source_rows(execution, command.source, terms.schema, txn)
    if command.merge_schema:
        terms = with_new_columns(terms, rows.schema)
    rows, terms = numbered(execution, terms, rows)
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
