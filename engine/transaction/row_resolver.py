"""Conflict resolution by rows, for one transaction: what it reads, and the vectors it writes."""

from dataclasses import replace

import msgspec

from engine.actions.codec import Action
from engine.actions.deletion_vector import DeletionVectorDescriptor
from engine.actions.files import AddFile
from engine.clock import Clock
from engine.conflicts.budget import Budget
from engine.conflicts.overlap import Overlap
from engine.conflicts.rebase import Pending, loosened
from engine.conflicts.row_level import resolve_by_rows
from engine.conflicts.row_map import RowMap, trace
from engine.conflicts.transaction_info import CurrentTransaction
from engine.deletion_vectors.files import write_deletion_vectors
from engine.storage.base import Store
from engine.transaction.pending_commit import PendingCommit
from engine.transaction.snapshot_rows import SnapshotRows
from engine.transaction.validation import Resolution


class SnapshotRowResolver:
    """Tells rows apart with what the table's store holds.

    `staged` is the transaction before any winner was met: where it moved rows itself, its own row
    map comes from what it staged then. Files of vectors lie in directories of `prefix_length` random
    characters.
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

    def resolve(self, overlap: Overlap, pending: Pending) -> Resolution:
        """What rows say of a winner that files alone would stop."""
        began = self._clock.monotonic_s()
        opened = set(self._rows.opened)
        with self._budget.running():
            settled = resolve_by_rows(overlap, pending, self._rows, self._own)
        return Resolution(
            settled,
            duration_ms=round((self._clock.monotonic_s() - began) * 1000),
            files_opened=len(self._rows.opened - opened),
            budget_ms=round(self._budget.seconds * 1000),
        )

    def write_vectors(self, pending_commit: PendingCommit) -> PendingCommit:
        """The pending commit with its pending deletion vectors written and named by its actions.

        What is pending stays so: the next winner is met with rows, not with what was written.
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
        actions = tuple(_with_vector(action, named) for action in pending_commit.current.actions)
        return replace(pending_commit, current=replace(pending_commit.current, actions=actions))

    def _own(self) -> RowMap:
        if self._own_map is None:
            self._own_map = trace(self._staged.removes, self._staged.adds, self._rows)
        return self._own_map


def _with_vector(action: Action, named: dict[str, DeletionVectorDescriptor]) -> Action:
    if not isinstance(action, AddFile) or action.path not in named:
        return action
    vector = named[action.path]
    return msgspec.structs.replace(
        action,
        deletion_vector=vector if vector.cardinality else None,
        stats=loosened(action.stats),
    )
