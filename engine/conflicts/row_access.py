"""How conflict resolution reads rows: an interface, so that everything above it stays free of I/O."""

from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from pyroaring import BitMap64

from engine.actions.deletion_vector import DeletionVectorDescriptor
from engine.actions.files import AddFile
from engine.conflicts.transaction_info import ReadPredicate

Positions = NDArray[np.int64]
NO_ROWS = BitMap64()


class RowAccess(Protocol):
    """Reads deletion vectors, row ids, and which rows a read of this transaction selects.

    Every method may raise `EngineError`: the rows are then unknown, and files decide. Each also
    keeps the time: past the budget it raises `BudgetSpentError`.
    """

    def vector(self, descriptor: DeletionVectorDescriptor | None) -> BitMap64:
        """The rows that a deletion vector deletes, none where there is no vector."""
        ...

    def row_count(self, path: str) -> int:
        """Return the physical rows of a file: as it proves them, whatever the log claims."""
        ...

    def select_rows(self, read: ReadPredicate, file: AddFile, among: BitMap64) -> BitMap64:
        """The rows, of these physical positions in a file, that one read of this transaction selects."""
        ...

    def row_ids(self, file: AddFile) -> Positions | None:
        """The stable id of every physical row, None where the table has none."""
        ...


def all_rows(count: int) -> BitMap64:
    """The positions of a file with so many rows."""
    rows = BitMap64()
    if count:
        rows.add_range(0, count)
    return rows


def positions(rows: BitMap64) -> Positions:
    """The positions, ascending."""
    return np.asarray(rows.to_array(), dtype=np.int64)
