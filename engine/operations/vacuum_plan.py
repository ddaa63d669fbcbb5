"""Which files of a table's directory nothing needs any more, and why (SEMANTICS: VACUUM)."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import pyarrow.compute as pc

from engine.actions.deletion_vector import DeletionVectorDescriptor
from engine.actions.files import AddCDCFile, AddFile, RemoveFile
from engine.deletion_vectors.files import locate
from engine.errors import DeletionVectorError, MalformedLogError, PathOutsideRootError
from engine.iceberg.upkeep import ICEBERG_DIRECTORY, is_iceberg
from engine.log.commits import list_versions, read_commit
from engine.log.file_table import adds_of, removes_of
from engine.snapshot.snapshot import Snapshot
from engine.storage.base import FileStatus, Store
from engine.storage.uri import resolve_log_path

LOG_DIRECTORY = "_delta_log"
CHANGE_DIRECTORY = "_change_data"
_MARKER = re.compile(r"_(started|committed)_(?P<id>.+)$")
_TEMPORARY = re.compile(r"\..+\.[0-9a-f]{32}\.tmp$")
_VECTOR = re.compile(r"deletion_vector_[0-9a-fA-F-]{36}\.bin$")


@dataclass(frozen=True, slots=True)
class Unneeded:
    """A file that may go, and why."""

    path: str
    size_bytes: int
    reason: str


@dataclass(frozen=True)
class Needs:
    """What the log still needs: decoded paths below the table.

    `live` are of the newest version, `retained` of versions inside the retention, `expired` were
    removed before it, with the time of their removal. `directories` hold what the table's Iceberg
    metadata looks after by itself.
    """

    live: frozenset[str]
    retained: frozenset[str]
    expired: Mapping[str, int] = field(default_factory=dict)
    directories: tuple[str, ...] = ()

    def has(self, path: str) -> bool:
        """Whether a file must stay."""
        return path in self.live or path in self.retained or path.startswith(self.directories)


def needs_of(snapshot: Snapshot, keep_from_ms: int, *, ask_commits: bool = False) -> Needs:
    """What a table needs if versions since a time must stay readable.

    Checkpoints forget what was removed longer ago than the table retains files: `ask_commits` where
    that time is further back.
    """
    root = snapshot.table_uri
    files = snapshot.state.files
    live = {path for text in files.column("path").to_pylist() for path in _data_paths(root, text)}
    masked = adds_of(files.filter(pc.is_valid(files.column("dv_id"))))
    live.update(path for add in masked for path in _vector_paths(root, add.deletion_vector))
    retained: set[str] = set()
    expired: dict[str, int] = {}
    removes = removes_of(snapshot.state.tombstones)
    if ask_commits:
        removes += _removed_since(snapshot.store, keep_from_ms)
    for remove in removes:
        removed_ms = remove.deletion_timestamp or 0
        for path in paths_of(root, remove):
            if removed_ms >= keep_from_ms:
                retained.add(path)
            else:
                expired[path] = max(removed_ms, expired.get(path, 0))
    directories = (f"{ICEBERG_DIRECTORY}/",) if is_iceberg(snapshot.properties) else ()
    return Needs(frozenset(live), frozenset(retained), expired, directories)


def _removed_since(store: Store, since_ms: int) -> Iterator[RemoveFile]:
    """What the commits that the log still holds removed at a time or after it."""
    for version in list_versions(store):
        for action in read_commit(store, version).actions:
            if isinstance(action, RemoveFile) and (action.deletion_timestamp or 0) >= since_ms:
                yield action


def paths_of(root: str, file: AddFile | RemoveFile | AddCDCFile) -> Iterator[str]:
    """The files below the table behind an action: its data and its deletion vector."""
    vector = None if isinstance(file, AddCDCFile) else file.deletion_vector
    yield from _data_paths(root, file.path)
    yield from _vector_paths(root, vector)


def _data_paths(root: str, path_in_log: str) -> Iterator[str]:
    try:
        yield resolve_log_path(root, path_in_log).path
    except (PathOutsideRootError, MalformedLogError):
        return  # another table's file is not in this directory


def _vector_paths(root: str, vector: DeletionVectorDescriptor | None) -> Iterator[str]:
    if vector is None or vector.storage_type == "i":
        return
    try:
        resolved = locate(root, vector)
    except (PathOutsideRootError, MalformedLogError, DeletionVectorError):
        return
    if resolved.inside:
        yield resolved.path


def find_unneeded(
    files: Iterable[FileStatus], needs: Needs, keep_from_ms: int, spare_from_ms: int | None
) -> list[Unneeded]:
    """Files that nothing needs, older than the retention and than any running job.

    Args:
        files: everything below the table.
        needs: what must stay.
        keep_from_ms: files modified since then stay.
        spare_from_ms: since when running jobs may have written files.
    """
    everything = list(files)
    listed = [each for each in everything if _is_candidate(each.path)]
    foreign = tuple(_nested_tables(each.path for each in everything))
    running = _running_ids(each.name for each in listed)
    limit = keep_from_ms if spare_from_ms is None else min(keep_from_ms, spare_from_ms)
    found = []
    for each in listed:
        if each.modified_ms >= limit or needs.has(each.path):
            continue
        if each.path.startswith(foreign) or _belongs_to(each.name, running):
            continue
        found.append(Unneeded(each.path, each.size_bytes, _reason(each, needs)))
    return sorted(found, key=lambda each: each.path)


def removed_in_log(store: Store, needs: Needs) -> Iterator[FileStatus]:
    """The files that commits still in the log removed and that are still there (VACUUM LITE)."""
    seen: set[str] = set()
    for version in list_versions(store):
        for action in read_commit(store, version).actions:
            if isinstance(action, RemoveFile | AddCDCFile):
                seen.update(path for path in paths_of(store.root, action) if not needs.has(path))
    for path in sorted(seen):
        status = store.stat(path)
        if status is not None:
            yield status


def without_retained_changes(
    store: Store, found: list[Unneeded], keep_from_ms: int
) -> list[Unneeded]:
    """The files without the row changes of versions since a time: they are older than their commit."""
    prefix = f"{CHANGE_DIRECTORY}/"
    if not any(each.path.startswith(prefix) for each in found):
        return found
    kept: set[str] = set()
    for version in reversed(list_versions(store)):
        commit = read_commit(store, version)
        if commit.timestamp_ms < keep_from_ms:
            break
        changes = (each for each in commit.actions if isinstance(each, AddCDCFile))
        kept.update(path for each in changes for path in paths_of(store.root, each))
    return [each for each in found if each.path not in kept]


def _is_candidate(path: str) -> bool:
    """Not the log, nor what other software keeps hidden; partitions may begin with an underscore."""
    *folders, name = path.split("/")
    if folders and folders[0] == LOG_DIRECTORY:
        return False
    hidden = [part for part in folders if part.startswith(("_", ".")) and "=" not in part]
    if hidden and hidden != [CHANGE_DIRECTORY]:
        return False
    if name.startswith(("_", ".")):
        return bool(_MARKER.match(name) or _TEMPORARY.match(name))
    return True


def _nested_tables(paths: Iterable[str]) -> set[str]:
    """Directories below this table that hold a table of their own."""
    found = set()
    for path in paths:
        before, inside, _ = path.partition(f"/{LOG_DIRECTORY}/")
        if inside and not path.startswith(f"{LOG_DIRECTORY}/"):
            found.add(f"{before}/")
    return found


def _running_ids(names: Iterable[str]) -> set[str]:
    """Jobs of Databricks that have begun to write and have not finished."""
    marks: dict[str, set[str]] = {"started": set(), "committed": set()}
    for name in names:
        match = _MARKER.match(name)
        if match is not None:
            marks[match[1]].add(match["id"])
    return marks["started"] - marks["committed"]


def _belongs_to(name: str, running: set[str]) -> bool:
    return any(f"tid-{each}-" in name or name == f"_started_{each}" for each in running)


def _reason(file: FileStatus, needs: Needs) -> str:
    if file.path in needs.expired:
        return "removed from the table before the retention"
    if file.path.startswith(f"{CHANGE_DIRECTORY}/"):
        return "row changes of a version before the retention"
    for pattern, reason in _REASONS:
        if pattern.match(file.name):
            return reason
    return "no retained version uses it"


_REASONS = (
    (_MARKER, "a marker of a job that ended"),
    (_TEMPORARY, "a temporary file of a write that failed"),
    (_VECTOR, "a deletion vector that no retained version uses"),
)
