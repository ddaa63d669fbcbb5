"""Matching rows found by an attempt, kept for the next attempt.

A file untouched by winning commits holds the same rows: only other files are read again.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from pyroaring import BitMap64

from engine.actions.files import AddFile, FileKey
from engine.actions.table import Metadata
from engine.deletion_vectors.files import read_deletion_vector
from engine.errors import EngineError
from engine.expressions.traits import is_asked_once, is_deterministic
from engine.expressions.tree import Expression
from engine.snapshot.snapshot import Snapshot
from engine.spark.row_positions import FileDeletion

_MOST_BYTES = 64 * 1024 * 1024
"""Size limit of deletion vectors kept from one attempt to the next."""


@dataclass(frozen=True)
class FoundRows:
    """The files of a version read for a condition, and their matching rows.

    Attributes:
        snapshot: the version.
        condition: the condition evaluated for each row.
        deletions: the matching rows by file; None if no row matches.
    """

    snapshot: Snapshot
    condition: Expression
    deletions: Mapping[FileKey, FileDeletion | None] = field(default_factory=dict)

    @classmethod
    def record(
        cls,
        snapshot: Snapshot,
        condition: Expression,
        read: Sequence[AddFile],
        deletions: Sequence[FileDeletion],
    ) -> "FoundRows | None":
        """Record the rows found in the files read; return None for nondeterministic conditions."""
        if is_asked_once(condition) or not is_deterministic(condition):
            return None
        matching = {deletion.add.key: deletion for deletion in deletions}
        return cls(snapshot, condition, {add.key: matching.get(add.key) for add in read})

    def keep_positions(self) -> "KeptRows | None":
        """Return the rows as positions read from the vectors, which a failed attempt removes."""
        vectors = [deletion.vector for deletion in self.deletions.values() if deletion is not None]
        if sum(vector.size_in_bytes for vector in vectors if vector) > _MOST_BYTES:
            return None
        positions = {}
        with suppress(EngineError):  # read the files of unreadable vectors again
            for key, deletion in self.deletions.items():
                rows = BitMap64() if deletion is None else self._positions(deletion)
                if rows is not None:
                    positions[key] = rows
        return KeptRows(self.snapshot.metadata, self.condition, positions)

    def _positions(self, deletion: FileDeletion) -> BitMap64 | None:
        if deletion.is_whole:
            return BitMap64(range(deletion.physical))
        if deletion.vector is None:  # only a count: the table has no deletion vectors
            return None
        roots = self.snapshot.allowed_roots
        return read_deletion_vector(self.snapshot.store, deletion.vector, roots)


@dataclass(frozen=True)
class KeptRows:
    """For each file, by path and deletion vector: the deleted rows plus the matching rows."""

    metadata: Metadata
    condition: Expression
    positions: Mapping[FileKey, BitMap64]

    def positions_at(
        self, snapshot: Snapshot, condition: Expression, files: Sequence[AddFile]
    ) -> dict[int, BitMap64]:
        """Return the positions still valid at a version, by file index; {} if metadata changed."""
        if self.metadata != snapshot.metadata or self.condition != condition:
            return {}
        return {
            place: self.positions[add.key]
            for place, add in enumerate(files)
            if add.key in self.positions
        }
