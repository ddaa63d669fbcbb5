"""ALTER TABLE for constraints and clustering."""

import msgspec

from engine.commands.alter import AddConstraint, ClusterBy, DropConstraint
from engine.errors import InvalidPropertyError, RequestError
from engine.expressions.render import to_sql
from engine.operations.execution import Execution
from engine.operations.result import OperationResult, Plan
from engine.operations.write_rows import WriteTerms, build_terms
from engine.protocol.clustering import clustering_paths
from engine.protocol.features import list_supported_features, upgrade
from engine.protocol.properties import CONSTRAINT_PREFIX
from engine.schema.write_errors import ConstraintExistsError, NewConstraintViolatedError
from engine.snapshot.new_table import build_clustering_domain
from engine.snapshot.snapshot import read_clustering_columns
from engine.spark.columns import is_true
from engine.spark.own_columns import resolve_in_session
from engine.spark.reader import ScanRequest, scan


def add_constraint(command: AddConstraint, execution: Execution) -> OperationResult:
    """Run ADD CONSTRAINT after a check of every existing row.

    Raises:
        InvariantViolationError: a row breaks the constraint.
        ConcurrentAppendException: a concurrent commit added rows after the check.
    """
    txn = execution.begin()
    snapshot = execution.snapshot_of(txn)
    key = f"{CONSTRAINT_PREFIX}{command.name.lower()}"
    if any(existing.lower() == key for existing in snapshot.metadata.configuration):
        msg = f"There is a constraint {command.name} already."
        raise ConstraintExistsError(msg, "Drop it first.", field="name")
    condition = command.parse_check(snapshot.schema)
    stored = command.render_check(snapshot.schema)
    if execution.options.dry_run:
        return OperationResult(plan=Plan(f"{snapshot.file_count} files would be checked."))
    txn.read_whole_table()
    files = snapshot.add_files()
    if files:
        with execution.spark_stage("check rows"):
            rows = scan(execution.spark, execution.files_of(snapshot), ScanRequest(files))
            rows = resolve_in_session(
                rows, execution.caller, lambda frame: frame.filter(~is_true(condition))
            )
            violations = rows.limit(1).count()
        if violations:
            msg = f"{to_sql(condition)} is false or null for a row of {snapshot.table_uri}."
            raise NewConstraintViolatedError(msg, "Correct the row, or say that null may be.")
    configuration = {**snapshot.metadata.configuration, key: stored}
    terms = build_terms(WriteTerms.from_snapshot(snapshot), snapshot.schema, configuration)
    txn.stage(*terms.changes_from(snapshot))
    parameters = {"name": command.name, "expr": stored}
    return execution.commit(txn, "ADD CONSTRAINT", parameters, {})


def drop_constraint(command: DropConstraint, execution: Execution) -> OperationResult:
    """Run DROP CONSTRAINT.

    Raises:
        InvalidPropertyError: there is no such constraint, without IF EXISTS.
    """
    txn = execution.begin()
    snapshot = execution.snapshot_of(txn)
    key_lower = f"{CONSTRAINT_PREFIX}{command.name}".lower()
    before = snapshot.metadata.configuration
    kept = {key: text for key, text in before.items() if key.lower() != key_lower}
    if len(kept) == len(before):
        if command.if_exists:
            return OperationResult(message="There is no such constraint: nothing was done.")
        msg = f"There is no constraint {command.name}."
        raise InvalidPropertyError(msg, "Check its name.", field="name")
    if execution.options.dry_run:
        return OperationResult(plan=Plan("The constraint would be dropped."))
    txn.stage(msgspec.structs.replace(snapshot.metadata, configuration=kept))
    return execution.commit(txn, "DROP CONSTRAINT", {"name": command.name}, {})


def cluster_by(command: ClusterBy, execution: Execution) -> OperationResult:
    """Run CLUSTER BY: rows move when OPTIMIZE runs.

    Raises:
        RequestError: the table is partitioned.
    """
    txn = execution.begin()
    snapshot = execution.snapshot_of(txn)
    if snapshot.partition_columns:
        msg = f"{snapshot.table_uri} is partitioned: a table is partitioned or clustered, not both."
        raise RequestError(msg, "Load it into a clustered table.", field="columns")
    domain = build_clustering_domain(snapshot.schema, command.columns, snapshot.mapping_mode)
    if snapshot.clustering_paths == clustering_paths(domain):
        return OperationResult(message="The table is clustered like this already.")
    if execution.options.dry_run:
        return OperationResult(plan=Plan("The clustering columns would change, no row would."))
    missing = {"clustering", "domainMetadata"} - list_supported_features(snapshot.protocol)
    if missing:
        txn.stage(upgrade(snapshot.protocol, missing))
    txn.stage(domain)
    parameters = {
        "oldClusteringColumns": ",".join(snapshot.clustering_columns),
        "newClusteringColumns": ",".join(
            read_clustering_columns(domain, snapshot.schema, snapshot.mapping_mode)
        ),
    }
    return execution.commit(txn, "CLUSTER BY", parameters, {})
