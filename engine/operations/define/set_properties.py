"""SET and UNSET TBLPROPERTIES: new metadata, and a protocol with the features it needs.

Existing rows need ids before `delta.enableRowTracking` can be true (protocol: Row Tracking). First
the feature is enabled, so every later file has ids; then older files are restated with theirs, in
batches; then the property is committed. A file touched by another writer meanwhile gets its ids
from this writer: the batch's commit is aborted, and the remaining files are restated again.
"""

from collections.abc import Mapping
from dataclasses import replace

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from engine.actions.codec import Action
from engine.actions.table import Metadata, Protocol
from engine.commands.definition import DESCRIPTION
from engine.commands.model import SetProperties, UnsetProperties
from engine.errors import ConflictError, InvalidPropertyError
from engine.log.file_table import adds_of
from engine.operations.execution import Execution
from engine.operations.result import OperationResult, Plan
from engine.protocol.features import (
    find_required_features,
    list_legacy_features,
    list_supported_features,
    upgrade,
)
from engine.protocol.properties import TableProperties, constraint_name, validate_properties
from engine.schema.column_mapping import (
    ICEBERG_COMPAT_KEY,
    MODE_KEY,
    column_mapping_mode,
    map_columns,
)
from engine.schema.types import StructType
from engine.schema.write_errors import MappingModeChangeError
from engine.snapshot.new_table import (
    READER_VERSION,
    WRITER_VERSION,
    add_defaults,
    check_change_feed,
    check_constraints,
    check_statistics_columns,
    speaks_of_protocol,
)
from engine.snapshot.snapshot import Snapshot

_MANAGED = (
    "delta.columnMapping.maxColumnId",
    "delta.rowTracking.materializedRowIdColumnName",
    "delta.rowTracking.materializedRowCommitVersionColumnName",
    "delta.inCommitTimestampEnablementVersion",
    "delta.inCommitTimestampEnablementTimestamp",
    "delta.requireCheckpointProtectionBeforeVersion",
)

_FEATURES = frozenset({"rowTracking", "domainMetadata"})
_FILES_AT_ONCE = 100_000
_PATIENCE = 64
_THREADS = 8


def commit_properties(
    execution: Execution,
    step: str,
    properties: Mapping[str, str],
    operation: str = "SET TBLPROPERTIES",
) -> OperationResult:
    """Set properties as one step of a command, in a commit of its own if any is new."""
    txn = execution.begin(step)
    snapshot = execution.snapshot_of(txn)
    configuration = {**snapshot.metadata.configuration, **properties}
    actions = property_actions(snapshot, configuration)
    if not actions:
        return OperationResult()
    txn.stage(*actions)
    return execution.commit(txn, operation, {"properties": dict(properties)}, {})


def set_properties(command: SetProperties, execution: Execution) -> OperationResult:
    """Run SET TBLPROPERTIES; if it enables row tracking, existing rows get their ids first.

    Raises:
        InvalidPropertyError: an unknown `delta.` property, or a value it cannot take.
    """
    validate_properties(command.properties)
    _refuse_managed(command.properties)
    snapshot = execution.table.snapshot()
    before: tuple[int, ...] = ()
    if _begins_row_tracking(snapshot, command.properties):
        if execution.options.dry_run:
            return OperationResult(plan=Plan(_backfill_summary(snapshot)))
        before = give_row_ids(execution)
    txn = execution.begin()
    snapshot = execution.snapshot_of(txn)
    given = {key: text for key, text in command.properties.items() if key != DESCRIPTION}
    configuration = {**snapshot.metadata.configuration, **given}
    _check_files_fit(snapshot, configuration)
    actions = property_actions(
        snapshot, configuration, command.properties.get(DESCRIPTION, snapshot.metadata.description)
    )
    if execution.options.dry_run:
        return OperationResult(plan=Plan(_summary(actions)))
    if not actions:
        return OperationResult(message="The properties already have these values.")
    if _asks_for_no_rows(snapshot, configuration):
        txn.read_whole_table()
    txn.stage(*actions)
    parameters = {"properties": dict(command.properties)}
    result = execution.commit(txn, "SET TBLPROPERTIES", parameters, {})
    return replace(result, versions=(*before, *result.versions))


def unset_properties(command: UnsetProperties, execution: Execution) -> OperationResult:
    """Run UNSET TBLPROPERTIES.

    Raises:
        InvalidPropertyError: a property is not set, without IF EXISTS.
    """
    _refuse_managed(dict.fromkeys(command.keys, ""))
    txn = execution.begin()
    snapshot = execution.snapshot_of(txn)
    before = snapshot.metadata.configuration
    missing = [key for key in command.keys if key not in before]
    if missing and not command.if_exists:
        msg = f"{missing[0]} is not set on {execution.table.uri}."
        raise InvalidPropertyError(
            msg, "Remove it, or use UNSET TBLPROPERTIES IF EXISTS.", field="keys"
        )
    configuration = {key: value for key, value in before.items() if key not in command.keys}
    actions = property_actions(snapshot, configuration)
    if execution.options.dry_run:
        return OperationResult(plan=Plan(_summary(actions)))
    if not actions:
        return OperationResult(message="None of these properties is set.")
    txn.stage(*actions)
    parameters = {"properties": list(command.keys), "ifExists": command.if_exists}
    return execution.commit(txn, "UNSET TBLPROPERTIES", parameters, {})


def property_actions(
    snapshot: Snapshot, configuration: Mapping[str, str], description: str | None = None
) -> list[Action]:
    """Return the actions to give the table a configuration; [] if it has it already.

    `description` is the new description, "" for none; None keeps the current one.

    Raises:
        UnsupportedFeatureError: it needs a feature this engine cannot write.
        InvalidPropertyError: it needs a change not possible this way.
    """
    _check_new(snapshot, configuration)
    protocol = _protocol(snapshot.protocol, snapshot, configuration)
    kept = {k: v for k, v in configuration.items() if not speaks_of_protocol(k)}
    schema, kept = _enable_column_mapping(snapshot, kept)
    kept = _enable_row_tracking(snapshot, kept)
    before = snapshot.metadata.description
    described = before if description is None else description or None
    metadata = msgspec.structs.replace(
        snapshot.metadata,
        configuration=kept,
        schema_string=schema.to_json(),
        description=described,
    )
    actions: list[Action] = []
    if protocol != snapshot.protocol:
        actions.append(protocol)
    changed = kept != snapshot.metadata.configuration or described != before
    if changed or schema != snapshot.schema:
        actions.append(metadata)
    return actions


def _check_new(snapshot: Snapshot, configuration: Mapping[str, str]) -> None:
    """Refuse properties in contradiction to the table's columns or rows."""
    before = snapshot.metadata.configuration
    new = {key: text for key, text in configuration.items() if before.get(key) != text}
    rules = [key for key in new if constraint_name(key) is not None]
    if rules and snapshot.file_count:
        msg = f"{rules[0]} is a constraint, and existing rows must be checked first."
        raise InvalidPropertyError(msg, "Use ALTER TABLE … ADD CONSTRAINT.", field=rules[0])
    check_constraints(snapshot.schema, new)
    check_change_feed(snapshot.schema, configuration)
    check_statistics_columns(snapshot.schema, new, snapshot.partition_columns)


def _protocol(protocol: Protocol, snapshot: Snapshot, configuration: Mapping[str, str]) -> Protocol:
    needed = find_required_features(snapshot.schema, configuration) - find_required_features(
        snapshot.schema, {}
    )
    before = snapshot.metadata.configuration
    new = {k: v for k, v in configuration.items() if before.get(k) != v}
    missing = (needed | _find_requested_features(protocol, new)) - list_supported_features(protocol)
    return upgrade(protocol, missing) if missing else protocol


def _find_requested_features(
    protocol: Protocol, configuration: Mapping[str, str]
) -> frozenset[str]:
    """Return the features of the requested protocol versions."""
    asked = TableProperties.parse({k: v for k, v in configuration.items() if speaks_of_protocol(k)})
    reader, writer = asked.asked_reader_version, asked.asked_writer_version
    for key, requested, current in (
        (READER_VERSION, reader, protocol.min_reader_version),
        (WRITER_VERSION, writer, protocol.min_writer_version),
    ):
        if key in configuration and requested < current:
            msg = f"{key} is {current}, and cannot be lowered to {requested}."
            remedy = "Drop the features that need it: ALTER TABLE … DROP FEATURE."
            raise InvalidPropertyError(msg, remedy, field=key)
    return list_legacy_features(reader, writer)


def _enable_column_mapping(
    snapshot: Snapshot, configuration: dict[str, str]
) -> tuple[StructType, dict[str, str]]:
    """Assign column ids when column mapping by name is enabled; refuse any other mode change."""
    before, after = snapshot.mapping_mode, column_mapping_mode(configuration)
    if before == after:
        return map_columns(snapshot.schema, configuration)
    if (before, after) != ("none", "name"):
        msg = f"Column mapping cannot be changed from {before} to {after}."
        remedy = "Only a change from none to name is possible."
        raise MappingModeChangeError(msg, remedy, field=MODE_KEY)
    return map_columns(snapshot.schema, configuration, keep_names=True)


def _begins_row_tracking(snapshot: Snapshot, properties: Mapping[str, str]) -> bool:
    """Return whether the properties enable row tracking while files have no row ids yet."""
    merged = TableProperties.parse({**snapshot.metadata.configuration, **properties})
    suspended = merged.row_tracking_suspended or snapshot.properties.row_tracking_suspended
    if merged.row_tracking and suspended:
        msg = f"Row tracking of {snapshot.table_uri} is suspended (delta.rowTrackingSuspended)."
        remedy = "Set delta.rowTrackingSuspended to false first."
        raise InvalidPropertyError(msg, remedy, field="delta.enableRowTracking")
    begins = merged.row_tracking and not snapshot.properties.row_tracking
    return begins and files_without_row_ids(snapshot).num_rows > 0


def _backfill_summary(snapshot: Snapshot) -> str:
    count = files_without_row_ids(snapshot).num_rows
    return (
        f"First the rows of {count} files would get ids, in separate commits. Then the "
        "metadata would change, and concurrent writes would fail."
    )


def _enable_row_tracking(snapshot: Snapshot, configuration: dict[str, str]) -> dict[str, str]:
    """Name the row tracking columns when it is enabled; every live row must have an id."""
    enabled = TableProperties.parse(configuration).row_tracking
    if not enabled or snapshot.properties.row_tracking:
        return configuration
    if files_without_row_ids(snapshot).num_rows:
        msg = f"{snapshot.table_uri} got new files without row ids from another writer."
        remedy = "Run it again after that writer has finished."
        raise InvalidPropertyError(msg, remedy, field="delta.enableRowTracking")
    return add_defaults(configuration, ["-"], [])


def _asks_for_no_rows(snapshot: Snapshot, configuration: Mapping[str, str]) -> bool:
    """Return whether the new configuration requires a check of rows on an empty table."""
    if snapshot.file_count:
        return False
    before, after = snapshot.properties, TableProperties.parse(configuration)
    new = configuration.keys() - snapshot.metadata.configuration.keys()
    return (
        any(constraint_name(key) is not None for key in new)
        or (after.row_tracking and not before.row_tracking)
        or (after.iceberg_compat_v2 and not before.iceberg_compat_v2)
    )


def _refuse_managed(properties: Mapping[str, str]) -> None:
    managed = [key for key in properties if key in _MANAGED]
    if managed:
        msg = f"{managed[0]} is managed by the engine."
        raise InvalidPropertyError(msg, "Do not set it.", field=managed[0])


def _check_files_fit(snapshot: Snapshot, configuration: Mapping[str, str]) -> None:
    """Refuse to enable Iceberg compatibility over files written before: REORG rewrites them."""
    enabled = TableProperties.parse(configuration).iceberg_compat_v2
    if enabled and not snapshot.properties.iceberg_compat_v2 and snapshot.file_count:
        msg = f"{snapshot.table_uri} has files that Iceberg clients cannot read."
        remedy = "Run REORG TABLE … APPLY (UPGRADE UNIFORM (ICEBERG_COMPAT_VERSION = 2)) instead."
        raise InvalidPropertyError(msg, remedy, field=ICEBERG_COMPAT_KEY)


def _summary(actions: list[Action]) -> str:
    if not actions:
        return "Nothing would change."
    upgraded = any(isinstance(action, Protocol) for action in actions)
    changed = any(isinstance(action, Metadata) for action in actions)
    parts = ["the protocol would be upgraded"] * upgraded + ["the metadata would change"] * changed
    return f"{' and '.join(parts).capitalize()}; concurrent writes would fail."


def files_without_row_ids(snapshot: Snapshot) -> pa.Table:
    """Return the live files without row ids, as rows of the snapshot's table of files."""
    files = snapshot.state.files
    return files.filter(pc.is_null(files.column("base_row_id")))


def give_row_ids(execution: Execution, files_at_once: int = _FILES_AT_ONCE) -> tuple[int, ...]:
    """Assign row ids to the rows of every live file; return the committed versions.

    Raises:
        ConflictError: other writers kept touching the same files, or changed the table.
        DataFileError: the footer of a file, needed to count its rows, is unreadable.
    """
    versions = _support(execution)
    size, batch, lost = files_at_once, 0, 0
    while True:
        txn = execution.begin(f"row ids after {execution.table.version()}")
        snapshot = execution.snapshot_of(txn)
        missing = files_without_row_ids(snapshot)
        if not missing.num_rows:
            return tuple(versions)
        txn.stage(*adds_of(missing.slice(0, size)))
        try:
            done = execution.commit(txn, "ROW TRACKING BACKFILL", {"batchId": batch}, {})
        except ConflictError as conflict:
            lost += 1
            if lost > _PATIENCE or not conflict.conflict.can_retry:
                raise
            size = max(1, size // 2)
            continue
        versions.extend(done.versions)
        size, batch = min(2 * size, files_at_once), batch + 1


def _support(execution: Execution) -> list[int]:
    """Add row tracking to the protocol; return the committed version, if any."""
    txn = execution.begin("row tracking")
    protocol = execution.snapshot_of(txn).protocol
    missing = _FEATURES - list_supported_features(protocol)
    if not missing:
        return []
    upgraded = upgrade(protocol, missing)
    txn.stage(upgraded)
    shown = {
        "minReaderVersion": upgraded.min_reader_version,
        "minWriterVersion": upgraded.min_writer_version,
        "readerFeatures": upgraded.reader_features,
        "writerFeatures": upgraded.writer_features,
    }
    parameters = {"newProtocol": {key: value for key, value in shown.items() if value is not None}}
    return list(execution.commit(txn, "UPGRADE PROTOCOL", parameters, {}).versions)
