"""RESTORE: an earlier version becomes the latest, as a new commit. It needs no Spark."""

from collections.abc import Iterator, Sequence

import msgspec

from engine.actions.codec import Action
from engine.actions.files import AddFile
from engine.actions.table import DomainMetadata
from engine.commands.model import Restore
from engine.conflicts.isolation import ROW_TRACKING_DOMAIN
from engine.errors import (
    TimestampOutOfRangeError,
    TimestampTooEarlyError,
    TimestampTooLateError,
    VersionNotFoundError,
)
from engine.operations.execution import Execution
from engine.operations.restored_files import RestoredFiles, check_present
from engine.operations.result import OperationResult, PlannedFile, plan_of
from engine.operations.write_rows import removal
from engine.protocol.features import list_supported_features, upgrade
from engine.schema.column_mapping import MAX_ID_KEY
from engine.schema.write_errors import ColumnMappingRestoreError
from engine.snapshot.snapshot import Snapshot
from engine.spark.write.identity import restore_latest_marks

_TIMES = (
    "delta.enableInCommitTimestamps",
    "delta.inCommitTimestampEnablementVersion",
    "delta.inCommitTimestampEnablementTimestamp",
)


class RestoreVersionError(VersionNotFoundError, code="DELTA_CANNOT_RESTORE_TABLE_VERSION"):
    """The log does not have the version to restore."""


class RestoreTooLateError(TimestampTooLateError, code="DELTA_CANNOT_RESTORE_TIMESTAMP_GREATER"):
    """The time to restore is after the latest version."""


class RestoreTooEarlyError(TimestampTooEarlyError, code="DELTA_CANNOT_RESTORE_TIMESTAMP_EARLIER"):
    """The time to restore is before the first version in the log."""


def restore(command: Restore, execution: Execution) -> OperationResult:
    """Run a RESTORE.

    Raises:
        VersionNotFoundError, TimestampOutOfRangeError: the log no longer has the version.
        DataFileError: files of the version have been vacuumed.
        ColumnMappingRestoreError: the version predates column mapping.
        RequestError: a VACUUM may be deleting them at this moment.
        ConflictError: a concurrent transaction committed.
    """
    restored = _find_version(command, execution)
    txn = execution.begin()
    current = execution.snapshot_of(txn)
    _check_mapping(current, restored)
    before = {add.key: add for add in current.add_files()}
    after = {add.key: add for add in restored.add_files()}
    added = [add for key, add in after.items() if key not in before]
    removed = [add for key, add in before.items() if key not in after]
    check_present(restored, added)
    if execution.options.dry_run:
        return _plan(restored, added, removed)
    if added:
        observer = execution.options.observer
        txn.observe(RestoredFiles(restored, added, execution.now_ms, observer))
    txn.read_whole_table()
    txn.stage(*_terms(current, restored), *map(removal, removed))
    txn.stage(*[msgspec.structs.replace(add, data_change=True) for add in added])
    metrics: dict[str, int | str] = {
        "tableSizeAfterRestore": restored.size_bytes,
        "numOfFilesAfterRestore": restored.file_count,
        "numRemovedFiles": len(removed),
        "numRestoredFiles": len(added),
        "removedFilesSize": sum(add.size for add in removed),
        "restoredFilesSize": sum(add.size for add in added),
    }
    parameters = {"version": command.version, "timestamp": command.timestamp}
    same = not txn.actions
    result = execution.commit(txn, "RESTORE", parameters, metrics)
    return (
        result.replace_message(f"The table already equals version {restored.version}.")
        if same
        else result
    )


def _find_version(command: Restore, execution: Execution) -> Snapshot:
    """Return the version to restore."""
    try:
        return execution.table.snapshot(version=command.version, timestamp=command.timestamp)
    except VersionNotFoundError as error:
        facts = error.table, error.requested, error.earliest, error.latest
        raise RestoreVersionError(*facts) from error
    except TimestampOutOfRangeError as error:
        late = isinstance(error, TimestampTooLateError)
        kind = RestoreTooLateError if late else RestoreTooEarlyError
        raise kind(error.table, error.requested, error.earliest, error.latest) from error


def _check_mapping(current: Snapshot, restored: Snapshot) -> None:
    """Refuse to switch column mapping off: renamed or dropped columns would reappear."""
    if restored.mapping_mode == "none" and current.mapping_mode != "none":
        msg = f"Version {restored.version} is older than column mapping, which RESTORE cannot undo."
        remedy = (
            "Restore a later version, or create another table from the old version with"
            f" CREATE TABLE … CLONE … VERSION AS OF {restored.version}."
        )
        raise ColumnMappingRestoreError(msg, remedy, field="version")


def _terms(current: Snapshot, restored: Snapshot) -> Iterator[Action]:
    """Yield the restored metadata and domains, keeping all protocol features and times.

    Identity columns continue from their last number, and column ids from the last one assigned.
    """
    missing = list_supported_features(restored.protocol) - list_supported_features(current.protocol)
    if missing:
        yield upgrade(current.protocol, missing)
    now = current.metadata.configuration
    configuration = {k: v for k, v in restored.metadata.configuration.items() if k not in _TIMES}
    configuration.update({key: now[key] for key in _TIMES if key in now})
    if MAX_ID_KEY in configuration:
        highest = max(int(mapping.get(MAX_ID_KEY, 0)) for mapping in (configuration, now))
        configuration[MAX_ID_KEY] = str(highest)
    schema = restore_latest_marks(restored.schema, current.schema)
    metadata = msgspec.structs.replace(restored.metadata, configuration=configuration)
    if schema != restored.schema:
        metadata = msgspec.structs.replace(metadata, schema_string=schema.to_json())
    if metadata != current.metadata:
        yield metadata
    yield from _domains(current, restored)


def _domains(current: Snapshot, restored: Snapshot) -> Iterator[DomainMetadata]:
    for name, domain in restored.domains.items():
        if name != ROW_TRACKING_DOMAIN and current.domains.get(name) != domain:
            yield domain
    for name, domain in current.domains.items():
        if name != ROW_TRACKING_DOMAIN and name not in restored.domains:
            yield msgspec.structs.replace(domain, removed=True)


def _plan(
    restored: Snapshot, added: Sequence[AddFile], removed: Sequence[AddFile]
) -> OperationResult:
    files = [PlannedFile.from_add(add, "removed") for add in removed]
    files += [PlannedFile.from_add(add, "brought back") for add in added]
    summary = (
        f"Version {restored.version}: {len(added)} files would be restored, and "
        f"{len(removed)} would be removed."
    )
    return OperationResult(plan=plan_of(summary, files, version=restored.version))
