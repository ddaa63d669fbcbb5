"""CREATE TABLE, empty or from a source, in one commit."""

from collections.abc import Iterable

import msgspec

from engine.actions.codec import Action
from engine.actions.commit_info import CommitInfo
from engine.actions.table import DomainMetadata, Metadata, Protocol
from engine.commands.model import Append, Create, DataFrameSource
from engine.errors import TableExistsError
from engine.log.segment import list_log_files
from engine.operations.define.alter import check_default_type
from engine.operations.execution import Execution
from engine.operations.result import OperationResult, Plan, PlannedFile, plan_of
from engine.operations.rows.insert import append
from engine.operations.source_rows import source_rows
from engine.operations.write_rows import (
    WriteTerms,
    assign_identity,
    file_metrics,
    removal,
    removal_metrics,
    write_rows,
)
from engine.protocol.clustering import CLUSTERING_DOMAIN, clustering_paths
from engine.protocol.features import list_supported_features, upgrade
from engine.schema.types import StructField, StructType, parse_schema
from engine.snapshot.new_table import first_actions, layout_parameters
from engine.snapshot.snapshot import Snapshot
from engine.spark.sources import SourceRows
from engine.spark.write.identity import restore_latest_marks
from engine.spark.write.writer import WriteOutput
from engine.transaction.optimistic_transaction import OptimisticTransaction


def create(command: Create, execution: Execution) -> OperationResult:
    """Run a CREATE TABLE.

    Raises:
        TableExistsError: the table exists, and the command does not replace it.
        ProtocolChangedException: another writer created it at the same time.
        InvalidSchemaError, InvalidPropertyError: the definition is invalid.
    """
    if list_log_files(execution.table.store):
        return _handle_existing(command, execution)
    rows = source_rows(execution, command.source, command.schema, None) if command.source else None
    actions = _first(command, execution, rows)
    if execution.options.dry_run:
        return OperationResult(plan=Plan(f"A table would be created at {execution.table.uri}."))
    txn = OptimisticTransaction(
        execution.table,
        None,
        txn_id=execution.options.txn_id,
        observer=execution.options.observer,
        clock=execution.table.clock,
    )
    written = WriteOutput()
    if rows is not None:
        rows, terms = assign_identity(execution, _terms(actions), rows)
        written = write_rows(execution, terms, rows)
        actions = [terms.metadata if isinstance(a, Metadata) else a for a in actions]
    txn.stage(*actions, *written.adds)
    operation, parameters = _operation_and_parameters(command, actions)
    metrics = file_metrics(written) if rows is not None else {}
    return execution.commit(txn, operation, parameters, metrics)


def _operation_and_parameters(
    command: Create, actions: Iterable[Action]
) -> tuple[str, dict[str, object]]:
    """Return the operation and parameters of the table's first commit."""
    source = command.source
    if isinstance(source, DataFrameSource) and source.save_mode:
        partition_by = layout_parameters(actions, ())["partitionBy"]
        return "WRITE", {"mode": source.save_mode, "partitionBy": partition_by}
    operation = "CREATE TABLE" if source is None else "CREATE TABLE AS SELECT"
    return operation, _parameters(command, actions)


def _handle_existing(command: Create, execution: Execution) -> OperationResult:
    if command.if_not_exists:
        return OperationResult(message="The table already exists: nothing was done.")
    if command.replace:
        return _replace(command, execution)
    if isinstance(command.source, DataFrameSource) and command.source.save_mode == "Append":
        return append(Append(source=command.source), execution)  # another writer came first
    msg = f"There is already a Delta table at {execution.table.uri}."
    raise TableExistsError(msg, "Choose another location, or use IF NOT EXISTS.")


def _replace(command: Create, execution: Execution) -> OperationResult:
    """Replace the whole content of a table in one commit; its history and its protocol stay."""
    txn = execution.begin()
    snapshot = execution.snapshot_of(txn)
    removed = snapshot.add_files()
    if execution.options.dry_run:
        files = [PlannedFile.from_add(add, "replaced") for add in removed]
        return OperationResult(plan=plan_of("The table would be replaced.", files))
    txn.read_whole_table()
    rows = source_rows(execution, command.source, command.schema, txn) if command.source else None
    actions = [_carry_identity(planned, snapshot) for planned in _first(command, execution, rows)]
    written = WriteOutput()
    if rows is not None:
        rows, terms = assign_identity(execution, _terms(actions), rows)
        written = write_rows(execution, terms, rows)
        actions = [terms.metadata if isinstance(a, Metadata) else a for a in actions]
    txn.stage(*[action for action in actions if action != snapshot.protocol])
    if snapshot.clustering_columns and not command.clustering_columns:
        domain = snapshot.domains[CLUSTERING_DOMAIN]
        txn.stage(msgspec.structs.replace(domain, removed=True))
    txn.stage(*map(removal, removed), *written.adds)
    operation = "CREATE OR REPLACE TABLE" + (" AS SELECT" if rows is not None else "")
    metrics = {**(file_metrics(written) if rows is not None else {}), **removal_metrics(removed)}
    return execution.commit(txn, operation, _parameters(command, actions), metrics)


def _carry_identity(action: Action, snapshot: Snapshot) -> Action:
    """Keep the table's id, identity values and features in its new metadata or protocol."""
    if isinstance(action, Metadata):
        schema = restore_latest_marks(parse_schema(action.schema_string), snapshot.schema)
        return msgspec.structs.replace(
            action, id=snapshot.metadata.id, schema_string=schema.to_json()
        )
    if isinstance(action, Protocol):
        missing = list_supported_features(action) - list_supported_features(snapshot.protocol)
        return upgrade(snapshot.protocol, missing) if missing else snapshot.protocol
    return action


def _parameters(command: Create, actions: Iterable[Action]) -> dict[str, object]:
    return {
        "isManaged": False,
        "description": command.description or None,
        **layout_parameters(actions, command.clustering_columns),
        "properties": dict(command.properties),
    }


def _first(command: Create, execution: Execution, rows: SourceRows | None) -> list[Action]:
    schema = command.schema
    if schema is None and rows is not None:
        schema = StructType(tuple(StructField(column.name, column.type) for column in rows.schema))
    schema = schema or StructType()
    actions = first_actions(
        schema,
        command.partition_columns,
        command.clustering_columns,
        command.properties,
        now_ms=execution.now_ms,
    )
    for column in schema:
        check_default_type(column)
    described = [
        msgspec.structs.replace(action, description=command.description)
        if isinstance(action, Metadata) and command.description
        else action
        for action in actions
    ]
    return [written for written in described if not isinstance(written, CommitInfo)]


def _terms(actions: list[Action]) -> WriteTerms:
    metadata = next(action for action in actions if isinstance(action, Metadata))
    protocol = next(action for action in actions if isinstance(action, Protocol))
    domains = (action for action in actions if isinstance(action, DomainMetadata))
    return WriteTerms(metadata, protocol, clustering_paths(next(domains, None)))
