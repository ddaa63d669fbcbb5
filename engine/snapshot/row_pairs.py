"""Two sets of rows of the same columns, paired: equal rows, and rows of equal keys.

Equality is that of grouping: null equals null, NaN itself, and 0.0 equals -0.0. Nested values are
equal if their parts are, maps if they hold the same entries in the same order. Rows are numbered so
that equal rows, and only these, have equal numbers.
"""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


def row_numbers(rows: pa.Table) -> np.ndarray:
    """Assign numbers from 0 without gaps to rows; equal rows share a number."""
    numbers, count = np.zeros(rows.num_rows, dtype=np.int64), 1
    for column in rows.columns:
        if count >= rows.num_rows:  # all rows are distinct
            break
        numbers, count = _together(numbers, value_numbers(column))
    return numbers


def value_numbers(column: pa.ChunkedArray | pa.Array) -> np.ndarray:
    """Assign numbers to the values of a column of any type; equal values share a number."""
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    kind = array.type
    if not pa.types.is_nested(kind) or isinstance(array, pa.ChunkedArray):
        return _encode_values(array)  # still chunked if one chunk cannot hold the bytes
    if pa.types.is_struct(kind):
        return _number_structs(array, array.flatten())
    if pa.types.is_map(kind):
        entries, _ = _together(value_numbers(array.keys), value_numbers(array.items))
        return _number_lists(array, entries)
    return _number_lists(array, value_numbers(array.values))


def occurrences(numbers: np.ndarray) -> np.ndarray:
    """Return the number of equal numbers before each."""
    order = np.argsort(numbers, kind="stable")
    ranked = numbers[order]
    starts = np.flatnonzero(np.r_[True, ranked[1:] != ranked[:-1]]) if len(ranked) else ranked
    ranks = np.empty(len(numbers), dtype=np.int64)
    ranks[order] = np.arange(len(numbers)) - np.repeat(starts, np.diff(np.r_[starts, len(ranked)]))
    return ranks


def normalize_floats(array: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """Normalize zeros and NaNs as Spark groups them; Arrow compares their bits."""
    if not pa.types.is_floating(array.type):
        return array
    nan = pa.scalar(float("nan"), array.type)
    return pc.if_else(pc.is_nan(array), nan, pc.add(array, pa.scalar(0.0, array.type)))


def _encode_values(array: pa.Array | pa.ChunkedArray) -> np.ndarray:
    encoded = normalize_floats(array).dictionary_encode()
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.unify_dictionaries()
        indices = pa.chunked_array([chunk.indices for chunk in encoded.chunks], pa.int32())
    else:
        indices = encoded.indices
    places = pc.fill_null(indices, -1).to_numpy(zero_copy_only=False)
    return np.asarray(places, dtype=np.int64) + 1


def _number_structs(array: pa.StructArray, parts: list[pa.Array]) -> np.ndarray:
    valid = array.is_valid().to_numpy(zero_copy_only=False)
    numbers = np.asarray(valid, dtype=np.int64)
    for part in parts:
        numbers, _ = _together(numbers, value_numbers(part))
    return numbers


def _number_lists(array: pa.ListArray | pa.MapArray, elements: np.ndarray) -> np.ndarray:
    """Assign numbers to lists by the sequence of their elements' numbers."""
    offsets = array.offsets.to_numpy()
    valid = array.is_valid().to_numpy(zero_copy_only=False)
    spans = zip(offsets[:-1], offsets[1:], valid, strict=True)
    held = [elements[start:stop].tobytes() if there else None for start, stop, there in spans]
    return _encode_values(pa.array(held, pa.large_binary()))


def _together(numbers: np.ndarray, others: np.ndarray) -> tuple[np.ndarray, int]:
    """Assign numbers to the distinct pairs; return them and how many there are."""
    if not len(numbers):
        return numbers, 0
    mixed = numbers * (int(others.max()) + 1) + others
    distinct, together = np.unique(mixed, return_inverse=True)
    return together.astype(np.int64), len(distinct)


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
