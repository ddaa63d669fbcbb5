"""Which rows match, as one attempt found them, for the next one.

A file that no winning commit has touched holds the same rows: only the others are read again.
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
"""Of deletion vectors that are held from one attempt to the next."""


@dataclass(frozen=True)
class FoundRows:
    """The files of a version that were read for a condition, and which of their rows it is true of.

    Attributes:
        snapshot: the version.
        condition: what was asked of each row.
        deletions: what was found, by file; None where no row matches.
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
        """What was found in the files that were read; None where it may be another each time."""
        if is_asked_once(condition) or not is_deterministic(condition):
            return None
        matching = {deletion.add.key: deletion for deletion in deletions}
        return cls(snapshot, condition, {add.key: matching.get(add.key) for add in read})

    def keep_positions(self) -> "KeptRows | None":
        """It with the positions read from the vectors, which a failed attempt removes."""
        vectors = [deletion.vector for deletion in self.deletions.values() if deletion is not None]
        if sum(vector.size_in_bytes for vector in vectors if vector) > _MOST_BYTES:
            return None
        positions = {}
        with suppress(EngineError):  # of those that cannot be read the files are read again
            for key, deletion in self.deletions.items():
                rows = BitMap64() if deletion is None else self._positions(deletion)
                if rows is not None:
                    positions[key] = rows
        return KeptRows(self.snapshot.metadata, self.condition, positions)

    def _positions(self, deletion: FileDeletion) -> BitMap64 | None:
        if deletion.is_whole:
            return BitMap64(range(deletion.physical))
        if deletion.vector is None:  # only counted: the table has no deletion vectors
            return None
        roots = self.snapshot.allowed_roots
        return read_deletion_vector(self.snapshot.store, deletion.vector, roots)


@dataclass(frozen=True)
class KeptRows:
    """Of each file, the rows that are gone once those that match are: by path and deletion vector."""

    metadata: Metadata
    condition: Expression
    positions: Mapping[FileKey, BitMap64]

    def positions_at(
        self, snapshot: Snapshot, condition: Expression, files: Sequence[AddFile]
    ) -> dict[int, BitMap64]:
        """What still holds at a version, by the files' places; nothing where its columns may differ."""
        if self.metadata != snapshot.metadata or self.condition != condition:
            return {}
        return {
            place: self.positions[add.key]
            for place, add in enumerate(files)
            if add.key in self.positions
        }
