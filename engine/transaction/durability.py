"""Staged files survive the machine before any log entry names them."""

from collections.abc import Collection, Iterable, Iterator

from engine.actions.codec import Action
from engine.actions.files import AddCDCFile, AddFile
from engine.deletion_vectors.files import locate
from engine.errors import FileMissingError, PathOutsideRootError
from engine.storage.base import Store
from engine.storage.uri import resolve_log_path


def make_staged_durable(
    store: Store, actions: Iterable[Action], live: Collection[str] = ()
) -> None:
    """Have the data, change and deletion-vector files that actions add survive the machine.

    Paths in `live` are those of files that the table has already.

    Files outside the table (a clone's) are their owner's, and one that does not exist has nothing
    to lose: whether a file is readable is not decided here.
    """
    paths = sorted({path for each in actions for path in _files_of(store, each, live)})
    if not paths:
        return
    try:
        store.make_durable(paths)
    except FileMissingError:
        store.make_durable([path for path in paths if store.stat(path) is not None])


def _files_of(store: Store, action: Action, live: Collection[str]) -> Iterator[str]:
    if not isinstance(action, AddFile | AddCDCFile):
        return
    try:
        if action.path not in live:
            yield resolve_log_path(store.root, action.path).path
    except PathOutsideRootError:
        return
    vector = action.deletion_vector if isinstance(action, AddFile) else None
    if vector is not None and vector.storage_type == "u":
        yield locate(store.root, vector).path
