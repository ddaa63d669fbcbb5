"""Log cleanup: deletes log files no retained version needs (protocol: Metadata Cleanup).

The latest checkpoint older than `delta.logRetentionDuration` and everything after it stay; earlier
files are deleted, oldest version first, so the remaining log has no gaps. An unreadable checkpoint
does not count: the commits before it are then needed.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from engine.actions.commit_info import Sidecar
from engine.actions.table import Metadata, Protocol
from engine.clock import surely_ms
from engine.errors import EngineError
from engine.log.checkpoint_reader import read_checkpoint, read_manifest
from engine.log.history import file_times
from engine.log.paths import LOG_DIRECTORY, SIDECAR_DIRECTORY, LogFileKind
from engine.log.segment import Checkpoint, LogFile, complete_checkpoints, list_log_files
from engine.protocol.properties import DAY_MS
from engine.storage.base import FileStatus, Store

_LISTED_FOR_MS, _MOST_SEEN = 3_600_000, 1_000
_seen: dict[str, "_OldestFile"] = {}
"""By the table's root."""
_TEMPORARY = re.compile(r"\.[\w.\-]+\.[0-9a-f]{32}\.tmp")  # as engine.storage.local names them


def clean_log(
    store: Store,
    retention_ms: int,
    now_ms: int,
    *,
    granularity_ms: int = DAY_MS,
    protected_before: int = 0,
) -> list[str]:
    """Delete expired files of the log; return their paths.

    Args:
        store: the table's store.
        retention_ms: the retention of a version.
        now_ms: wall time; files have the time of the store's clock, which may differ.
        granularity_ms: the cutoff is a multiple of this; by default midnight UTC, so that a day's
            versions expire together.
        protected_before: versions before this one are deleted together or not at all (protocol:
            Checkpoint Protection).
    """
    cutoff_ms = (now_ms - surely_ms(retention_ms)) // granularity_ms * granularity_ms
    return _clean(store, list_log_files(store), cutoff_ms, now_ms, protected_before)


def clean_log_again(
    store: Store, retention_ms: int, now_ms: int, *, protected_before: int = 0
) -> list[str]:
    """Delete expired files like `clean_log`, listing the log only if one may have expired.

    It is not listed while the oldest file of a listing within the last hour still exists and is too
    young.
    """
    cutoff_ms = (now_ms - surely_ms(retention_ms)) // DAY_MS * DAY_MS
    seen = _seen.pop(store.root, None)
    if seen is not None and seen.spares(store, cutoff_ms, now_ms):
        _remember(store, seen)
        return []
    files = list_log_files(store)
    cleaned = _clean(store, files, cutoff_ms, now_ms, protected_before)
    if files and not cleaned:
        oldest = min((file.status for file in files), key=lambda status: status.modified_ms)
        _remember(store, _OldestFile(oldest, now_ms))
    return cleaned


def _remember(store: Store, seen: "_OldestFile") -> None:
    for former in list(_seen)[: len(_seen) + 1 - _MOST_SEEN]:
        _seen.pop(former, None)
    _seen[store.root] = seen


@dataclass(frozen=True, slots=True)
class _OldestFile:
    """The oldest file of a log, and the time of the listing in ms."""

    oldest: FileStatus
    listed_ms: int

    def spares(self, store: Store, cutoff_ms: int, now_ms: int) -> bool:
        """Return whether no file of the log can have expired, or be a writer's old leftover."""
        if not (0 <= now_ms - self.listed_ms < _LISTED_FOR_MS):
            return False
        if self.oldest.modified_ms < cutoff_ms:
            return False
        file = store.stat(self.oldest.path)
        return file is not None and file.is_unchanged(self.oldest)


def _clean(
    store: Store, files: Sequence[LogFile], cutoff_ms: int, now_ms: int, protected_before: int
) -> list[str]:
    _clean_temporaries(store, now_ms)
    expired = _find_expired(store, files, cutoff_ms, protected_before)
    for log_file in expired:
        store.delete(log_file.path)
    if not expired:
        return []
    left = [file for file in files if file not in expired]
    sidecars = _find_unused_sidecars(store, left, min(cutoff_ms, now_ms - surely_ms(DAY_MS)))
    for path in sidecars:
        store.delete(path)
    return [*(log_file.path for log_file in expired), *sidecars]


def _find_expired(
    store: Store, files: Sequence[LogFile], cutoff_ms: int, protected_before: int
) -> list[LogFile]:
    """Find the files before the latest readable checkpoint older than the cutoff."""
    times = file_times(files)
    old = (whole for whole in complete_checkpoints(files) if times[whole.version] < cutoff_ms)
    for checkpoint in sorted(old, key=lambda candidate: candidate.version, reverse=True):
        expired = _list_before(files, checkpoint.version, protected_before)
        if not expired or _is_whole(store, checkpoint):
            return expired
    return []


def _list_before(
    files: Sequence[LogFile], keep_from: int, protected_before: int = 0
) -> list[LogFile]:
    """Return the files before a version, oldest version first.

    Return [] if the version is earlier than the end of checkpoint protection.
    """
    if keep_from < protected_before:
        return []
    return sorted(
        (file for file in files if file.version < keep_from),
        key=lambda log_file: (log_file.version, log_file.path),
    )


def _is_whole(store: Store, checkpoint: Checkpoint) -> bool:
    try:
        actions = read_checkpoint(store, checkpoint).actions
    except EngineError:
        return False
    kinds = {type(action) for action in actions}
    return {Protocol, Metadata} <= kinds


def _clean_temporaries(store: Store, now_ms: int) -> None:
    """Delete temporary files left by crashed writers."""
    for file in store.list_from(LOG_DIRECTORY, "."):
        if not file.name.startswith("."):
            return
        if _TEMPORARY.fullmatch(file.name) and file.modified_ms < now_ms - surely_ms(DAY_MS):
            store.delete(file.path)


def _find_unused_sidecars(store: Store, files: Sequence[LogFile], cutoff_ms: int) -> list[str]:
    """Find sidecars not named by any remaining checkpoint; none if a checkpoint is unreadable.

    A young sidecar may belong to an unfinished checkpoint.
    """
    named: set[str] = set()
    try:
        for checkpoint in complete_checkpoints(files):
            named.update(_sidecar_names(store, checkpoint))
    except EngineError:
        return []
    sidecars = list(store.list_from(SIDECAR_DIRECTORY, ""))
    return [
        file.path for file in sidecars if file.name not in named and file.modified_ms < cutoff_ms
    ]


def _sidecar_names(store: Store, checkpoint: Checkpoint) -> list[str]:
    if all(file.name.kind is LogFileKind.CHECKPOINT_PART for file in checkpoint.files):
        return []
    actions = [action for file in checkpoint.files for action in read_manifest(store, file.path)]
    return [sidecar.path.rpartition("/")[2] for sidecar in actions if isinstance(sidecar, Sidecar)]
