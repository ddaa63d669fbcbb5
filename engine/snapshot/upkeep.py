"""What a commit leaves to do: a checkpoint when one is due, and cleaning the log after it.

None of it belongs to the commit: it stands whatever happens here.
"""

import logging

from engine.log.checkpoint_writer import WrittenCheckpoint, write_checkpoint
from engine.log.cleanup import clean_log
from engine.protocol.features import has_feature
from engine.snapshot.snapshot import Snapshot, load_snapshot
from engine.storage.base import Store

_log = logging.getLogger(__name__)


def after_commit(
    store: Store, committed_version: int, previous: Snapshot | None, now_ms: int
) -> WrittenCheckpoint | None:
    """Write a checkpoint every `delta.checkpointInterval` versions, then clean the log.

    Nothing is raised: failures are logged, and the next commit that is due tries again.

    Args:
        store: the table's.
        committed_version: the version that has just been committed.
        previous: an earlier snapshot to read on from, if there is one.
        now_ms: wall time.
    """
    try:
        if not _is_due(committed_version, previous):
            return None
        snapshot = _at(store, committed_version, previous)
        return checkpoint(snapshot, now_ms)
    except Exception as error:  # noqa: BLE001 - the commit stands, whatever fails here
        _log.warning("No checkpoint of %s at version %s: %s", store.root, committed_version, error)
        return None


def checkpoint(snapshot: Snapshot, now_ms: int) -> WrittenCheckpoint:
    """Write a checkpoint of a snapshot and clean the log, if the table wants that.

    Raises:
        StorageError: the checkpoint could not be written.
    """
    written = write_checkpoint(snapshot.store, snapshot.state, snapshot.properties, now_ms)
    if may_clean(snapshot):
        clean_log(snapshot.store, snapshot.properties.log_retention_ms, now_ms)
    return written


def may_clean(snapshot: Snapshot) -> bool:
    """Whether expired commits may go: the table wants it, and none is protected."""
    protected = has_feature(snapshot.protocol, "checkpointProtection")
    return snapshot.properties.enable_expired_log_cleanup and not protected


def _is_due(version: int, previous: Snapshot | None) -> bool:
    interval = 10 if previous is None else previous.properties.checkpoint_interval
    return version > 0 and version % interval == 0


def _at(store: Store, version: int, previous: Snapshot | None) -> Snapshot:
    newest = None if previous is None else previous.update()
    return (
        newest
        if newest is not None and newest.version == version
        else load_snapshot(store, version)
    )
