"""ALTER TABLE for constraints, clustering and features."""

import msgspec

from engine.actions.table import Protocol
from engine.commands.alter import AddConstraint, ClusterBy, DropConstraint, DropFeature
from engine.errors import InvalidPropertyError, InvariantViolationError, RequestError
from engine.expressions.render import to_sql
from engine.operations.execution import Execution
from engine.operations.result import OperationResult, Plan
from engine.operations.write_rows import Terms, under
from engine.protocol.features import FEATURES, required_features, supported_features, upgrade
from engine.snapshot.new_table import clustering_domain
from engine.snapshot.snapshot import Snapshot
from engine.spark.columns import is_true, to_column
from engine.spark.reader import ScanRequest, scan
from engine.spark.table_rules import CONSTRAINT_PREFIX


def add_constraint(command: AddConstraint, execution: Execution) -> OperationResult:
    """Run ADD CONSTRAINT: every row that is there is checked first.

    Raises:
        InvariantViolationError: a row breaks it.
        ConcurrentAppendException: rows came meanwhile that have not been checked.
    """
    txn = execution.begin()
    snapshot = execution.snapshot_of(txn)
    key = f"{CONSTRAINT_PREFIX}{command.name.lower()}"
    if key in snapshot.metadata.configuration:
        msg = f"There is a constraint {command.name} already."
        raise InvalidPropertyError(msg, "Drop it first.", field="name")
    condition = command.checked(snapshot.schema)
    if execution.dry_run:
        return OperationResult(plan=Plan(f"{snapshot.file_count} files would be checked."))
    txn.read_whole_table()
    files = snapshot.add_files()
    if files:
        with execution.spark_stage("check rows"):
            rows = scan(execution.spark, execution.files_of(snapshot), ScanRequest(files))
            broken = rows.filter(~is_true(condition) & to_column(condition).isNotNull())
            found = broken.limit(1).count()
        if found:
            msg = f"A row of {snapshot.table_uri} breaks {to_sql(condition)}."
            raise InvariantViolationError(msg, "Correct the row first.")
    configuration = {**snapshot.metadata.configuration, key: to_sql(condition)}
    terms = under(Terms.of(snapshot), snapshot.schema, configuration)
    txn.stage(*terms.changes_from(snapshot))
    parameters = {"name": command.name, "expr": to_sql(condition)}
    return execution.commit(txn, "ADD CONSTRAINT", parameters, {})


def drop_constraint(command: DropConstraint, execution: Execution) -> OperationResult:
    """Run DROP CONSTRAINT.

    Raises:
        InvalidPropertyError: there is no such constraint, without IF EXISTS.
    """
    txn = execution.begin()
    snapshot = execution.snapshot_of(txn)
    wanted = f"{CONSTRAINT_PREFIX}{command.name}".lower()
    before = snapshot.metadata.configuration
    kept = {key: text for key, text in before.items() if key.lower() != wanted}
    if len(kept) == len(before):
        if command.if_exists:
            return OperationResult(message="There is no such constraint: nothing was done.")
        msg = f"There is no constraint {command.name}."
        raise InvalidPropertyError(msg, "Check its name.", field="name")
    if execution.dry_run:
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
    domain = clustering_domain(snapshot.schema, command.columns, snapshot.mapping_mode)
    if snapshot.clustering_columns == command.columns:
        return OperationResult(message="The table is clustered like this already.")
    if execution.dry_run:
        return OperationResult(plan=Plan("The clustering columns would change, no row would."))
    missing = {"clustering", "domainMetadata"} - supported_features(snapshot.protocol)
    if missing:
        txn.stage(upgrade(snapshot.protocol, missing))
    txn.stage(domain)
    parameters = {
        "oldClusteringColumns": ",".join(snapshot.clustering_columns),
        "newClusteringColumns": ",".join(command.columns),
    }
    return execution.commit(txn, "CLUSTER BY", parameters, {})


def drop_feature(command: DropFeature, execution: Execution) -> OperationResult:
    """Run DROP FEATURE, for features that leave no trace in the table.

    Raises:
        RequestError: the feature is in use, is not there, or leaves traces that readers meet.
    """
    txn = execution.begin()
    snapshot = execution.snapshot_of(txn)
    _check_droppable(snapshot, command.feature)
    if execution.dry_run:
        return OperationResult(
            plan=Plan("The protocol would change; concurrent writes would fail.")
        )
    have = supported_features(snapshot.protocol) - {command.feature}
    txn.stage(
        Protocol(
            min_reader_version=snapshot.protocol.min_reader_version,
            min_writer_version=7,
            reader_features=snapshot.protocol.reader_features,
            writer_features=sorted(have),
        )
    )
    parameters = {
        "featureName": command.feature,
        "truncateHistory": command.truncate_history,
    }
    return execution.commit(txn, "DROP FEATURE", parameters, {})


def _check_droppable(snapshot: Snapshot, name: str) -> None:
    have = supported_features(snapshot.protocol)
    if name not in have:
        msg = f"{snapshot.table_uri} does not have the feature {name}."
        raise RequestError(msg, f"It has {', '.join(sorted(have))}.", field="feature")
    needed = required_features(snapshot.schema, snapshot.metadata.configuration)
    in_use = name in needed and name not in {"appendOnly", "invariants"}
    depends = [other for other in have if name in getattr(FEATURES.get(other), "needs", ())]
    if in_use or depends or (name == "clustering" and snapshot.clustering_columns):
        why = f"{depends[0]} needs it" if depends else "it is in use"
        msg = f"{name} cannot be dropped: {why}."
        raise RequestError(msg, "Take what uses it away first.", field="feature")
    feature = FEATURES.get(name)
    if feature is None or feature.reader or name in {"rowTracking", "inCommitTimestamp"}:
        msg = f"{name} cannot be dropped by this engine: files or history still speak of it."
        raise RequestError(msg, "Drop it with Databricks or delta-spark.", field="feature")
