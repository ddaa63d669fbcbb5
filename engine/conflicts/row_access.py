"""Row access for conflict resolution: an interface that keeps all code above it free of I/O."""

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
