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
    """Compact the last commits up to a version, at most `interval` of them; the file's path.

    None where nothing is gained: fewer than two commits since the last checkpoint, too many bytes to
    hold at once, an action whose reconciliation is not known, a compaction that is there.

    Raises:
        StorageError: it could not be written; the log is as good without it.
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
    """The latest action of each subject, removals among them: what came before may need them.

    None where there is an action whose reconciliation is not known.
    """
    newest: dict[Hashable, Action] = {}
    for action in actions:
        if isinstance(action, CommitInfo | AddCDCFile):
            continue
        subject = subject_of(action)
        if subject is None:
            return None
        newest.pop(subject, None)  # the newest also comes last
        newest[subject] = action
    return [_clear_data_change(newest_action) for newest_action in newest.values()]


def _window(files: Sequence[LogFile], end_version: int) -> list[LogFile]:
    """The commits up to a version, after the latest checkpoint and after any gap."""
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
    """State, not change: a compaction must not be taken for what a commit did."""
    if isinstance(action, AddFile | RemoveFile):
        return msgspec.structs.replace(action, data_change=False)
    return action
