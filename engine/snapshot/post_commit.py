"""Work after a commit: its checksum, a due checkpoint or log compaction, and Iceberg metadata.

None of it belongs to the commit, which stands even if this work fails.
"""

import logging

from engine.errors import StorageError, TableReplacedError
from engine.iceberg.post_commit import refresh_iceberg
from engine.log.checkpoint_writer import WrittenCheckpoint, write_checkpoint
from engine.log.checksum import write_checksum
from engine.log.cleanup import clean_log_again
from engine.log.compaction import write_compaction
from engine.log.management import LOG_CLEANUP, management_of, permits
from engine.log.replay import list_newer, load_state
from engine.log.tip import commits_until
from engine.protocol.features import has_feature
from engine.snapshot.snapshot import Snapshot, load_snapshot
from engine.storage.base import Store

_log = logging.getLogger(__name__)


def run_post_commit(
    store: Store, committed_version: int, previous: Snapshot | None, now_ms: int
) -> WrittenCheckpoint | None:
    """Write the version's checksum, and a checkpoint or log compaction if one is due.

    A checkpoint is due every `delta.checkpointInterval` versions, and the log is cleaned after it;
    a compaction every `delta.logCompactionInterval` ones, if that is set and no checkpoint is due.
    Nothing is raised: failures are logged, and the next due commit tries again.

    `previous` is an earlier snapshot to read on from, if any.
    """
    is_due = _is_due(committed_version, previous)
    if previous is None and committed_version > 0 and not is_due:
        return None  # this would read the whole log
    try:
        snapshot = _load_committed(store, committed_version, previous)
        _write_checksum(snapshot)
        if management_of(store) is None:  # Iceberg clients read by path
            _refresh_iceberg(snapshot, now_ms)
        if is_due:
            return checkpoint(snapshot, now_ms)
        _compact_log(snapshot)
        return None
    except Exception as error:  # noqa: BLE001 - the commit stands, whatever fails here
        _log.warning(
            "Post-commit work on %s at version %s failed: %s", store.root, committed_version, error
        )
        return None


def checkpoint(snapshot: Snapshot, now_ms: int) -> WrittenCheckpoint:
    """Write a checkpoint of a snapshot and clean the log, if the table enables it.

    A catalog must permit log cleanup.

    Raises:
        StorageError: the checkpoint could not be written, or the version not be published.
        TableReplacedError: another table replaced the snapshot's. No checkpoint remains in its log.
    """
    _ensure_published(snapshot)
    if not snapshot.is_in_place():
        raise TableReplacedError(snapshot.table_uri, snapshot.version)
    written = write_checkpoint(snapshot.store, snapshot.state, snapshot.properties, now_ms)
    if not snapshot.is_in_place():
        snapshot.store.delete(written.path)
        raise TableReplacedError(snapshot.table_uri, snapshot.version)
    if snapshot.properties.enable_expired_log_cleanup and permits(snapshot.store, LOG_CLEANUP):
        protected = protection_version(snapshot)
        retention_ms = snapshot.properties.log_retention_ms
        clean_log_again(snapshot.store, retention_ms, now_ms, protected_before=protected)
    return written


def protection_version(snapshot: Snapshot) -> int:
    """Return the version before which the log is cleaned completely or not at all; 0 for no limit."""
    protected = has_feature(snapshot.protocol, "checkpointProtection")
    return snapshot.properties.checkpoint_protection_version if protected else 0


def _ensure_published(snapshot: Snapshot) -> None:
    """Publish a managed table's commits: checkpoints and compactions are of published versions.

    Raises:
        StorageError: the snapshot's version is not published.
    """
    management = management_of(snapshot.store)
    if management is not None and not management.publish(snapshot.version):
        what = f"Version {snapshot.version} of {snapshot.table_uri} is not published."
        raise StorageError(what, "A later commit publishes it.")


def _is_due(version: int, previous: Snapshot | None) -> bool:
    interval = 10 if previous is None else previous.properties.checkpoint_interval
    return version > 0 and version % interval == 0


def _write_checksum(snapshot: Snapshot) -> None:
    """Write the checksum; a failure must not delay a due checkpoint."""
    try:
        write_checksum(snapshot.store, snapshot.state, snapshot.properties)
    except StorageError as error:
        _log.warning("The checksum of %r could not be written: %s", snapshot, error)


def _refresh_iceberg(snapshot: Snapshot, now_ms: int) -> None:
    """Write Iceberg metadata for the version; after a failure the next commit catches up."""
    try:
        refresh_iceberg(snapshot.store, snapshot.state, now_ms, snapshot.allowed_roots)
    except Exception as error:  # noqa: BLE001 - the commit stands, whatever fails here
        _log.warning("The Iceberg metadata of %r could not be written: %s", snapshot, error)


def _compact_log(snapshot: Snapshot) -> None:
    interval = snapshot.properties.log_compaction_interval
    if interval > 1 and snapshot.version % interval == 0:
        _ensure_published(snapshot)
        written = write_compaction(snapshot.store, snapshot.version, interval)
        if written is not None and not snapshot.is_in_place():
            snapshot.store.delete(written)  # its commits may be those of two tables


def _load_committed(store: Store, version: int, previous: Snapshot | None) -> Snapshot:
    """Load a committed version, from an earlier snapshot and newer commits if possible."""
    if previous is None:
        return load_snapshot(store, version)
    newer = commits_until(store, previous.state.tip, version) or list_newer(store, previous.state)
    if newer is None or not previous.version < version <= newer.version:
        return load_snapshot(store, version)
    state = load_state(store, newer.truncate(version), previous.state)
    return Snapshot(store, state, previous.allowed_roots)
