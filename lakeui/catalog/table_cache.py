"""Tables as this process mirrored them last, brought to a later version by its commits alone.

Reading a table of a million files takes most of a second, however small the commit. The mirrored
sums follow from numbers of each file and from the commits since. A table is dropped from the cache,
and read anew, wherever the result might differ: another log or a checkpoint is there, a commit
changes the metadata, the protocol or a domain, files are in the log more than once, or the cap of
mirrored files requires an unknown file. Files that left the table stay until a VACUUM deletes them,
and are counted too.

A live file takes 41 bytes. A path and the id of a deletion vector are stored as hashes of 64 bits,
keyed anew by every process. A path that is not found is surely absent; a new path collides with one
of a million with a probability of 1 in 18,000,000,000,000.
"""

from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from django.conf import settings
from numpy.typing import NDArray

from engine.actions.files import AddFile, FileKey, RemoveFile
from engine.actions.table import DomainMetadata, Metadata, Protocol
from engine.clock import surely_ms
from engine.errors import FileMissingError
from engine.log.commits import LogCommit, read_commit
from engine.log.file_table import files_table
from engine.log.paths import commit_path
from engine.log.replay import keep_newest
from engine.log.segment import LogFile, complete_checkpoints, newer_segment, read_hint
from engine.log.tip import Tip
from engine.snapshot.snapshot import Snapshot, list_files
from engine.storage.base import Store
from lakeui.catalog import log_values
from lakeui.catalog.log_rows import (
    LONGEST_PATH,
    FileNumbers,
    FileSums,
    MirroredFiles,
    count_deleted_rows,
)

_MOST_COMMITS, _MOST_BYTES, _MOST_CHANGED = 1000, 64 * 1024 * 1024, 50_000
_BYTES_A_MIRRORED_PATH = 200
_LARGEST = 2**62
_DEFINING = (Metadata, Protocol, DomainMetadata)
_FileAction = AddFile | RemoveFile

_AT_ONCE = 65_536
_BYTES_A_CHANGED_PATH = 1000
_NOT_SAID = -(2**63)  # stands for null: no number of files is as small
_Numbers = NDArray[np.int64]


class Tombstone(NamedTuple):
    """The time of a file's removal, in ms, and its size, as recorded in the log."""

    removed_ms: int | None
    size: int | None


@dataclass(slots=True)
class DeadFiles:
    """Sums over dead files, by the removals since `since_ms`; `first_ms` is the first removal.

    `retention_ms` is how long a file is kept, as VACUUM takes it.
    """

    since_ms: int
    retention_ms: int
    files: int = 0
    size: int = 0
    first_ms: int | None = None

    @classmethod
    def from_snapshot(
        cls, snapshot: Snapshot, files: pa.Table, vacuumed_at: datetime | None
    ) -> "DeadFiles":
        """Sum the tombstones still in a log; `files` is `snapshot.files()`."""
        retention_ms = surely_ms(snapshot.properties.deleted_file_retention_ms)
        since_ms = vacuum_horizon_ms(vacuumed_at, retention_ms)
        dead = _dead(snapshot.state.tombstones, files, since_ms)
        first = pc.min(dead.column("deletion_timestamp_max")).as_py()
        size = log_values.integer(pc.sum(dead.column("size_max")).as_py()) or 0
        return cls(since_ms, retention_ms, dead.num_rows, size, first)

    def dead_file(self, tombstones: Iterable[Tombstone]) -> Tombstone | None:
        """Return the dead file of a path's tombstones; None if a VACUUM deleted it."""
        recent = [gone for gone in tombstones if (gone.removed_ms or 0) >= self.since_ms]
        if not recent:
            return None
        removed = [gone.removed_ms for gone in recent if gone.removed_ms is not None]
        sizes = [gone.size for gone in recent if gone.size is not None]
        return Tombstone(max(removed, default=None), max(sizes, default=None))

    def count(self, file: Tombstone, sign: int) -> None:
        """Count a file that became dead (1), or is no longer (-1), which leaves `first_ms`."""
        self.files += sign
        self.size += sign * (file.size or 0)
        if sign > 0 and file.removed_ms is not None:
            first = self.first_ms
            self.first_ms = file.removed_ms if first is None else min(first, file.removed_ms)

    def fields(self) -> dict[str, Any]:
        """Return the fields of `Table` about them: from `vacuum_from` on VACUUM may delete them."""
        first = self.first_ms
        return {
            "dead_file_count": self.files,
            "dead_bytes": self.size,
            "vacuum_from": None if first is None else log_values.moment(first + self.retention_ms),
        }


def vacuum_horizon_ms(vacuumed_at: datetime | None, retention_ms: int) -> int:
    """Return the time in ms before which the last VACUUM deleted all removed files."""
    if vacuumed_at is None:
        return 0
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    return int((vacuumed_at - epoch).total_seconds() * 1000) - retention_ms


def _dead(tombstones: pa.Table, files: pa.Table, since_ms: int) -> pa.Table:
    """Return one row per path, by its last removal: earlier deletion vectors kept it alive."""
    removed = pc.fill_null(tombstones.column("deletion_timestamp"), 0)
    recent = tombstones.filter(pc.greater_equal(removed, pa.scalar(since_ms, pa.int64())))
    paths = recent.column("path")
    alive = files.filter(pc.is_in(files.column("path"), value_set=paths)).column("path")
    chosen = recent.filter(pc.invert(pc.is_in(paths, value_set=alive)))
    return chosen.group_by("path").aggregate([("size", "max"), ("deletion_timestamp", "max")])


@dataclass(slots=True)
class PathFiles:
    """The live files and the tombstones of one path, by the marks of their deletion vectors."""

    live: dict[int, FileNumbers] = field(default_factory=dict)
    gone: dict[int, Tombstone] = field(default_factory=dict)


class MirroredFileIndex:
    """The files of a version as they were read, and the paths changed since."""

    def __init__(self, files: pa.Table, tombstones: pa.Table) -> None:
        """Index `snapshot.files()` with its column `dv_id`, and the tombstones of the state."""
        rows, deleted = files.column("num_records"), count_deleted_rows(files)
        self._live = _NumberRows(files, (files.column("size"), rows, deleted))
        removed = tombstones.column("deletion_timestamp")
        self._gone = _NumberRows(tombstones, (removed, tombstones.column("size")))
        self.changed: dict[str, PathFiles] = {}

    @property
    def has_one_a_path(self) -> bool:
        """Whether no two live files have one path, nor two paths one hash."""
        return self._live.are_distinct

    @property
    def size_bytes(self) -> int:
        """Its approximate memory in bytes."""
        size = self._live.size_bytes + self._gone.size_bytes
        return size + _BYTES_A_CHANGED_PATH * len(self.changed)

    def files_at(self, path: str) -> PathFiles:
        """Return the files of a path, to be changed in place."""
        files = self.changed.get(path)
        if files is None:
            live = {
                mark: FileNumbers(size or 0, rows, deleted)
                for mark, (size, rows, deleted) in self._live.rows_at(path)
            }
            gone = {mark: Tombstone(*numbers) for mark, numbers in self._gone.rows_at(path)}
            files = self.changed[path] = PathFiles(live, gone)
        return files


def mark_of(vector_id: str | None) -> int:
    """Return the mark of a deletion vector in an index; 0 means no vector."""
    return 0 if vector_id is None else hash(vector_id)


class _NumberRows:
    """Rows of numbers, ordered by the hash of their paths."""

    def __init__(self, rows: pa.Table, columns: "tuple[pa.ChunkedArray, ...]") -> None:
        hashes = _hashes(rows.column("path"))
        order = np.argsort(hashes, kind="stable")
        self._hashes = hashes[order]
        vectors = rows.column("dv_id")
        marks = (
            np.zeros(len(hashes), np.int64)
            if vectors.null_count == len(hashes)
            else _hashes(vectors)
        )
        self._columns = [numbers[order] for numbers in (marks, *map(_numbers_of_column, columns))]

    @property
    def are_distinct(self) -> bool:
        return not bool(np.any(self._hashes[1:] == self._hashes[:-1]))

    @property
    def size_bytes(self) -> int:
        return sum(numbers.nbytes for numbers in (self._hashes, *self._columns))

    def rows_at(self, path: str) -> Iterator[tuple[int, list[int | None]]]:
        """Iterate over the rows of a path: the mark of each, and its numbers."""
        key = np.int64(hash(path))
        first = int(np.searchsorted(self._hashes, key, "left"))
        last = int(np.searchsorted(self._hashes, key, "right"))
        for row in range(first, last):
            mark, *numbers = (int(column[row]) for column in self._columns)
            yield mark, [None if number == _NOT_SAID else number for number in numbers]


def _hashes(texts: "pa.ChunkedArray") -> _Numbers:
    parts = [
        np.fromiter(map(mark_of, texts.slice(start, _AT_ONCE).to_pylist()), np.int64)
        for start in range(0, len(texts), _AT_ONCE)
    ]
    return np.concatenate(parts) if parts else np.empty(0, np.int64)


def _numbers_of_column(column: "pa.ChunkedArray") -> _Numbers:
    numbers: _Numbers = pc.fill_null(column, _NOT_SAID).to_numpy()
    return numbers


class UnfitError(Exception):
    """The state is uncertain until the table is read again."""


@dataclass(frozen=True, slots=True)
class LiveChanges:
    """Removed paths of the mirrored live files, and new ones as `Snapshot.files` lists them.

    A changed file is in both.
    """

    leaving: list[str]
    coming: pa.Table


@dataclass
class HeldTable:
    """A table at a version, changed in place by its only holder (`HeldTables`)."""

    tip: Tip
    checkpoint_version: int | None
    table_uuid: str
    sums: FileSums
    dead: DeadFiles
    index: MirroredFileIndex
    cap: int
    mirrored: list[str] = field(default_factory=list)
    """The paths of the mirrored live files, ordered: all of them, or the first up to the cap."""

    @classmethod
    def from_snapshot(
        cls,
        snapshot: Snapshot,
        files: pa.Table,
        sums: FileSums,
        dead: DeadFiles,
        live: MirroredFiles,
    ) -> "HeldTable | None":
        """Hold a snapshot; None if later versions could not be derived from it.

        `files` is `snapshot.files()`.
        """
        state = snapshot.state
        if state.tip is None or state.tip.file.path != commit_path(state.version):
            return None
        if files.column("size").null_count:
            return None
        index = MirroredFileIndex(
            files.append_column("dv_id", state.files.column("dv_id")), state.tombstones
        )
        paths = live.files.column("path").to_pylist()
        if not index.has_one_a_path or paths != [path for path, *_ in live.keys]:
            return None
        return cls(
            tip=state.tip,
            checkpoint_version=state.checkpoint_version,
            table_uuid=log_values.text(snapshot.metadata.id, 100),
            sums=sums,
            dead=dead,
            index=index,
            cap=settings.MIRROR_MAX_LIVE_FILES,
            mirrored=sorted(paths),
        )

    @property
    def version(self) -> int:
        """Its version."""
        return self.tip.version

    @property
    def size_bytes(self) -> int:
        """Its approximate memory in bytes."""
        return self.index.size_bytes + _BYTES_A_MIRRORED_PATH * len(self.mirrored)

    def fields(self) -> dict[str, Any]:
        """Return the fields of `Table` derived from its files."""
        return {
            "version": self.version,
            "table_uuid": self.table_uuid,
            **self.sums.fields(),
            **self.dead.fields(),
            "live_files_mirrored": len(self.mirrored),
        }

    @property
    def first_listed(self) -> int:
        """The version from which the log must be listed to find the commits after its own."""
        return self.version if self.checkpoint_version is None else self.checkpoint_version

    def commits_since(
        self, store: Store, files: Sequence[LogFile], read: Iterable[LogCommit] = ()
    ) -> list[LogCommit]:
        """Return the commits after its version.

        `files` are the log's since `first_listed` or before, `read` commits that were read already.

        Raises:
            UnfitError: they cannot bring it to the latest version.
        """
        if self.checkpoint_version is None and read_hint(store) is not None:
            raise UnfitError
        listed = [file for file in files if file.version >= self.first_listed]
        if any(one.version != self.checkpoint_version for one in complete_checkpoints(listed)):
            raise UnfitError
        tip = next((file.status for file in files if file.path == self.tip.file.path), None)
        if tip is None or not tip.is_unchanged(self.tip.file):
            raise UnfitError
        segment = newer_segment(
            [file for file in files if file.version >= self.version], self.version
        )
        if segment is None or len(segment.commits) > _MOST_COMMITS:
            raise UnfitError
        commits = segment.commits
        if sum(file.status.size_bytes for file in commits) > _MOST_BYTES:
            raise UnfitError
        by_version = {commit.version: commit for commit in read}
        try:
            return [
                by_version.get(file.version) or read_commit(store, file.version) for file in commits
            ]
        except FileMissingError as error:
            raise UnfitError from error

    def advance(self, commits: Sequence[LogCommit]) -> LiveChanges:
        """Advance it to the version of the last of the commits that follow its own.

        Raises:
            UnfitError: the result is uncertain; the held table is of no more use.
        """
        newest = _newest(commits)
        adds = [action for action in newest.values() if isinstance(action, AddFile)]
        listed = list_files(files_table(adds))
        numbers = dict(zip((add.key for add in adds), _numbers(listed), strict=True))
        files_before, came, left, restated = self.sums.files, set[str](), set[str](), set[str]()
        for path, actions in _group_by_path(newest).items():
            files = self.index.files_at(path)
            was_live = bool(files.live)
            self._change(files, actions, numbers)
            if was_live != bool(files.live):
                (left if was_live else came).add(path)
            elif any(action.key in numbers for action in actions):
                restated.add(path)
        self._check()
        if commits:
            self.tip = Tip.from_commit(commits[-1])
        leaving, coming = self._choose(came, left, files_before)
        restated = {path for path in restated if self._mirrors(path)}
        rows = [row for row, add in enumerate(adds) if add.path in coming | restated]
        return LiveChanges(sorted(leaving | restated), listed.take(pa.array(rows, pa.int64())))

    def _change(
        self, files: PathFiles, actions: Iterable[_FileAction], numbers: dict[FileKey, FileNumbers]
    ) -> None:
        before = self._count_path(files, -1)
        for action in actions:
            mark = mark_of(action.key[1])
            if isinstance(action, AddFile):
                files.gone.pop(mark, None)
                files.live[mark] = numbers[action.key]
            else:
                files.live.pop(mark, None)
                files.gone[mark] = Tombstone(action.deletion_timestamp, action.size)
        if len(files.live) > 1:
            raise UnfitError
        after = self._count_path(files, 1)
        if before is not None and before != after and before.removed_ms == self.dead.first_ms:
            raise UnfitError  # only the other files give the new first one

    def _count_path(self, files: PathFiles, sign: int) -> Tombstone | None:
        """Count a path's contribution to the sums; return its dead file, if it is one."""
        for file in files.live.values():
            self.sums.count(file, sign)
        dead = None if files.live else self.dead.dead_file(files.gone.values())
        if dead is not None:
            self.dead.count(dead, sign)
        return dead

    def _check(self) -> None:
        sums = (self.sums.size, self.sums.rows, self.sums.deleted, self.dead.size)
        if max(sums) >= _LARGEST or len(self.index.changed) > _MOST_CHANGED:
            raise UnfitError

    def _choose(
        self, came: set[str], left: set[str], files_before: int
    ) -> tuple[set[str], set[str]]:
        """Choose the mirrored ones of the live files; return the removed and the new ones."""
        before = self.mirrored
        are_all = len(before) == files_before
        leaving = {path for path in left if self._mirrors(path)}
        coming = {path for path in came if are_all or (before and path < before[-1])}
        if any(log_values.text(path, LONGEST_PATH) != path for path in coming):
            raise UnfitError
        if not (leaving or coming):
            return leaving, coming
        ordered = sorted((set(before) - leaving) | coming)
        if not are_all and len(ordered) < self.cap:
            raise UnfitError
        self.mirrored = ordered[: self.cap]
        over = set(ordered[self.cap :])
        return leaving | (over - coming), coming - over

    def _mirrors(self, path: str) -> bool:
        place = bisect_left(self.mirrored, path)
        return place < len(self.mirrored) and self.mirrored[place] == path


class HeldTables:
    """The tables held by a process, the last used within `MIRROR_HELD_BYTES`.

    The taker of a table has it alone: two concurrent refreshes of a table do not share it.
    """

    def __init__(self) -> None:
        """Start empty."""
        self._lock = Lock()
        self._tables: OrderedDict[object, tuple[HeldTable, int]] = OrderedDict()
        self._size = 0

    def first_listed(self, key: object, mirrored_version: int) -> int:
        """Return the version from which to list the log of a table, held or not."""
        with self._lock:
            held, _ = self._tables.get(key, (None, 0))
            return mirrored_version if held is None else min(mirrored_version, held.first_listed)

    def take(self, key: object) -> HeldTable | None:
        """Take the table under a key out of the cache."""
        with self._lock:
            return self._pop(key)

    def keep(self, key: object, held: HeldTable) -> None:
        """Hold a table, and drop the least recently used ones beyond the limit."""
        size = held.size_bytes
        with self._lock:
            self._pop(key)
            self._tables[key] = held, size
            self._size += size
            while self._size > settings.MIRROR_HELD_BYTES:
                self._pop(next(iter(self._tables)))

    def _pop(self, key: object) -> HeldTable | None:
        held, size = self._tables.pop(key, (None, 0))
        self._size -= size
        return held


HELD_TABLES = HeldTables()
"""Of this process."""


def _newest(commits: Iterable[LogCommit]) -> dict[FileKey, _FileAction]:
    newest: dict[FileKey, _FileAction] = {}
    for action in (action for commit in commits for action in commit.actions):
        if isinstance(action, _DEFINING):
            raise UnfitError
        if isinstance(action, AddFile | RemoveFile):
            keep_newest(newest, action)
    return newest


def _group_by_path(newest: dict[FileKey, _FileAction]) -> dict[str, list[_FileAction]]:
    by_path: dict[str, list[_FileAction]] = {}
    for action in newest.values():
        by_path.setdefault(action.path, []).append(action)
    return by_path


def _numbers(files: pa.Table) -> Iterator[FileNumbers]:
    columns = (files.column("size"), files.column("num_records"), count_deleted_rows(files))
    return map(FileNumbers, *(column.to_pylist() for column in columns))
