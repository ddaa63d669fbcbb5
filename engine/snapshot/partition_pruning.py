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
from engine.schema.types import StructType
from engine.snapshot.data_skipping import may_match


def prune_partitions(
    files: pa.Table,
    condition: Expression,
    schema: StructType,
    partition_columns: Sequence[str],
    mode: str,
) -> pa.Table:
    """The files whose partition may match the condition."""
    fields = [each for name in partition_columns if (each := schema.get(name)) is not None]
    touched = {path[0].lower() for path in columns_of(condition)}
    if files.num_rows == 0 or not touched & {each.name.lower() for each in fields}:
        return files
    keys = [physical_name(each, mode) for each in fields]
    columns = [_values_of(files.column("partition_values"), key) for key in keys]
    samples, partition_of = _numbered(columns)
    verdicts = []
    for row in samples.tolist():
        values = {key: column[row].as_py() for key, column in zip(keys, columns, strict=True)}
        verdicts.append(may_match(condition, values, None, schema, partition_columns))
    return files if all(verdicts) else files.filter(pa.array(np.array(verdicts)[partition_of]))


def is_on_partitions_alone(condition: Expression, partition_columns: Sequence[str]) -> bool:
    """Whether a condition looks at nothing but partition columns."""
    names = {name.lower() for name in partition_columns}
    found = columns_of(condition)
    return bool(found) and all(path[0].lower() in names for path in found)


def _values_of(column: pa.ChunkedArray, key: str) -> pa.ChunkedArray:
    """The value that each map has for a key."""
    chunks = [_lookup(each, key) for each in column.chunks]
    return pa.chunked_array(chunks, type=column.type.item_type)


def _lookup(maps: pa.MapArray, key: str) -> pa.Array:
    """Where every map holds the key once, as in a sound log, its places are found a column at a time."""
    offsets = maps.offsets.to_numpy()
    keys = maps.keys.slice(offsets[0], offsets[-1] - offsets[0])
    hits = np.flatnonzero(pc.equal(keys, key).to_numpy(zero_copy_only=False)) + offsets[0]
    if len(hits) == len(maps) and np.all(hits >= offsets[:-1]) and np.all(hits < offsets[1:]):
        return maps.items.take(pa.array(hits))
    return pc.map_lookup(maps, key, "first")


def _numbered(columns: Sequence[pa.ChunkedArray]) -> tuple[np.ndarray, np.ndarray]:
    """A row of each distinct combination, and the number of the combination of every row."""
    samples = np.zeros(1, dtype=np.int64)
    numbers = np.zeros(len(columns[0]), dtype=np.int64)
    for column in columns:
        encoded = column.combine_chunks().dictionary_encode()
        codes = pc.fill_null(encoded.indices, len(encoded.dictionary)).to_numpy(
            zero_copy_only=False
        )
        mixed = numbers * (len(encoded.dictionary) + 1) + codes
        _, samples, numbers = np.unique(mixed, return_index=True, return_inverse=True)
    return samples, numbers
