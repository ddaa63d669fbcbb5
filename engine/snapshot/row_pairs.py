"""Two sets of rows of the same columns, paired: equal rows, and rows of equal keys."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from engine.snapshot.row_numbers import occurrences, row_numbers, value_numbers


def remove_common_rows(removed: pa.Table, added: pa.Table) -> tuple[pa.Table, pa.Table]:
    """Remove the rows common to both sides, once for each occurrence in both."""
    if not removed.num_rows or not added.num_rows:
        return removed, added
    numbers = row_numbers(pa.concat_tables([removed, added]))
    old, new = numbers[: removed.num_rows], numbers[removed.num_rows :]
    counts = numbers.max() + 1
    in_old, in_new = np.bincount(old, minlength=counts), np.bincount(new, minlength=counts)
    kept_old, kept_new = occurrences(old) >= in_new[old], occurrences(new) >= in_old[new]
    return removed.filter(pa.array(kept_old)), added.filter(pa.array(kept_new))


def pair_by_keys(
    removed: pa.Table, added: pa.Table, keys: Sequence[str]
) -> tuple[pa.Table, pa.Table, pa.Table, pa.Table, bool]:
    """Pair removed and added rows with equal keys into changed rows, in order of occurrence.

    Returns:
        The remaining removed and added rows, the changed rows before and after, and whether a key
        occurs twice.
    """
    both = pa.concat_tables([removed.select(keys), added.select(keys)])
    numbers = row_numbers(both)
    old, new = numbers[: removed.num_rows], numbers[removed.num_rows :]
    old_rank, new_rank = occurrences(old), occurrences(new)
    repeated = bool(old_rank.any() or new_rank.any())
    width = max(removed.num_rows, added.num_rows, 1)
    _, of_old, of_new = np.intersect1d(
        old * width + old_rank, new * width + new_rank, assume_unique=True, return_indices=True
    )
    return (
        removed.filter(_all_but(of_old, removed.num_rows)),
        added.filter(_all_but(of_new, added.num_rows)),
        removed.take(pa.array(of_old)),
        added.take(pa.array(of_new)),
        repeated,
    )


def _all_but(places: np.ndarray, count: int) -> pa.Array:
    kept = np.ones(count, dtype=bool)
    kept[places] = False
    return pa.array(kept)


def find_changed_cells(before: pa.Table, after: pa.Table) -> list[np.ndarray]:
    """Return for each column a mask of the rows with a changed value."""
    cells = []
    for old, new in zip(before.columns, after.columns, strict=True):
        numbers = value_numbers(pa.chunked_array([*old.chunks, *new.chunks], old.type))
        cells.append(numbers[: len(old)] != numbers[len(old) :])
    return cells
