"""Data files written by a commit: the one definition of bytes written, wasted and removed.

A file removed and added under the same path is restated: it has another deletion vector, or none,
and stays in place. So is one with new row ids or statistics. RESTORE restores files, a shallow
CLONE and CONVERT refer to existing ones. None of them is written. Deletion vectors and change data
files are not counted, as in Delta's `operationMetrics`.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from engine.actions.codec import Action
from engine.actions.files import AddFile, RemoveFile
from engine.vocabulary import NewFiles, operation_named

_ABSOLUTE = re.compile(r"/|[A-Za-z][A-Za-z0-9+.-]*:")


@dataclass(frozen=True, slots=True)
class FileChanges:
    """A commit's changes to the files of its table.

    `added` and `removed` files are new or gone, `restated` ones have another deletion vector;
    `written` are those of `added` that did not exist before.
    """

    added: tuple[AddFile, ...]
    removed: tuple[RemoveFile, ...]
    restated: tuple[AddFile, ...]
    written: tuple[AddFile, ...]

    @property
    def bytes_added(self) -> int:
        """The total size of added files."""
        return sum(file.size for file in self.added)

    @property
    def bytes_removed(self) -> int:
        """The total size of removed files, as far as it is logged."""
        return sum(file.size or 0 for file in self.removed)

    @property
    def bytes_written(self) -> int:
        """The total size of written files."""
        return sum(file.size for file in self.written)


def file_changes(operation: str | None, actions: Iterable[Action]) -> FileChanges:
    """Derive file changes from the actions of one commit. `operation` None: not recorded."""
    files = [action for action in actions if isinstance(action, AddFile | RemoveFile)]
    adds = [file for file in files if isinstance(file, AddFile)]
    removes = [file for file in files if isinstance(file, RemoveFile)]
    stated = {file.path for file in adds}
    origin = operation_named(operation).files
    restates = origin is NewFiles.RESTATED
    both = stated if restates else stated & {file.path for file in removes}
    added = tuple(file for file in adds if file.path not in both)
    return FileChanges(
        added=added,
        removed=tuple(file for file in removes if file.path not in both),
        restated=tuple(file for file in adds if file.path in both),
        written=tuple(file for file in added if _is_written(origin, file)),
    )


def _is_written(origin: NewFiles, file: AddFile) -> bool:
    """Return whether an operation wrote an added file, as a deep CLONE writes its copies."""
    is_elsewhere = origin is NewFiles.COPIED and _ABSOLUTE.match(file.path)
    return origin is not NewFiles.EXISTING and not is_elsewhere
