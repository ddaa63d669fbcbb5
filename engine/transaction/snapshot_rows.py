"""Row-level conflict resolution for one transaction: its reads, and the vectors it writes.

Rows and deletion vectors are read within a budget.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyroaring import BitMap64

from engine.actions.codec import Action
from engine.actions.files import AddFile, DeletionVectorDescriptor
from engine.actions.statistics import loosen_bounds
from engine.clock import Clock
from engine.conflicts.decide.rebase import PendingVectors
from engine.conflicts.decide.row_access import NO_ROWS, Budget, Positions, positions
from engine.conflicts.decide.row_level import resolve_by_rows
from engine.conflicts.decide.row_map import RowMap, trace
from engine.conflicts.overlap import Overlap
from engine.conflicts.transaction_info import CurrentTransaction, ReadPredicate
from engine.deletion_vectors.files import read_deletion_vector, write_deletion_vectors
from engine.errors import CannotEvaluateError, DataFileError
from engine.expressions.evaluate import find_matches
from engine.expressions.traits import columns_of
from engine.expressions.tree import Expression
from engine.schema.column_mapping import PHYSICAL_NAME_KEY
from engine.schema.types import LONG, StructField, StructType
from engine.snapshot.data_files import count_rows
from engine.snapshot.reader import read_physical
from engine.snapshot.snapshot import Snapshot
from engine.storage.base import Store
from engine.transaction.pending_commit import PendingCommit
from engine.transaction.validation import Resolution

RowMatcher: TypeAlias = Callable[[pa.Table], pa.Array | pa.ChunkedArray]
"""Returns a mask of the target rows a MERGE reads: those joined with a source row or reached by a
NOT MATCHED BY SOURCE clause.
"""

RowTester: TypeAlias = Callable[[Expression, pa.Table], pa.Array | pa.ChunkedArray]
"""Returns a mask of the rows that satisfy a condition Arrow cannot evaluate."""


class SnapshotRows:
    """The `RowAccess` of a transaction with a snapshot. `opened` are the data files it read."""

    def __init__(
        self,
        snapshot: Snapshot,
        budget: Budget,
        matcher: RowMatcher | None = None,
        tester: RowTester | None = None,
    ) -> None:
        self._snapshot, self._budget = snapshot, budget
        self._matcher, self._tester = matcher, tester
        self._vectors: dict[str, BitMap64] = {}
        self._row_counts: dict[str, int] = {}
        self.opened: set[str] = set()

    def vector(self, descriptor: DeletionVectorDescriptor | None) -> BitMap64:
        """Return the rows a deletion vector deletes, none without a vector."""
        if descriptor is None:
            return NO_ROWS
        self._budget.check()
        stored = self._vectors.get(descriptor.unique_id)
        if stored is None:
            roots = self._snapshot.allowed_roots
            stored = read_deletion_vector(self._snapshot.store, descriptor, roots)
            self._vectors[descriptor.unique_id] = stored
        return stored

    def row_count(self, path: str) -> int:
        """Return the physical rows of a file, from its footer."""
        counted = self._row_counts.get(path)
        if counted is None:
            self._budget.check()
            roots = self._snapshot.allowed_roots
            counted = self._row_counts[path] = count_rows(self._snapshot.store, path, roots)
        return counted

    def select_rows(self, read: ReadPredicate, file: AddFile, among: BitMap64) -> BitMap64:
        """Return the physical positions of a file selected by one read of this transaction."""
        if not among or (read.condition is None and self._matcher is None):
            return among
        self._budget.check()
        row_numbers = positions(among)
        rows = self._physical(file, self._choose_columns(read))
        if row_numbers[-1] >= rows.num_rows:
            what = (
                f"{file.path} has {rows.num_rows} rows, but the log refers to row "
                f"{row_numbers[-1]}."
            )
            raise DataFileError(what)
        rows = rows.take(pa.array(row_numbers))
        if read.condition is not None:
            mask = self._test_condition(read.condition, rows)
            row_numbers, rows = row_numbers[_convert_to_mask(mask)], rows.filter(mask)
        if self._matcher is not None and rows.num_rows:  # last, because it may use Spark
            row_numbers = row_numbers[_convert_to_mask(self._matcher(rows))]
        return BitMap64(row_numbers.tolist())

    def row_ids(self, file: AddFile) -> Positions | None:
        """Return the stable id of every physical row: stored, or counted from the file's first."""
        column = self._snapshot.properties.row_id_column
        if not self._snapshot.properties.row_tracking or column is None:
            return None
        self._budget.check()
        place = StructField(column, LONG, metadata={PHYSICAL_NAME_KEY: column})
        kept = self._physical(file, StructType((place,))).column(0)
        if file.base_row_id is None:
            snapshot_file = self._find_file(file.path)
            file = snapshot_file or file
        if file.base_row_id is None:
            return None if kept.null_count else _convert_to_positions(kept)
        counted = pa.array(np.arange(len(kept)) + file.base_row_id)
        return _convert_to_positions(pc.coalesce(kept.cast(pa.int64()), counted))

    def _choose_columns(self, read: ReadPredicate) -> StructType:
        schema = self._snapshot.schema
        if self._matcher is not None or read.condition is None:
            return schema
        names = {path[0].lower() for path in columns_of(read.condition)}
        return StructType(tuple(column for column in schema if column.name.lower() in names))

    def _physical(self, file: AddFile, columns: StructType) -> pa.Table:
        """Read every physical row; the snapshot completes a file its `remove` does not describe."""
        if not file.partition_values and self._snapshot.partition_columns:
            file = self._find_file(file.path) or file
        if not len(columns):
            columns = self._snapshot.schema
        self.opened.add(file.path)
        return read_physical(self._snapshot, file, columns)

    def _test_condition(self, condition: Expression, rows: pa.Table) -> pa.ChunkedArray | pa.Array:
        try:
            return find_matches(condition, rows)
        except CannotEvaluateError:
            if self._tester is None:
                raise
            return pc.fill_null(self._tester(condition, rows), False)

    def _find_file(self, path: str) -> AddFile | None:
        return next(iter(self._snapshot.add_files(paths=[path])), None)


def _convert_to_mask(mask: pa.ChunkedArray | pa.Array) -> NDArray[np.bool_]:
    return np.asarray(pc.fill_null(mask, False).to_numpy(zero_copy_only=False), dtype=bool)


def _convert_to_positions(ids: pa.ChunkedArray | pa.Array) -> Positions:
    return np.asarray(ids.to_numpy(zero_copy_only=False), dtype=np.int64)


class SnapshotRowResolver:
    """Resolves conflicts at row level by reading from the table's store.

    `staged` are the transaction's actions before any winning commit was checked: if it moved rows
    itself, its row map is built from them. Files of vectors lie in directories of `prefix_length`
    random characters.
    """

    def __init__(
        self,
        store: Store,
        staged: CurrentTransaction,
        rows: SnapshotRows,
        budget: Budget,
        clock: Clock,
        prefix_length: int = 0,
    ) -> None:
        self._store, self._staged, self._rows = store, staged, rows
        self._budget, self._clock = budget, clock
        self._prefix_length = prefix_length
        self._own_map: RowMap | None = None
        self._written: dict[tuple[str, bytes], DeletionVectorDescriptor] = {}

    def resolve(self, overlap: Overlap, pending: PendingVectors) -> Resolution:
        """Resolve a winning commit in conflict at file level by its rows."""
        began = self._clock.monotonic_s()
        opened = set(self._rows.opened)
        with self._budget.measure():
            settled = resolve_by_rows(overlap, pending, self._rows, self._own)
        return Resolution(
            settled,
            duration_ms=round((self._clock.monotonic_s() - began) * 1000),
            files_opened=len(self._rows.opened - opened),
            budget_ms=round(self._budget.seconds * 1000),
        )

    def write_vectors(self, pending_commit: PendingCommit) -> PendingCommit:
        """Write the pending deletion vectors and name them in the actions.

        They remain pending: the next winning commit is checked against rows, not against written
        files.
        """
        vectors = pending_commit.pending.vectors
        if not vectors:
            return pending_commit
        keys = {path: (path, rows.serialize()) for path, rows in vectors.items()}
        fresh = {key: vectors[path] for path, key in keys.items() if key not in self._written}
        self._written |= write_deletion_vectors(
            self._store, fresh, prefix_length=self._prefix_length
        )
        named = {path: self._written[key] for path, key in keys.items()}
        actions = tuple(_replace_vector(action, named) for action in pending_commit.current.actions)
        return replace(pending_commit, current=pending_commit.current.restage(actions))

    def _own(self) -> RowMap:
        if self._own_map is None:
            staged = self._staged  # whose own tags were counted as it was written
            self._own_map = trace(staged.removes, staged.adds, self._rows, ())
        return self._own_map


def _replace_vector(action: Action, named: dict[str, DeletionVectorDescriptor]) -> Action:
    if not isinstance(action, AddFile) or action.path not in named:
        return action
    vector = named[action.path]
    return msgspec.structs.replace(
        action,
        deletion_vector=vector if vector.cardinality else None,
        stats=loosen_bounds(action.stats),
    )
