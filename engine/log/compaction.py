"""Log compactions: several commits reconciled into one file (protocol: Log Compaction Files).

They save readers the commits they cover, between checkpoints. The commits stay: they are the truth.
"""

from collections.abc import Hashable, Iterable, Sequence

import msgspec

from engine.actions.codec import Action, encode
from engine.actions.commit_info import CommitInfo
from engine.actions.files import AddCDCFile, AddFile, RemoveFile
from engine.errors import FileExistsAlreadyError
from engine.log.commits import iter_commits
from engine.log.paths import LogFileKind, compaction_path
from engine.log.segment import LogFile, complete_checkpoints, list_log_files
from engine.log.subjects import subject_of
from engine.storage.base import Store

_MAX_BYTES = 128 * 1024 * 1024


def write_compaction(store: Store, end_version: int, interval: int) -> str | None:
    """Compact the last commits up to a version, at most `interval`; return the file's path.

    Return None if nothing is gained: fewer than two commits since the last checkpoint, too many
    bytes for memory, an action with unknown reconciliation, or an existing compaction.

    Raises:
        StorageError: it could not be written; the log remains valid without it.
        MalformedLogError: a commit is not a list of actions.
    """
    commits = _window(list_log_files(store, end_version - interval + 1), end_version)
    if len(commits) < 2 or sum(entry.status.size_bytes for entry in commits) > _MAX_BYTES:
        return None
    actions: list[Action] = []
    for content in iter_commits(store, [commit.status for commit in commits]):
        actions += content
    kept = reconcile_actions(actions)
    if kept is None:
        return None
    path = compaction_path(commits[0].version, end_version)
    try:
        store.put_if_absent(path, "".join(f"{encode(action)}\n" for action in kept).encode())
    except FileExistsAlreadyError:
        return None
    return path


def reconcile_actions(actions: Iterable[Action]) -> list[Action] | None:
    """Return the latest action of each subject, removals included: earlier files may need them.

    Return None if an action's reconciliation is unknown.
    """
    newest: dict[Hashable, Action] = {}
    for action in actions:
        if isinstance(action, CommitInfo | AddCDCFile):
            continue
        subject = subject_of(action)
        if subject is None:
            return None
        newest.pop(subject, None)  # keep the latest last
        newest[subject] = action
    return [_clear_data_change(newest_action) for newest_action in newest.values()]


def _window(files: Sequence[LogFile], end_version: int) -> list[LogFile]:
    """Return the commits up to a version, after the latest checkpoint and after any gap."""
    checkpoints = [checkpoint.version for checkpoint in complete_checkpoints(files)]
    after = max((checkpoint for checkpoint in checkpoints if checkpoint <= end_version), default=-1)
    commits = {file.version: file for file in files if file.name.kind is LogFileKind.COMMIT}
    window: list[LogFile] = []
    version = end_version
    while version > after and version in commits:
        window.insert(0, commits[version])
        version -= 1
    return window


def _clear_data_change(action: Action) -> Action:
    """Clear `dataChange`: a compaction is state and must not count as a commit's change."""
    if isinstance(action, AddFile | RemoveFile):
        return msgspec.structs.replace(action, data_change=False)
    return action
