"""Cache of small checkpoints of local tables, for the next time their table is opened.

A checkpoint is immutable: a file of another size, time or inode is another one. The log itself is
listed each time, and its commits are read.
"""

from engine.actions.checkpoint import Sidecar
from engine.clock import SystemClock
from engine.log.checkpoint_reader import CheckpointContent, read_checkpoint
from engine.log.segment import Checkpoint
from engine.storage.base import FileStatus, Store
from engine.storage.local import LocalStore

_MOST_BYTES, _MOST_KEPT = 1024 * 1024, 32
"""Limits of a cached file's size and of the number of files."""
_SETTLED_MS = 50
"""Two writes to a file within one tick of the system's clock are indistinguishable."""

_kept: dict[tuple[str, FileStatus], CheckpointContent] = {}


def read_again(store: Store, checkpoint: Checkpoint) -> CheckpointContent:
    """Read a checkpoint like `read_checkpoint`, cached if this very file was read recently.

    Raises:
        MalformedLogError: as in `read_checkpoint`.
    """
    file = checkpoint.files[0].status
    if (
        not isinstance(store, LocalStore)
        or len(checkpoint.files) > 1
        or file.size_bytes > _MOST_BYTES
    ):
        return read_checkpoint(store, checkpoint)
    content = _kept.get((store.root, file))
    if content is None:
        is_settled = file.modified_ms < SystemClock().now_ms() - _SETTLED_MS
        content = read_checkpoint(store, checkpoint)
        if is_settled and _is_small(content):
            for oldest in list(_kept)[: len(_kept) + 1 - _MOST_KEPT]:
                _kept.pop(oldest, None)
            _kept[store.root, file] = content
    return content


def _is_small(content: CheckpointContent) -> bool:
    """Return whether a checkpoint has no sidecars and takes little memory."""
    has_sidecars = any(isinstance(action, Sidecar) for action in content.actions)
    return not has_sidecars and content.files.nbytes + content.tombstones.nbytes <= _MOST_BYTES
