"""The figures of every file of a table for its sums, by path: 41 bytes for a live file.

A path and the id of a deletion vector are stored as hashes of 64 bits, keyed anew by every process.
A path that is not found is surely absent; a new path collides with one of a million with a
probability of 1 in 18,000,000,000,000.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lakeui.catalog.dead_files import Tombstone
from lakeui.catalog.file_sums import FileNumbers, count_deleted_rows

_AT_ONCE = 65_536
_BYTES_A_CHANGED_PATH = 1000
_NOT_SAID = -(2**63)  # stands for null: no number of files is as small
_Numbers = NDArray[np.int64]


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
    """Return the mark of a deletion vector in an index; 0 is none."""
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
        self._columns = [numbers[order] for numbers in (marks, *map(_numbers, columns))]

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


def _numbers(column: "pa.ChunkedArray") -> _Numbers:
    numbers: _Numbers = pc.fill_null(column, _NOT_SAID).to_numpy()
    return numbers
