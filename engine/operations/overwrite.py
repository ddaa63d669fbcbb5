"""INSERT OVERWRITE: rows take the place of all rows, of a condition's, or of whole partitions."""

from collections.abc import Sequence

from pyspark.sql import functions as F  # noqa: N812

from engine.actions.files import AddCDCFile, AddFile
from engine.commands.model import Overwrite
from engine.expressions.render import to_sql
from engine.expressions.tree import Call, Column, Expression, Literal
from engine.operations.delete import rewrite_without
from engine.operations.execution import Execution, removal
from engine.operations.query_tables import QueryTables
from engine.operations.result import OperationResult, PlannedFile, plan_of
from engine.operations.row_deletion import find_rows, split_by_partition
from engine.operations.source_rows import source_rows
from engine.operations.write_rows import (
    Terms,
    file_metrics,
    numbered,
    removed_metrics,
    with_schema,
    write_rows,
)
from engine.schema.column_mapping import physical_name
from engine.schema.partition_values import parse_partition_value
from engine.schema.types import BOOLEAN, StructType
from engine.snapshot.snapshot import Snapshot
from engine.spark.reader import ScanRequest, scan
from engine.spark.writer import CHANGE_TYPE, Written, write_changes
from engine.transaction.optimistic_transaction import OptimisticTransaction


def overwrite(command: Overwrite, execution: Execution) -> OperationResult:
    """Run an overwrite of the kind the command asks for.

    Raises:
        AppendOnlyError: the table only grows.
        SchemaMismatchError, BadRowsError, InvariantViolationError: the data does not fit.
        ConflictError: a concurrent commit won.
    """
    txn = execution.begin()
    snapshot = execution.snapshot_of(txn)
    condition = command.replaced(snapshot.schema, now_ms=execution.now_ms)
    if execution.options.dry_run:
        return _plan(command, snapshot, condition)
    if condition is not None:
        return _replace_where(command, execution, txn, condition)
    if command.dynamic_partitions and snapshot.partition_columns:
        return _replace_partitions(command, execution, txn)
    return _replace_all(command, execution, txn)


def _replace_all(
    command: Overwrite, execution: Execution, txn: OptimisticTransaction
) -> OperationResult:
    snapshot = execution.snapshot_of(txn)
    txn.read_whole_table()
    terms = Terms.of(snapshot)
    target_schema = None if command.overwrite_schema else terms.schema
    rows = source_rows(execution, command.source, target_schema, txn)
    if command.overwrite_schema:
        terms = with_schema(terms, _with_known_metadata(rows.schema, terms.schema))
    rows, terms = numbered(execution, terms, rows)
    written = write_rows(execution, terms, rows)
    removed = snapshot.add_files()
    txn.stage(*terms.changes_from(snapshot), *map(removal, removed), *written.adds)
    parameters = _parameters(snapshot, canOverwriteSchema=command.overwrite_schema)
    metrics = {**file_metrics(written), **removed_metrics(removed)}
    return execution.commit(txn, "WRITE", parameters, metrics)


def _replace_where(
    command: Overwrite, execution: Execution, txn: OptimisticTransaction, condition: Expression
) -> OperationResult:
    """Rows that match go, and every row that comes must match."""
    snapshot = execution.snapshot_of(txn)
    txn.read_where(condition, every_match_changes=True)
    tables = QueryTables(execution, txn)
    gone = find_rows(execution, snapshot, condition, snapshot.add_files(condition), tables)
    kept, changes = rewrite_without(execution, snapshot, condition, gone)
    terms = Terms.of(snapshot)
    rows = source_rows(execution, command.source, terms.schema, txn)
    rows, terms = numbered(execution, terms, rows)
    written = write_rows(execution, terms, rows, must=condition)
    if changes:
        changes = [*changes, *_inserted(execution, terms, written)]
    txn.stage(*terms.changes_from(snapshot), *gone.actions(), *kept.adds, *written.adds, *changes)
    metrics = {
        **file_metrics(written + kept),
        **removed_metrics(gone.removed),
        "numAddedChangeFiles": len(changes),
        "numCopiedRows": kept.rows,
        "numDeletedRows": gone.rows or 0,
    }
    parameters = _parameters(snapshot, predicate=to_sql(condition))
    return execution.commit(txn, "WRITE", parameters, metrics)


def _inserted(execution: Execution, terms: Terms, written: Written) -> list[AddCDCFile]:
    """New rows as changes: a version with change files must hold all of its changes in them."""
    table = terms.files(execution)
    with execution.spark_stage("write changes"):
        rows = scan(execution.spark, table, ScanRequest(written.adds))
        changes = write_changes(rows.withColumn(CHANGE_TYPE, F.lit("insert")), table)
        execution.wrote(changes)
    return changes


def _replace_partitions(
    command: Overwrite, execution: Execution, txn: OptimisticTransaction
) -> OperationResult:
    """Partitions that the data touches are replaced whole."""
    snapshot = execution.snapshot_of(txn)
    terms = Terms.of(snapshot)
    rows = source_rows(execution, command.source, terms.schema, txn)
    rows, terms = numbered(execution, terms, rows)
    written = write_rows(execution, terms, rows)
    touched = _partition_condition(snapshot, written.adds)
    removed: Sequence[AddFile] = ()
    if touched is not None:
        txn.read_where(touched)
        removed, _ = split_by_partition(snapshot, touched, snapshot.add_files(touched))
    txn.stage(*terms.changes_from(snapshot), *map(removal, removed), *written.adds)
    parameters = _parameters(snapshot, isDynamicPartitionOverwrite=True)
    metrics = {**file_metrics(written), **removed_metrics(removed)}
    return execution.commit(txn, "WRITE", parameters, metrics)


def _partition_condition(snapshot: Snapshot, adds: Sequence[AddFile]) -> Expression | None:
    """The rows of the partitions of files."""
    fields = snapshot.partition_schema
    partitions = {
        tuple(add.partition_values.get(physical_name(f, snapshot.mapping_mode)) for f in fields)
        for add in adds
    }
    clauses: list[Expression] = []
    for values in sorted(partitions, key=str):
        tests: list[Expression] = []
        for column, text in zip(fields, values, strict=True):
            literal = Literal(parse_partition_value(text, column.type), column.type)
            tests.append(Call("<=>", (Column((column.name,), column.type), literal), BOOLEAN))
        clauses.append(tests[0] if len(tests) == 1 else Call("and", tuple(tests), BOOLEAN))
    if not clauses:
        return None
    return clauses[0] if len(clauses) == 1 else Call("or", tuple(clauses), BOOLEAN)


def _with_known_metadata(data: StructType, table: StructType) -> StructType:
    """New columns; those that keep name and type keep what the table says of them."""
    fields = []
    for column in data:
        declared = table.get(column.name)
        fields.append(declared if declared is not None and declared.type == column.type else column)
    return StructType(tuple(fields))


def _parameters(snapshot: Snapshot, **more: object) -> dict[str, object]:
    partition_by = list(snapshot.metadata.partition_columns)
    return {"mode": "Overwrite", "partitionBy": partition_by, **more}


def _plan(command: Overwrite, snapshot: Snapshot, condition: Expression | None) -> OperationResult:
    if command.dynamic_partitions and snapshot.partition_columns:
        files = [PlannedFile.of(a, "if its partition is in the data") for a in snapshot.add_files()]
        return OperationResult(plan=plan_of("Partitions in the data would be replaced.", files))
    whole, unsure = split_by_partition(snapshot, condition, snapshot.add_files(condition))
    files = [PlannedFile.of(add, "replaced whole") for add in whole]
    files += [PlannedFile.of(add, "may hold rows that are replaced") for add in unsure]
    summary = f"{len(whole)} of {snapshot.file_count} files would be replaced, {len(unsure)} read."
    return OperationResult(plan=plan_of(summary, files))
