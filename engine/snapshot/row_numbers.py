"""Row numbers: equal rows, and only these, have equal numbers.

Equality is that of grouping: null equals null, NaN itself, and 0.0 equals -0.0. Nested values are
equal if their parts are, maps if they hold the same entries in the same order.
"""

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


def normalise_floats(array: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """Normalize zeros and NaNs as Spark groups them; Arrow compares their bits."""
    if not pa.types.is_floating(array.type):
        return array
    nan = pa.scalar(float("nan"), array.type)
    return pc.if_else(pc.is_nan(array), nan, pc.add(array, pa.scalar(0.0, array.type)))


def _encode_values(array: pa.Array | pa.ChunkedArray) -> np.ndarray:
    encoded = normalise_floats(array).dictionary_encode()
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
