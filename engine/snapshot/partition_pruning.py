"""Which files lie in partitions that a condition cannot match, a million at a time.

Partitions are numbered by column operations; the condition is asked once for each distinct one.
"""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engine.expressions.traits import columns_of
from engine.expressions.tree import Expression
from engine.schema.column_mapping import physical_name
from engine.schema.partition_values import check_spelling
from engine.schema.types import StructType
from engine.snapshot.data_skipping import FileFacts, Skipper


def prune_partitions(
    files: pa.Table,
    condition: Expression,
    schema: StructType,
    partition_columns: Sequence[str],
    mode: str,
) -> pa.Table:
    """The files whose partition may match the condition."""
    fields = [named for name in partition_columns if (named := schema.get(name)) is not None]
    touched = {path[0].lower() for path in columns_of(condition)}
    if files.num_rows == 0 or not touched & {field.name.lower() for field in fields}:
        return files
    keys = [physical_name(field, mode) for field in fields]
    columns = [_values_of(files.column("partition_values"), key) for key in keys]
    samples, partition_of = _numbered(columns)
    sampled = [column.take(samples).to_pylist() for column in columns]
    facts = [
        FileFacts(dict(zip(keys, values, strict=True)), None)
        for values in zip(*sampled, strict=True)
    ]
    verdicts = Skipper(condition, schema, partition_columns).may_match_each(facts)
    return files if all(verdicts) else files.filter(pa.array(np.array(verdicts)[partition_of]))


def is_on_partitions_alone(condition: Expression, partition_columns: Sequence[str]) -> bool:
    """Whether a condition looks at nothing but partition columns."""
    names = {name.lower() for name in partition_columns}
    paths = columns_of(condition)
    return bool(paths) and all(path[0].lower() in names for path in paths)


def _values_of(column: pa.ChunkedArray, key: str) -> pa.ChunkedArray:
    """The value that each map has for a key."""
    chunks = [_lookup(chunk, key) for chunk in column.chunks]
    return pa.chunked_array(chunks, type=column.type.item_type)


def _lookup(maps: pa.MapArray, key: str) -> pa.Array:
    """Where every map holds the key once, as in a sound log, its places are found a column at a time."""
    offsets = maps.offsets.to_numpy()
    keys = maps.keys.slice(offsets[0], offsets[-1] - offsets[0])
    hits = np.flatnonzero(pc.equal(keys, key).to_numpy(zero_copy_only=False)) + offsets[0]
    if len(hits) == len(maps) and np.all(hits >= offsets[:-1]) and np.all(hits < offsets[1:]):
        return maps.items.take(pa.array(hits))
    check_spelling(pc.unique(keys).to_pylist(), key)
    return pc.map_lookup(maps, key, "first")


def _numbered(columns: Sequence[pa.ChunkedArray]) -> tuple[np.ndarray, np.ndarray]:
    """A row of each distinct combination, and the number of the combination of every row."""
    samples = np.zeros(1, dtype=np.int64)
    numbers = np.zeros(len(columns[0]), dtype=np.int64)
    for column in columns:
        encoded = column.combine_chunks().dictionary_encode()
        base = len(encoded.dictionary) + 1
        codes = pc.fill_null(encoded.indices, base - 1).to_numpy(zero_copy_only=False)
        samples, numbers = _dense(numbers * base + codes, len(samples) * base)
    return samples, numbers


def _dense(mixed: np.ndarray, bound: int) -> tuple[np.ndarray, np.ndarray]:
    """A place of each number below a bound that occurs, and all of them renumbered without gaps."""
    if bound > 2 * len(mixed):
        _, samples, numbers = np.unique(mixed, return_index=True, return_inverse=True)
        return samples, numbers
    place = np.full(bound, -1, dtype=np.int64)
    place[mixed] = np.arange(len(mixed))
    present = np.flatnonzero(place >= 0)
    renumbered = np.zeros(bound, dtype=np.int64)
    renumbered[present] = np.arange(len(present))
    return place[present], renumbered[mixed]
