"""Which files of a table's directory nothing needs any more, and why (SEMANTICS: VACUUM)."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from engine.actions.deletion_vector import DeletionVectorDescriptor
from engine.actions.files import AddCDCFile, AddFile, RemoveFile
from engine.deletion_vectors.files import locate
from engine.errors import DeletionVectorError, MalformedLogError, PathOutsideRootError
from engine.log.file_table import adds_of, removes_of
from engine.log.removals import iter_removals
from engine.protocol.iceberg_compat import ICEBERG_DIRECTORY, is_iceberg
from engine.snapshot.snapshot import Snapshot
from engine.storage.base import FileStatus, Store
from engine.storage.presence import statuses_of
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
class Removals:
    """What the commits that the log still holds took out of the table, and when: decoded paths.

    `changes` are the files of row changes, and when the versions came that have them. `by_version`
    has what each version removed.
    """

    files: Mapping[str, int] = field(default_factory=dict)
    changes: Mapping[str, int] = field(default_factory=dict)
    by_version: Mapping[int, Sequence[str]] = field(default_factory=dict)


@dataclass(frozen=True)
class Needs:
    """What the log still needs: decoded paths below the table.

    `live` are of the latest version, `retained` of versions inside the retention, `expired` were
    removed before it. `directories` hold what the table's Iceberg metadata looks after by itself.
    """

    live: frozenset[str]
    retained: frozenset[str]
    expired: frozenset[str] = frozenset()
    directories: tuple[str, ...] = ()

    def has(self, path: str) -> bool:
        """Whether a file must stay."""
        return path in self.live or path in self.retained or path.startswith(self.directories)


def read_removals(store: Store) -> Removals:
    """What the commits of a log took out of the table.

    Raises:
        MalformedLogError: a commit is not a list of actions: what it needs cannot be known.
    """
    files: dict[str, int] = {}
    changes: dict[str, int] = {}
    by_version: dict[int, list[str]] = {}
    for version, action, time_ms in iter_removals(store):
        is_change = isinstance(action, AddCDCFile)
        newest = changes if is_change else files
        removed = [] if is_change else by_version.setdefault(version, [])
        for path in paths_of(store.root, action):
            newest[path] = max(time_ms, newest.get(path, 0))
            removed.append(path)
    return Removals(files, changes, by_version)


def needs_of(snapshot: Snapshot, removals: Removals, keep_from_ms: int) -> Needs:
    """What a table needs if versions since a time must stay readable.

    Checkpoints forget what was removed longer ago than the table retained files when they were
    written, and it may retain them longer now: so the commits are asked, and not the state alone.
    """
    root, files, tombstones = snapshot.table_uri, snapshot.state.files, snapshot.state.tombstones
    live = {path for text in files.column("path").to_pylist() for path in _data_paths(root, text)}
    masked = adds_of(files.filter(pc.is_valid(files.column("dv_id"))))
    live.update(path for add in masked for path in _vector_paths(root, add.deletion_vector))
    removed = dict(removals.files)
    for path, time_ms in _removed_in_state(root, tombstones):
        removed[path] = max(time_ms, removed.get(path, 0))
    retained = {path for path, ms in removed.items() if ms >= keep_from_ms}
    retained.update(path for path, ms in removals.changes.items() if ms >= keep_from_ms)
    directories = (f"{ICEBERG_DIRECTORY}/",) if is_iceberg(snapshot.properties) else ()
    expired = removed.keys() - retained
    return Needs(frozenset(live), frozenset(retained), frozenset(expired), directories)


def _removed_in_state(root: str, tombstones: pa.Table) -> Iterator[tuple[str, int]]:
    texts, times = (tombstones.column(name) for name in ("path", "deletion_timestamp"))
    for text, time_ms in zip(texts.to_pylist(), times.to_pylist(), strict=True):
        yield from ((path, time_ms or 0) for path in _data_paths(root, text))
    for remove in removes_of(tombstones.filter(pc.is_valid(tombstones.column("dv_id")))):
        for path in _vector_paths(root, remove.deletion_vector):
            yield path, remove.deletion_timestamp or 0


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
    listed = [status for status in everything if _is_candidate(status.path)]
    foreign = tuple(_nested_tables(status.path for status in everything))
    running = _running_ids(status.name for status in listed)
    limit = keep_from_ms if spare_from_ms is None else min(keep_from_ms, spare_from_ms)
    unneeded = []
    for status in listed:
        if status.modified_ms >= limit or needs.has(status.path):
            continue
        if status.path.startswith(foreign) or _belongs_to(status.name, running):
            continue
        unneeded.append(Unneeded(status.path, status.size_bytes, _reason(status, needs)))
    return sorted(unneeded, key=lambda file: file.path)


def removed_in_log(store: Store, removals: Removals, needs: Needs) -> list[FileStatus]:
    """The files that commits still in the log removed and that are still there (VACUUM LITE)."""
    unneeded = [path for path in {*removals.files, *removals.changes} if not needs.has(path)]
    return statuses_of(store, unneeded, len(needs.live) + len(needs.retained))


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
    directories = set()
    for path in paths:
        before, inside, _ = path.partition(f"/{LOG_DIRECTORY}/")
        if inside and not path.startswith(f"{LOG_DIRECTORY}/"):
            directories.add(f"{before}/")
    return directories


def _running_ids(names: Iterable[str]) -> set[str]:
    """Jobs of Databricks that have begun to write and have not finished."""
    marks: dict[str, set[str]] = {"started": set(), "committed": set()}
    for name in names:
        match = _MARKER.match(name) if name.startswith("_") else None
        if match is not None:
            marks[match[1]].add(match["id"])
    return marks["started"] - marks["committed"]


def _belongs_to(name: str, running: set[str]) -> bool:
    return any(f"tid-{run_id}-" in name or name == f"_started_{run_id}" for run_id in running)


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
