"""Files staged again: an `add` of a path that the read version has is a statement about that file."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

import msgspec

from engine.actions.codec import Action
from engine.actions.files import AddFile, RemoveFile
from engine.errors import RequestError


class LiveFiles(Protocol):
    """The files of a version; a snapshot has them."""

    def add_files(
        self, condition: None = None, paths: Sequence[str] | None = None
    ) -> list[AddFile]:
        """The adds of these paths, of those that are live."""
        ...


def find_restated_files(
    live: LiveFiles | None, actions: Iterable[Action], *, reads_nothing: bool
) -> dict[str, AddFile]:
    """The live adds, by path, of what is staged again.

    A transaction that read nothing, and adds plain new files with data, appends: it is not held up
    by loading the table's files.
    """
    staged = tuple(actions)
    adds = [action for action in staged if isinstance(action, AddFile)]
    removes = any(isinstance(action, RemoveFile) for action in staged)
    if live is None or not adds or (reads_nothing and not removes and all(map(_is_new, adds))):
        return {}
    return {
        add_file.path: add_file for add_file in live.add_files(paths=[add.path for add in adds])
    }


def with_known_identity(
    actions: Iterable[Action], live: Mapping[str, AddFile]
) -> tuple[Action, ...]:
    """The actions, with the row ids and, where they have none, the statistics of the live files."""
    return tuple(
        _identified(action, live[action.path])
        if isinstance(action, AddFile) and action.path in live
        else action
        for action in actions
    )


def check_replaced(actions: Iterable[Action], live: Mapping[str, AddFile]) -> None:
    """Refuse a live file under another deletion vector that is not removed as it is: it would be there twice.

    Raises:
        RequestError: which one.
    """
    staged = tuple(actions)
    removed = {action.key for action in staged if isinstance(action, RemoveFile)}
    for action in staged:
        if not isinstance(action, AddFile):
            continue
        replaced = live.get(action.path)
        if replaced is None or replaced.key == action.key or replaced.key in removed:
            continue
        what = f"{replaced.path} is staged with another deletion vector beside the one that it has."
        raise RequestError(what, "Stage a remove of the file as it is.", field="actions")


def read_by_staging(actions: Iterable[Action], live: Mapping[str, AddFile]) -> frozenset[str]:
    """Paths added again without a `remove`: whoever stages that counts on the file being there."""
    staged = tuple(actions)
    removed = {action.path for action in staged if isinstance(action, RemoveFile)}
    added = {action.path for action in staged if isinstance(action, AddFile)}
    return frozenset((added & live.keys()) - removed)


def _is_new(add: AddFile) -> bool:
    return add.data_change and add.deletion_vector is None and add.base_row_id is None


def _identified(add: AddFile, live: AddFile) -> AddFile:
    """What is staged says nothing of these where it leaves them out: the file keeps them."""
    since = add.default_row_commit_version
    return msgspec.structs.replace(
        add,
        base_row_id=live.base_row_id if add.base_row_id is None else add.base_row_id,
        default_row_commit_version=live.default_row_commit_version if since is None else since,
        stats=add.stats or live.stats,
    )
