"""Row ids for existing rows: the step before `delta.enableRowTracking` can be true.

First the feature is enabled, so every later file has ids; then older files are restated with
theirs, in batches; the caller commits the property itself (protocol: Row Tracking). A file touched
by another writer meanwhile gets its ids from this writer: the batch's commit is aborted, and the
remaining files are restated again.
"""

import pyarrow as pa
import pyarrow.compute as pc

from engine.errors import ConflictError
from engine.log.file_table import adds_of
from engine.operations.execution import Execution
from engine.protocol.features import list_supported_features, upgrade
from engine.snapshot.snapshot import Snapshot

_FEATURES = frozenset({"rowTracking", "domainMetadata"})
_FILES_AT_ONCE = 100_000
_PATIENCE = 64
_THREADS = 8


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
