"""What follows a commit and may not undo it: a checkpoint every so many versions, and log cleanup."""

import logging

from engine.errors import EngineError
from engine.log.checkpoint_writer import write_checkpoint
from engine.log.cleanup import clean_log
from engine.log.replay import TableState, load_state
from engine.log.segment import list_newer, list_segment
from engine.protocol.properties import TableProperties
from engine.snapshot.snapshot import Snapshot
from engine.storage.base import Store

_log = logging.getLogger(__name__)


def checkpoint_if_due(
    store: Store, committed_version: int, snapshot: Snapshot | None, now_ms: int
) -> None:
    """Write a checkpoint where the version is a multiple of the interval, then clean the log.

    Neither ever fails the commit: readers do without them, and the next one tries again. What
    happens here may be read from `snapshot` on, the version that the transaction read.
    """
    interval = snapshot.properties.checkpoint_interval if snapshot else 0
    if snapshot is None or committed_version % interval:
        return
    try:
        state = _state_at(store, committed_version, snapshot)
        properties = TableProperties.parse(state.metadata.configuration)
        write_checkpoint(store, state, properties, now_ms)
        if properties.enable_expired_log_cleanup:
            clean_log(store, properties.log_retention_ms, now_ms)
    except (EngineError, OSError) as error:
        _log.warning("Version %s of %s has no checkpoint: %s", committed_version, store.root, error)


def _state_at(store: Store, version: int, snapshot: Snapshot) -> TableState:
    newer = list_newer(store, snapshot.version)
    if newer is not None and newer.version == version:
        return load_state(store, newer, snapshot.state)
    return load_state(store, list_segment(store, version))
