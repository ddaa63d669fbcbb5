"""Files added, removed or with another deletion vector from one version of a table to another."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from lakeui.catalog.models import CommitFile, Table

FILES_COMPARED = 5000
FILES_SHOWN = 20
_GONE_FIRST = {CommitFile.Action.REMOVE.value: 0, CommitFile.Action.ADD.value: 1}


class ChangedFile(NamedTuple):
    """A file as a version left it."""

    version: int
    action: str
    path: str
    size_bytes: int | None
    row_count: int | None
    deleted_row_count: int


@dataclass(frozen=True, slots=True)
class ChangedFileSums:
    """The largest of them, and the sums over all. Rows are None if some file has no count."""

    files: tuple[ChangedFile, ...] = ()
    count: int = 0
    size_bytes: int = 0
    row_count: int | None = 0

    @property
    def more(self) -> int:
        return self.count - len(self.files)


@dataclass(frozen=True, slots=True)
class FileDifference:
    """Changed files; `passing` files came and went in between.

    `is_whole` is False if commits touched more files than are mirrored one by one, or compared
    here.
    """

    came: ChangedFileSums = field(default_factory=ChangedFileSums)
    gone: ChangedFileSums = field(default_factory=ChangedFileSums)
    changed: ChangedFileSums = field(default_factory=ChangedFileSums)
    passing: int = 0
    is_whole: bool = True


def file_difference(table: Table, older: int, newer: int) -> FileDifference:
    """Compare files after `older`, up to `newer`, by the mirrored files of the commits between."""
    between = table.commits.filter(version__gt=older, version__lte=newer)
    counted = between.values_list("files_added", "files_removed", "files_mirrored")
    whole = all(added + removed <= mirrored for added, removed, mirrored in counted.order_by())
    touched = CommitFile.objects.filter(
        commit__in=between.order_by().values("pk"), action__in=_GONE_FIRST
    )
    rows = touched.order_by("commit__version").values_list(
        "commit__version", "action", "path", "size_bytes", "row_count", "deleted_row_count"
    )
    files = [ChangedFile(*row) for row in rows[: FILES_COMPARED + 1]]
    return _compare_files(files[:FILES_COMPARED], is_whole=whole and len(files) <= FILES_COMPARED)


def _compare_files(touched: Iterable[ChangedFile], *, is_whole: bool) -> FileDifference:
    first: dict[str, ChangedFile] = {}
    last: dict[str, ChangedFile] = {}
    for file in sorted(touched, key=_order):
        first.setdefault(file.path, file)
        last[file.path] = file
    by_fate: dict[tuple[str, str], list[ChangedFile]] = {}
    for path, file in last.items():
        by_fate.setdefault((first[path].action, file.action), []).append(file)
    return FileDifference(
        came=_sums(by_fate.get(("add", "add"), [])),
        gone=_sums(by_fate.get(("remove", "remove"), [])),
        changed=_sums(by_fate.get(("remove", "add"), [])),
        passing=len(by_fate.get(("add", "remove"), [])),
        is_whole=is_whole,
    )


def _order(file: ChangedFile) -> tuple[int, int]:
    """Sort by version; in one, a file with only another vector is removed, then added."""
    return file.version, _GONE_FIRST[file.action]


def _sums(files: list[ChangedFile]) -> ChangedFileSums:
    ranked = sorted(files, key=lambda file: (-(file.size_bytes or 0), file.path))
    rows = [file.row_count for file in files]
    recorded = [count for count in rows if count is not None]
    return ChangedFileSums(
        tuple(ranked[:FILES_SHOWN]),
        len(files),
        sum(file.size_bytes or 0 for file in files),
        sum(recorded) if len(recorded) == len(rows) else None,
    )
