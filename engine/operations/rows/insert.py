"""INSERT INTO and INSERT OVERWRITE: new rows are added, or replace others.

OVERWRITE replaces all rows, the rows of a condition, or whole partitions. The new rows are those of
the source with the constants of PARTITION.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812

from engine.actions.files import AddCDCFile, AddFile
from engine.commands.model import Append, Overwrite, QuerySource, RowsSource, Source
from engine.commands.sources import FileSource
from engine.commands.writes import TARGET, check_times, static_values
from engine.errors import RequestError
from engine.expressions.lexer import tokenize
from engine.expressions.parse import condition_of
from engine.expressions.queries.subqueries import bind_subqueries
from engine.expressions.render import to_sql
from engine.expressions.scope import Relation, Scope
from engine.expressions.traits import is_deterministic
from engine.expressions.tree import Call, Column, Expression, Literal
from engine.operations.arrow_rows import (
    FOR_SPARK,
    RuledRows,
    check_plain,
    evaluate_as,
    need_spark,
    write_tables,
)
from engine.operations.execution import Execution
from engine.operations.query_tables import QueryTables
from engine.operations.result import OperationResult, Plan, PlannedFile, plan_of
from engine.operations.rows.delete import rewrite_without
from engine.operations.rows.row_deletion import find_rows, split_by_partition
from engine.operations.source_rows import rows_at_hand, source_rows
from engine.operations.write_rows import (
    WriteTerms,
    add_columns,
    assign_identity,
    file_metrics,
    removal,
    removal_metrics,
    replace_schema,
    rewrite_actions,
    write_rows,
)
from engine.schema.arrow import to_arrow_type
from engine.schema.column_mapping import physical_name
from engine.schema.partition_values import parse_partition_value
from engine.schema.types import BOOLEAN, StructField, StructType
from engine.snapshot.snapshot import Snapshot
from engine.spark.column_trees import StatementText
from engine.spark.columns import to_column
from engine.spark.scan.reader import ScanRequest, scan
from engine.spark.session import is_in_utc
from engine.spark.sources import SourceRows
from engine.spark.write.writer import CHANGE_TYPE, WriteOutput, data_target, write_changes
from engine.transaction.optimistic_transaction import OptimisticTransaction
from engine.words import count_noun

_ONE_ROW = pa.table({"": pa.nulls(1)})


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
    changes = [*terms.changes_from(snapshot), *written.adds]
    txn.stage(*rewrite_actions(changes, data_change=execution.options.data_change))
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


def overwrite(command: Overwrite, execution: Execution) -> OperationResult:
    """Run an overwrite of the requested kind.

    Raises:
        AppendOnlyError: the table is append-only.
        SchemaMismatchError, BadRowsError, InvariantViolationError: the data does not fit.
    """
    txn = execution.begin(operation="WRITE")
    snapshot = execution.snapshot_of(txn)
    if command.replace_using or command.replace_on:
        return _replace_matched(command, execution, txn)
    condition = command.parse_replace_where(snapshot.schema, now_ms=execution.now_ms)
    if execution.options.dry_run:
        return _plan(command, snapshot, condition)
    if condition is not None:
        txn.read_where(condition, every_match_changes=True)
        tables = QueryTables(execution, txn)
        return _replace_where(command, execution, _ReplacedRows(txn, condition, tables, condition))
    if command.dynamic_partitions and snapshot.partition_columns:
        return _replace_partitions(command, execution, txn)
    return _replace_all(command, execution, txn)


def _replace_all(
    command: Overwrite, execution: Execution, txn: OptimisticTransaction
) -> OperationResult:
    snapshot = execution.snapshot_of(txn)
    txn.read_whole_table()
    terms = WriteTerms.from_snapshot(snapshot)
    if command.overwrite_schema:
        rows = source_rows(execution, command.source, None, txn)
        terms = replace_schema(terms, _keep_column_metadata(rows.schema, terms.schema))
        rows, terms = assign_identity(execution, terms, rows)
    else:
        rows, terms = _rows(command, execution, txn, terms)
    written = write_rows(execution, terms, rows)
    removed = snapshot.add_files()
    actions = [*terms.changes_from(snapshot), *map(removal, removed), *written.adds]
    txn.stage(*rewrite_actions(actions, data_change=execution.options.data_change))
    parameters = _parameters(snapshot, canOverwriteSchema=command.overwrite_schema)
    metrics = {**file_metrics(written), **removal_metrics(removed)}
    return execution.commit(txn, "WRITE", parameters, metrics)


def _rows(
    command: Overwrite, execution: Execution, txn: OptimisticTransaction, terms: WriteTerms
) -> tuple[SourceRows, WriteTerms]:
    """Return the rows to write, and the terms with the columns they add."""
    rows = read_source_rows(execution, command, terms, txn)
    if command.merge_schema:
        terms = add_columns(terms, rows.schema)
    return assign_identity(execution, terms, rows)


@dataclass(frozen=True)
class _ReplacedRows:
    """Rows to replace: a registered condition and its tables; new rows satisfy `must`."""

    txn: OptimisticTransaction
    condition: Expression
    tables: QueryTables
    must: Expression | None


def _replace_matched(
    command: Overwrite, execution: Execution, txn: OptimisticTransaction
) -> OperationResult:
    """Replace rows for which REPLACE USING or REPLACE ON is true with a source row."""
    snapshot = execution.snapshot_of(txn)
    tables = QueryTables(execution, txn)
    condition = _parse_match_condition(command, execution, snapshot, tables)
    txn.read_where(condition, every_match_changes=True, reads_itself=tables.reads_target)
    if execution.options.dry_run:
        return _plan(command, snapshot, condition)
    return _replace_where(command, execution, _ReplacedRows(txn, condition, tables, None))


def _parse_match_condition(
    command: Overwrite, execution: Execution, snapshot: Snapshot, tables: QueryTables
) -> Expression:
    """Parse the condition of the replaced rows.

    Raises:
        RequestError: the source may return other rows on the second read.
        ExpressionError: a source that is no list of values depends on the caller's session.
    """
    columns = command.source.columns if isinstance(command.source, RowsSource | QuerySource) else ()
    by_position = isinstance(command.source, RowsSource) or getattr(
        command.source, "by_position", False
    )
    names = columns or (snapshot.schema.names if by_position else ())
    if isinstance(command.source, RowsSource) and not columns:
        names = names[: len(command.source.rows[0])]
    own = command.table.rpartition(".")[2].rpartition("/")[2]
    relation = Relation(snapshot.schema, "", (command.alias or own, TARGET))
    text = command.render_match(names)
    given = text if execution.has_engine_terms else StatementText(text, execution.caller)
    condition = condition_of(
        given, Scope((relation,)), now_ms=execution.now_ms, nested=bind_subqueries(tables.schema)
    )
    if not is_deterministic(condition) or _takes_any_rows(command.source):
        msg = (
            "The source of REPLACE USING and REPLACE ON is read twice, and could return "
            "different rows."
        )
        remedy = "Remove rand(), uuid() and LIMIT, or write the rows to a table first."
        raise RequestError(msg, remedy, field="source")
    return condition


def _takes_any_rows(source: Source) -> bool:
    """Return whether a query takes an arbitrary subset of rows, possibly another one each time."""
    if not isinstance(source, QuerySource):
        return False
    words = {token.value for token in tokenize(source.query) if token.kind == "word"}
    return not words.isdisjoint({"LIMIT", "OFFSET", "FIRST", "LAST", "ANY_VALUE", "ROW_NUMBER"})


def _replace_where(
    command: Overwrite, execution: Execution, replaced: _ReplacedRows
) -> OperationResult:
    """Replace the matching rows; for a stated condition, every new row must match too."""
    txn, condition = replaced.txn, replaced.condition
    snapshot = execution.snapshot_of(txn)
    candidates = snapshot.add_files(condition)
    gone = find_rows(execution, snapshot, condition, candidates, replaced.tables)
    kept, changes = rewrite_without(execution, snapshot, condition, gone)
    terms = WriteTerms.from_snapshot(snapshot)
    rows, terms = _rows(command, execution, txn, terms)
    written = write_rows(execution, terms, rows, must=replaced.must)
    if changes:
        changes = [*changes, *_write_insert_changes(execution, terms, written)]
    actions = [*terms.changes_from(snapshot), *gone.actions(), *kept.adds, *written.adds, *changes]
    txn.stage(*rewrite_actions(actions, data_change=execution.options.data_change))
    metrics = {
        **file_metrics(written + kept),
        **removal_metrics(gone.removed),
        "numAddedChangeFiles": len(changes),
        "numCopiedRows": kept.rows,
        "numDeletedRows": gone.rows or 0,
    }
    parameters = _parameters(snapshot, predicate=to_sql(condition))
    return execution.commit(txn, "WRITE", parameters, metrics)


def _write_insert_changes(
    execution: Execution, terms: WriteTerms, written: WriteOutput
) -> list[AddCDCFile]:
    """Write inserted rows as changes: change files must hold all changes of their version."""
    table = terms.files(execution)
    with execution.spark_stage("write changes"):
        rows = scan(execution.spark, table, ScanRequest(written.adds))
        changes = write_changes(rows.withColumn(CHANGE_TYPE, F.lit("insert")), table)
        execution.wrote(changes)
    return changes


def _replace_partitions(
    command: Overwrite, execution: Execution, txn: OptimisticTransaction
) -> OperationResult:
    """Replace every partition with new data as a whole."""
    snapshot = execution.snapshot_of(txn)
    terms = WriteTerms.from_snapshot(snapshot)
    rows, terms = _rows(command, execution, txn, terms)
    written = write_rows(execution, terms, rows)
    touched = _partition_condition(snapshot, written.adds)
    removed: Sequence[AddFile] = ()
    if touched is not None:
        txn.read_where(touched)
        removed, _ = split_by_partition(snapshot, touched, snapshot.add_files(touched))
    actions = [*terms.changes_from(snapshot), *map(removal, removed), *written.adds]
    txn.stage(*rewrite_actions(actions, data_change=execution.options.data_change))
    parameters = _parameters(snapshot, isDynamicPartitionOverwrite=True)
    metrics = {**file_metrics(written), **removal_metrics(removed)}
    return execution.commit(txn, "WRITE", parameters, metrics)


def _partition_condition(snapshot: Snapshot, adds: Sequence[AddFile]) -> Expression | None:
    """Return a condition for the rows of the files' partitions."""
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


def _keep_column_metadata(data: StructType, table: StructType) -> StructType:
    """Return the new columns; those with unchanged name and type keep the table's metadata."""
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
        files = [
            PlannedFile.from_add(a, "if its partition is in the data") for a in snapshot.add_files()
        ]
        return OperationResult(plan=plan_of("Partitions in the data would be replaced.", files))
    whole, unsure = split_by_partition(snapshot, condition, snapshot.add_files(condition))
    files = [PlannedFile.from_add(add, "replaced whole") for add in whole]
    files += [PlannedFile.from_add(add, "may hold rows that are replaced") for add in unsure]
    summary = (
        f"{len(whole):,} of {count_noun(snapshot.file_count, 'file')} would be replaced, "
        f"{len(unsure)} read."
    )
    return OperationResult(plan=plan_of(summary, files))


def read_source_rows(
    execution: Execution, command: Append | Overwrite, terms: WriteTerms, txn: OptimisticTransaction
) -> SourceRows:
    """Return the rows of a command's source, with the constants of its PARTITION.

    Raises:
        RequestError: PARTITION names a column that is no partition column, or is also in the
            source.
    """
    constants = _constants(execution, command.partition, terms)
    columns, evolves = _drop_constants(terms.schema, constants), command.merge_schema
    rows = source_rows(execution, command.source, columns, txn, takes_more=evolves)
    _check_apart(constants, rows.schema.names)
    frame, fields = rows.frame, list(rows.schema.fields)
    for name, value in constants.items():
        frame = frame.withColumn(name, to_column(value))
        fields.append(StructField(name, value.type))
    return replace(rows, frame=frame, schema=StructType(tuple(fields)))


def read_rows_in_process(
    execution: Execution, command: Append, terms: WriteTerms
) -> pa.Table | None:
    """Return the same rows as `read_source_rows`, as Arrow; None if they need Spark.

    Raises:
        CannotEvaluateError: only Spark can cast a constant.
    """
    constants = _constants(execution, command.partition, terms)
    at_hand = rows_at_hand(execution, command.source, _drop_constants(terms.schema, constants))
    if at_hand is None:
        return None
    rows = at_hand[0]
    _check_apart(constants, rows.column_names)
    for name, value in constants.items():
        one = evaluate_as(value.type, value, _ONE_ROW)[0].cast(to_arrow_type(value.type))
        rows = rows.append_column(name, pa.repeat(one, rows.num_rows))
    return rows


def _constants(
    execution: Execution, partition: Mapping[str, str], terms: WriteTerms
) -> dict[str, Expression]:
    columns = {name.lower() for name in terms.metadata.partition_columns}
    for name in partition:
        if name.strip("`").lower() not in columns:
            shown = ", ".join(terms.metadata.partition_columns) or "none"
            msg = f"{name} is in PARTITION, but is not a partition column."
            raise RequestError(msg, f"The partition columns are: {shown}.", field="partition")
    if not (execution.has_engine_terms or is_in_utc(execution.caller)):
        check_times(partition, terms.schema)
    return static_values(partition, terms.schema)


def _drop_constants(schema: StructType, constants: Mapping[str, Expression]) -> StructType:
    return StructType(tuple(field for field in schema if field.name not in constants))


def _check_apart(constants: Mapping[str, Expression], names: list[str]) -> None:
    given = {name.lower() for name in names}
    both = [name for name in constants if name.lower() in given]
    if both:
        msg = f"{both[0]} has a value in PARTITION, and the source has it too."
        raise RequestError(msg, "Leave it out of one of them.", field="partition")
