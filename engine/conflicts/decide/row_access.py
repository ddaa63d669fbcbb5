"""Access to rows for conflict resolution: an interface that keeps all code above it free of I/O.

Row counts come from the log, which may be wrong; only a file's footer is proof. A `Budget` limits
the time that one commit may spend on comparing rows.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from pyroaring import BitMap64

from engine.actions.files import AddFile, DeletionVectorDescriptor, RemoveFile
from engine.actions.statistics import read_claimed_rows
from engine.clock import Clock
from engine.conflicts.transaction_info import ReadPredicate
from engine.errors import EngineError

Positions = NDArray[np.int64]
NO_ROWS = BitMap64()


class RowAccess(Protocol):
    """Reads deletion vectors, row ids, and the rows a read of this transaction selects.

    Every method may raise `EngineError`: the rows are then unknown, and files decide. Each also
    watches the time: over the budget it raises `BudgetSpentError`.
    """

    def vector(self, descriptor: DeletionVectorDescriptor | None) -> BitMap64:
        """Return the rows a deletion vector deletes, none without a vector."""
        ...

    def row_count(self, path: str) -> int:
        """Return the number of physical rows of a file, from the file and not from the log."""
        ...

    def select_rows(self, read: ReadPredicate, file: AddFile, among: BitMap64) -> BitMap64:
        """Return the physical positions of a file selected by one read of this transaction."""
        ...

    def row_ids(self, file: AddFile) -> Positions | None:
        """Return the stable id of every physical row, None if the table has none."""
        ...


def all_rows(count: int) -> BitMap64:
    """Return the positions of a file with `count` rows."""
    rows = BitMap64()
    if count:
        rows.add_range(0, count)
    return rows


def positions(rows: BitMap64) -> Positions:
    """Return the positions in ascending order."""
    return np.asarray(rows.to_array(), dtype=np.int64)


def physical_rows(file: AddFile | RemoveFile) -> int | None:
    """Return the claimed rows of the data file, deleted ones included; None without a claim."""
    return read_claimed_rows(file.stats)


def live_rows(file: AddFile | RemoveFile) -> int | None:
    """Return the live rows by the log's count; None without a plausible count."""
    rows = physical_rows(file)
    if rows is None or file.deletion_vector is None:
        return rows
    left = rows - file.deletion_vector.cardinality
    return left if left >= 0 else None


class BudgetSpentError(EngineError, code="LAKE_ROW_BUDGET_SPENT", sqlstate="57014"):
    """Row-level conflict resolution took longer than one commit may."""


class Budget:
    """A stopwatch that runs only while rows are compared.

    `seconds` is the limit for the whole commit.
    """

    def __init__(self, clock: Clock, seconds: float) -> None:
        self._clock, self._left_s, self.seconds = clock, seconds, seconds
        self._since: float | None = None

    @contextmanager
    def measure(self) -> Iterator[None]:
        """Run the stopwatch during the block."""
        self._since = self._clock.monotonic_s()
        try:
            yield
        finally:
            self._left_s -= self._clock.monotonic_s() - self._since
            self._since = None

    def check(self) -> None:
        """Raise `BudgetSpentError` if no time is left."""
        spent = 0.0 if self._since is None else self._clock.monotonic_s() - self._since
        if spent >= self._left_s:
            what = (
                "The rows of the two writes could not be compared within the time limit of a "
                "commit."
            )
            raise BudgetSpentError(what)
