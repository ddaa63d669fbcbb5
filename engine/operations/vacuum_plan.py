"""Files of a table's directory no longer needed by it (SEMANTICS: VACUUM)."""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc

from engine.actions.files import AddCDCFile, AddFile, DeletionVectorDescriptor, RemoveFile
from engine.deletion_vectors.files import locate
from engine.errors import DeletionVectorError, MalformedLogError, PathOutsideRootError
from engine.log.file_table import adds_of, removes_of
from engine.log.history import iter_removals
from engine.log.paths import commit_path
from engine.protocol.iceberg_compat import ICEBERG_DIRECTORY, is_iceberg
from engine.snapshot.snapshot import Snapshot
from engine.storage.base import FileStatus, Store
from engine.storage.presence import StoreListing, find_missing_files, is_remote
from engine.storage.uri import are_plain_paths, is_plain_path, resolve_log_path

LOG_DIRECTORY = "_delta_log"
CHANGE_DIRECTORY = "_change_data"
_MARKER = re.compile(r"_(started|committed)_(?P<id>.+)$")
_TEMPORARY = re.compile(r"\..+\.[0-9a-f]{32}\.tmp$")
_VECTOR = re.compile(r"deletion_vector_[0-9a-fA-F-]{36}\.bin$")


@dataclass(frozen=True)
class Removals:
    """The files removed by commits that are still in the log: decoded paths, with times.

    `changes` are change data files with the times of their versions. `by_version` lists the files
    removed by each version.
    """

    files: Mapping[str, int] = field(default_factory=dict)
    changes: Mapping[str, int] = field(default_factory=dict)
    by_version: Mapping[int, Sequence[str]] = field(default_factory=dict)


@dataclass(frozen=True)
class NeededFiles:
    """The files still needed by the log: decoded paths below the table.

    `live` belong to the latest version, `retained` to versions within the retention, `expired` were
    removed before it. `directories` are managed by the table's Iceberg metadata. On a disk that
    `folds` names, a file may be listed under another spelling than the log's. `missing` are live
    files not found. `doubtful` are the decoded names of needed but unlisted files: a file with
    other escapes may be one of them and stays.
    """

    live: frozenset[str]
    retained: frozenset[str]
    expired: frozenset[str] = frozenset()
    directories: tuple[str, ...] = ()
    folds: bool = False
    missing: tuple[str, ...] = ()
    doubtful: frozenset[str] = frozenset()

    def has(self, path: str) -> bool:
        """Return whether a file must stay."""
        return self._names(path) or self.may_be_missing(path)

    def may_be_missing(self, path: str) -> bool:
        """Return whether a file may be a needed but unlisted one under other escapes."""
        if not self.doubtful or self._names(path):
            return False
        return self.key(decode_fully(path)) in self.doubtful

    def _names(self, path: str) -> bool:
        name = self.key(path)
        return name in self.live or name in self.retained or path.startswith(self.directories)

    def key(self, path: str) -> str:
        """Return the lookup key of a path: equal for all spellings of one file."""
        return unicodedata.normalize("NFC", path).casefold() if self.folds else path

    def fold_names(self) -> "NeededFiles":
        """Return the same needs for a disk that folds names."""
        folding = replace(self, folds=True)
        live, retained, expired = (
            frozenset(map(folding.key, paths)) for paths in (self.live, self.retained, self.expired)
        )
        return replace(folding, live=live, retained=retained, expired=expired - retained - live)


def folds_names(store: Store, version: int) -> bool:
    """Return whether a store ignores case in names, as disks of macOS and Windows do.

    Partitions p=a and p=A then lie in one directory, under the first name.
    """
    return not is_remote(store) and store.stat(commit_path(version).upper()) is not None


def decode_fully(path: str) -> str:
    """Return the path without percent-escapes, however often it was escaped."""
    while (decoded := unquote(path)) != path:
        path = decoded
    return path


def doubt_all(needs: NeededFiles) -> NeededFiles:
    """Return the needs without a listing: any needed file may exist under other escapes."""
    names = (*needs.live, *needs.retained)
    return replace(needs, doubtful=frozenset(needs.key(decode_fully(path)) for path in names))


def fold_to_listing(needs: NeededFiles, listing: StoreListing) -> NeededFiles:
    """Adapt the needs to a listing of all existing files.

    A live file may be listed under another spelling: some disks normalize accents, and old writers
    logged file names without escaping them.

    Raises:
        StorageError: the store could not tell whether a live file exists.
    """
    paths = set(listing.paths)
    unlisted = needs.live.difference(map(needs.key, paths))
    folded = needs.fold_names() if unlisted and not needs.folds else needs
    listed = set(map(folded.key, paths))
    absent = [path for path in unlisted if folded.key(path) not in listed]
    lost = {*absent, *(folded.retained - listed)}
    return replace(
        folded,
        missing=tuple(find_missing_files(listing.store, absent, len(paths))),
        doubtful=frozenset(folded.key(decode_fully(path)) for path in lost),
    )


def read_removals(store: Store) -> Removals:
    """Read the files removed by the commits of a log.

    Raises:
        MalformedLogError: a commit is not a list of actions, so its files are unknown.
    """
    files: dict[str, int] = {}
    changes: dict[str, int] = {}
    by_version: dict[int, list[str]] = {}
    for version, action, time_ms in iter_removals(store):
        is_change = isinstance(action, AddCDCFile)
        newest = changes if is_change else files
        paths = paths_of(store.root, action)
        for path in paths:
            newest[path] = max(time_ms, newest.get(path, 0))
        if not is_change:
            by_version.setdefault(version, []).extend(paths)
    return Removals(files, changes, by_version)


def needs_of(snapshot: Snapshot, removals: Removals, keep_from_ms: float) -> NeededFiles:
    """Return the files needed to keep versions since a time readable.

    Checkpoints drop tombstones older than the retention at their writing, and the retention may be
    longer now: so the commits are read, not only the state.
    """
    root, files, tombstones = snapshot.table_uri, snapshot.state.files, snapshot.state.tombstones
    live = {path for paths in _column_paths(root, files) for path in paths}
    masked = adds_of(files.filter(pc.is_valid(files.column("dv_id"))))
    live.update(path for add in masked for path in _vector_paths(root, add.deletion_vector))
    removed = dict(removals.files)
    for path, time_ms in _iter_removed_paths(root, tombstones):
        removed[path] = max(time_ms, removed.get(path, 0))
    retained = {path for path, ms in removed.items() if ms >= keep_from_ms}
    retained.update(path for path, ms in removals.changes.items() if ms >= keep_from_ms)
    directories = (f"{ICEBERG_DIRECTORY}/",) if is_iceberg(snapshot.properties) else ()
    expired = removed.keys() - retained
    needs = NeededFiles(frozenset(live), frozenset(retained), frozenset(expired), directories)
    return needs.fold_names() if folds_names(snapshot.store, snapshot.version) else needs


def _iter_removed_paths(root: str, tombstones: pa.Table) -> Iterator[tuple[str, int]]:
    times = tombstones.column("deletion_timestamp").to_pylist()
    for paths, time_ms in zip(_column_paths(root, tombstones), times, strict=True):
        yield from ((path, time_ms or 0) for path in paths)
    for remove in removes_of(tombstones.filter(pc.is_valid(tombstones.column("dv_id")))):
        for path in _vector_paths(root, remove.deletion_vector):
            yield path, remove.deletion_timestamp or 0


def _column_paths(root: str, files: pa.Table) -> Iterator[Sequence[str]]:
    """Yield the data files of rows like `paths_of`, with all plain paths decided in one batch."""
    texts = files.column("path")
    plain = are_plain_paths(texts)
    for text, means_itself in zip(texts.to_pylist(), plain.to_pylist(), strict=True):
        yield (text,) if means_itself else _data_paths(root, text)


def paths_of(root: str, file: AddFile | RemoveFile | AddCDCFile) -> Sequence[str]:
    """Return the files of an action below the table: its data and its deletion vector."""
    vector = None if isinstance(file, AddCDCFile) else file.deletion_vector
    return (*_data_paths(root, file.path), *_vector_paths(root, vector))


def _data_paths(root: str, path_in_log: str) -> Sequence[str]:
    if is_plain_path(path_in_log):
        return (path_in_log,)
    try:
        return (resolve_log_path(root, path_in_log).path,)
    except (PathOutsideRootError, MalformedLogError):
        return ()  # another table's file, not in this directory


def _vector_paths(root: str, vector: DeletionVectorDescriptor | None) -> Sequence[str]:
    if vector is None or vector.storage_type == "i":
        return ()
    try:
        resolved = locate(root, vector)
    except (PathOutsideRootError, MalformedLogError, DeletionVectorError):
        return ()
    return (resolved.path,) if resolved.inside else ()


def find_unneeded(
    listing: StoreListing, needs: NeededFiles, keep_from_ms: int, spare_from_ms: int | None
) -> list[FileStatus]:
    """Return unneeded files older than the retention and than any running job, sorted by path.

    Args:
        listing: all files below the table.
        needs: the files to keep.
        keep_from_ms: files modified since then stay.
        spare_from_ms: time since which running jobs may have written files.
    """
    candidates = _candidates(listing.paths)
    foreign = tuple(_find_nested_tables(listing.paths))
    running = _find_unfinished_jobs(path.rpartition("/")[2] for path in candidates)
    unneeded = [
        path
        for path in candidates
        if not (
            needs.has(path)
            or path.startswith(foreign)
            or (running and _belongs_to(path.rpartition("/")[2], running))
        )
    ]
    limit = keep_from_ms if spare_from_ms is None else min(keep_from_ms, spare_from_ms)
    old = [status for status in listing.statuses(sorted(unneeded)) if status.modified_ms < limit]
    return sorted(old, key=lambda status: status.path)


def list_removed_paths(removals: Removals, needs: NeededFiles) -> list[str]:
    """List the files removed by commits still in the log, existing or not (VACUUM LITE)."""
    return [path for path in {*removals.files, *removals.changes} if not needs.has(path)]


def _candidates(paths: Iterable[str]) -> list[str]:
    """Filter out the log and hidden files; partitions may begin with an underscore."""
    open_folders: dict[str, bool] = {}
    candidates = []
    for path in paths:
        folder, _, name = path.rpartition("/")
        is_open = open_folders.get(folder)
        if is_open is None:
            is_open = open_folders[folder] = _is_open(folder)
        if is_open and (name[:1] not in {"_", "."} or _is_leftover(name)):
            candidates.append(path)
    return candidates


def _is_open(folder: str) -> bool:
    folders = folder.split("/")
    if folders[0] == LOG_DIRECTORY:
        return False
    hidden = [part for part in folders if part.startswith(("_", ".")) and "=" not in part]
    return not hidden or hidden == [CHANGE_DIRECTORY]


def _is_leftover(name: str) -> bool:
    return bool(_MARKER.match(name) or _TEMPORARY.match(name))


def _find_nested_tables(paths: Iterable[str]) -> set[str]:
    """Find directories below this table with a table of their own."""
    directories = set()
    for path in paths:
        if f"/{LOG_DIRECTORY}/" in path and not path.startswith(f"{LOG_DIRECTORY}/"):
            directories.add(path.partition(f"/{LOG_DIRECTORY}/")[0] + "/")
    return directories


def _find_unfinished_jobs(names: Iterable[str]) -> set[str]:
    """Find Databricks write jobs with a start marker and no end marker."""
    marks: dict[str, set[str]] = {"started": set(), "committed": set()}
    for name in names:
        match = _MARKER.match(name) if name.startswith("_") else None
        if match is not None:
            marks[match[1]].add(match["id"])
    return marks["started"] - marks["committed"]


def _belongs_to(name: str, running: set[str]) -> bool:
    return any(f"tid-{run_id}-" in name or name == f"_started_{run_id}" for run_id in running)


def reason_for(file: FileStatus, needs: NeededFiles) -> str:
    """Explain to users why nothing needs a file."""
    if needs.key(file.path) in needs.expired:
        return "removed from the table longer ago than the retention"
    if file.path.startswith(f"{CHANGE_DIRECTORY}/"):
        return "row changes of a version older than the retention"
    for pattern, reason in _REASONS:
        if pattern.match(file.name):
            return reason
    return "no retained version uses it"


_REASONS = (
    (_MARKER, "a marker of a job that ended"),
    (_TEMPORARY, "a temporary file of a write that failed"),
    (_VECTOR, "a deletion vector that no retained version uses"),
)
