"""Scans: from a condition to files, and from files to rows.

Partitions are numbered by column operations, a million files at a time; the condition is evaluated
once per distinct partition.

The most common conditions compare a column with constants: `column = 5`, `name < 'x'`, `day IN
(…)`. For these, statistics of a million files are decoded for the compared columns only and
compared in one pass. All other conditions are left to `engine.snapshot.data_skipping`.
"""

import os
import re
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import date
from functools import lru_cache
from typing import Any, Protocol

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engine.actions.files import AddFile
from engine.errors import CannotEvaluateError, RequestError, UnknownColumnError
from engine.expressions.evaluate import find_matches
from engine.expressions.possible_values import may_be_cut
from engine.expressions.traits import columns_of, conjunction, split_conjuncts
from engine.expressions.tree import Call, Column, Expression, Literal
from engine.expressions.types import INTEGRALS
from engine.log.file_table import adds_of
from engine.log.replay import TableState
from engine.schema.arrow import check_supported
from engine.schema.column_mapping import physical_name
from engine.schema.partition_values import check_spelling
from engine.schema.types import DATE, STRING, DataType, StructType
from engine.snapshot.conform import target_type
from engine.snapshot.data_skipping import FileFacts, Skipper, can_be_decoded
from engine.snapshot.data_skipping import prune as may_match_each
from engine.snapshot.reader import TableShape, iter_file, read_file

_MIRRORED = {"=": "=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_ISO_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_MAY_HOLD: dict[str, Callable[[Any, Any, Any], bool]] = {
    "=": lambda low, high, value: low <= value and (high is None or value <= high),
    "<": lambda low, _, value: low < value,
    "<=": lambda low, _, value: low <= value,
    ">": lambda _, high, value: high is None or high > value,
    ">=": lambda _, high, value: high is None or high >= value,
}


@dataclass(frozen=True, slots=True)
class ColumnComparison:
    """A column against one value, or several for IN. Dates are ISO texts, as in statistics."""

    name: str  # physical
    kind: DataType
    operator: str
    values: tuple[Any, ...]

    def may_hold(self, low: Any, high: Any) -> bool:  # noqa: ANN401 - JSON
        """Return whether the comparison can be true for a value between two bounds of statistics."""
        low, high = self._check_bound(low), self._check_bound(high)
        if low is None or high is None or low > high:
            return True
        if self.kind == STRING and may_be_cut(high):
            high = None
        test = _MAY_HOLD[self.operator]
        return any(test(low, high, value) for value in self.values)

    def _check_bound(self, value: Any) -> Any:  # noqa: ANN401 - JSON
        """Return the bound if it is a value of the column's type, else None."""
        if self.kind in INTEGRALS:
            return value if type(value) is int else None
        if not isinstance(value, str):
            return None
        return value if self.kind == STRING or _ISO_DATE.fullmatch(value) else None


def parse_comparison(
    condition: Expression, schema: StructType, mode: str
) -> ColumnComparison | None:
    """Parse a condition as a simple comparison; return None if it is anything else."""
    if not isinstance(condition, Call):
        return None
    if condition.function == "in":
        return _build_comparison(condition.arguments[0], "=", condition.arguments[1:], schema, mode)
    if condition.function not in _MIRRORED:
        return None
    left, right = condition.arguments
    if isinstance(left, Literal):
        return _build_comparison(right, _MIRRORED[condition.function], (left,), schema, mode)
    return _build_comparison(left, condition.function, (right,), schema, mode)


def prune_by(files: pa.Table, comparisons: Sequence[ColumnComparison]) -> pa.Table:
    """Return the files whose statistics allow every comparison to be true."""
    names = list(dict.fromkeys(comparison.name for comparison in comparisons))
    decode = _decoder(tuple(names))
    placed = [(f"f{names.index(comparison.name)}", comparison) for comparison in comparisons]
    keep = np.ones(files.num_rows, dtype=bool)
    texts = (text for chunk in files.column("stats").chunks for text in chunk.to_pylist())
    masked = files.column("deletion_vector").is_valid().to_numpy()
    for row, text in enumerate(texts):
        if text is None:
            continue
        try:
            stats = decode(text)
        except (msgspec.MsgspecError, RecursionError, UnicodeError):
            continue
        keep[row] = _all_possible(stats, placed, has_vector=bool(masked[row]))
    return files if keep.all() else files.filter(pa.array(keep))


def _all_possible(
    stats: Any,  # noqa: ANN401 - generated
    comparisons: Sequence[tuple[str, ColumnComparison]],
    *,
    has_vector: bool,
) -> bool:
    """Return whether statistics allow every comparison to be true.

    With a vector, some writers count only the live rows in `numRecords`, but the nulls of all.
    """
    row_count = None if has_vector else stats.numRecords
    lows, highs, nulls = stats.minValues, stats.maxValues, stats.nullCount
    for field, comparison in comparisons:
        low = None if lows is None else getattr(lows, field)
        high = None if highs is None else getattr(highs, field)
        if nulls is not None and low is None and high is None and row_count is not None:
            count = getattr(nulls, field)
            if type(count) is int and 0 < count == row_count:
                return False  # no comparison with null is true
        if not comparison.may_hold(low, high):
            return False
    return True


@lru_cache(maxsize=64)
def _decoder(names: tuple[str, ...]) -> Callable[[str], Any]:
    """Return a decoder for the statistics of the compared columns, skipping all others."""
    fields = [(f"f{place}", Any, None) for place in range(len(names))]
    bounds = msgspec.defstruct(
        "_Bounds", fields, rename=dict(zip((f[0] for f in fields), names, strict=True))
    )
    stats = msgspec.defstruct(
        "_Stats",
        [
            ("numRecords", int | None, None),
            ("minValues", bounds | None, None),
            ("maxValues", bounds | None, None),
            ("nullCount", bounds | None, None),
        ],
    )
    return msgspec.json.Decoder(stats).decode


def _build_comparison(
    column: Expression, operator: str, values: Sequence[Expression], schema: StructType, mode: str
) -> ColumnComparison | None:
    if not isinstance(column, Column) or len(column.path) != 1 or column.relation:
        return None
    field = schema.get(column.path[0])
    if field is None or "__COLLATIONS" in field.metadata:
        return None
    constants = tuple(_constant(value, field.type) for value in values)
    if not constants or any(constant is None for constant in constants):
        return None
    name = physical_name(field, mode)
    return ColumnComparison(name, field.type, operator, constants) if can_be_decoded(name) else None


def _constant(expression: Expression, kind: DataType) -> int | str | None:
    """Convert a constant to its form in statistics; return None if its type is not the column's."""
    if not isinstance(expression, Literal) or expression.value is None:
        return None
    value = expression.value
    if kind in INTEGRALS and expression.type in INTEGRALS:
        return value if type(value) is int else None
    if kind == STRING and expression.type == STRING:
        return str(value)
    if kind == DATE and expression.type == DATE and isinstance(value, date):
        return value.isoformat()
    return None


_LIMITED_BATCH_ROWS = 16_384
_THREADS = min(8, 2 * (os.cpu_count() or 1))


class Scannable(TableShape, Protocol):
    """A table's shape with its live files; a snapshot is one."""

    @property
    def state(self) -> TableState:
        """The replayed log."""
        ...


def prune(table: Scannable, files: pa.Table, condition: Expression | None) -> pa.Table:
    """Return the files possibly holding rows that match; the others provably hold none."""
    if condition is None:
        return files
    left = prune_partitions(
        files, condition, table.schema, table.partition_columns, table.mapping_mode
    )
    rest = [
        part
        for part in split_conjuncts(condition)
        if not is_on_partitions_alone(part, table.partition_columns)
    ]
    return _prune_by_statistics(table, left, rest)


def _prune_by_statistics(
    table: Scannable, files: pa.Table, conjuncts: Sequence[Expression]
) -> pa.Table:
    """Prune by comparisons with constants first, which is fast; then by the remaining conjuncts."""
    simple, others = [], []
    for part in conjuncts:
        comparison = parse_comparison(part, table.schema, table.mapping_mode)
        if comparison is None:
            others.append(part)
        else:
            simple.append(comparison)
    left = prune_by(files, simple) if simple else files
    if not others or left.num_rows == 0:
        return left
    kept = may_match_each(
        left, conjunction(others), table.schema, table.partition_columns, table.mapping_mode
    )
    return left.filter(kept)


def scan(
    table: Scannable,
    condition: Expression | None,
    *,
    columns: Sequence[str] | None = None,
    limit: int | None = None,
) -> pa.Table:
    """Read the rows of a table matching a condition, in the order of its files.

    Raises:
        UnknownColumnError: the schema has no such column.
        RequestError: the limit is negative.
        UnsupportedTypeError: a column has a type only other engines support.
    """
    if limit is not None and limit < 0:
        msg = f"A limit of {limit} rows is not possible."
        raise RequestError(msg, "Use 0 or more.", field="limit")
    names = _column_names(table.schema, columns)
    parts = list(iter_scan(table, condition, names, limit))
    empty = _empty(table.schema, names)
    return pa.concat_tables([empty, *parts]) if names or not parts else pa.concat_tables(parts)


def iter_scan(
    table: Scannable,
    condition: Expression | None,
    columns: Sequence[str],
    limit: int | None,
    batch_bytes: int | None = None,
) -> Iterator[pa.Table]:
    """Yield the rows of a table matching a condition, in batches of up to `batch_bytes`.

    Raises:
        UnknownColumnError: the schema has no such column.
        CellLimitError: a row exceeds `batch_bytes`.
        UnsupportedTypeError: a column has a type only other engines support.
    """
    names = _column_names(table.schema, columns)
    needed = list(names)
    if condition is not None:
        needed += [path[0] for path in columns_of(condition) if path[0] not in needed]
    check_supported(column for column in table.schema if column.name in needed)
    adds = adds_of(prune(table, table.state.files, condition))
    missing = limit
    for rows in _read(table, adds, needed, limited=limit is not None, batch_bytes=batch_bytes):
        matching = rows if condition is None else _filter(rows, condition)
        part = matching.select(names)[:missing]
        yield part
        if missing is not None:
            missing -= part.num_rows
            if missing <= 0:
                break


def _filter(rows: pa.Table, condition: Expression) -> pa.Table:
    try:
        return rows.filter(find_matches(condition, rows))
    except CannotEvaluateError as error:
        remedy = "Remove that part of the condition, or read the table with Spark."
        raise CannotEvaluateError(error.what, remedy) from error


def _read(
    table: Scannable,
    adds: list[AddFile],
    columns: list[str],
    *,
    limited: bool,
    batch_bytes: int | None,
) -> Iterator[pa.Table]:
    """Read files in turn: in small batches under a limit, else several whole files at a time."""
    if limited:
        for add in adds:
            yield from iter_file(
                table, add, columns, batch_rows=_LIMITED_BATCH_ROWS, batch_bytes=batch_bytes
            )
    elif len(adds) < 2:
        yield from (read_file(table, add, columns) for add in adds)
    else:
        with ThreadPoolExecutor(_THREADS) as pool:
            yield from pool.map(lambda add: read_file(table, add, columns), adds)


def _column_names(schema: StructType, columns: Sequence[str] | None) -> list[str]:
    if columns is None:
        return schema.names
    names = []
    for name in columns:
        column = schema.get(name)
        if column is None:
            msg = f"The table has no column {name}."
            raise UnknownColumnError(
                msg, f"It has {', '.join(schema.names[:20])}.", field="columns"
            )
        names.append(column.name)
    return names


def _empty(schema: StructType, names: list[str]) -> pa.Table:
    fields = [column for name in names if (column := schema.get(name)) is not None]
    return pa.schema(
        [pa.field(field.name, target_type(field.type)) for field in fields]
    ).empty_table()


def prune_partitions(
    files: pa.Table,
    condition: Expression,
    schema: StructType,
    partition_columns: Sequence[str],
    mode: str,
) -> pa.Table:
    """Return the files whose partition values may match the condition."""
    fields = [named for name in partition_columns if (named := schema.get(name)) is not None]
    touched = {path[0].lower() for path in columns_of(condition)}
    if files.num_rows == 0 or not touched & {field.name.lower() for field in fields}:
        return files
    keys = [physical_name(field, mode) for field in fields]
    columns = [_values_of(files.column("partition_values"), key) for key in keys]
    samples, partition_of = _number_combinations(columns)
    sampled = [column.take(samples).to_pylist() for column in columns]
    facts = [
        FileFacts(dict(zip(keys, values, strict=True)), None)
        for values in zip(*sampled, strict=True)
    ]
    verdicts = Skipper(condition, schema, partition_columns, mode).may_match_each(facts)
    return files if all(verdicts) else files.filter(pa.array(np.array(verdicts)[partition_of]))


def is_on_partitions_alone(condition: Expression, partition_columns: Sequence[str]) -> bool:
    """Return whether a condition names only partition columns."""
    names = {name.lower() for name in partition_columns}
    paths = columns_of(condition)
    return bool(paths) and all(path[0].lower() in names for path in paths)


def _values_of(column: pa.ChunkedArray, key: str) -> pa.ChunkedArray:
    """Look up a key in each map."""
    chunks = [_lookup(chunk, key) for chunk in column.chunks]
    return pa.chunked_array(chunks, type=column.type.item_type)


def _lookup(maps: pa.MapArray, key: str) -> pa.Array:
    """Look up a key in each map, by column operations if every map has the key once."""
    offsets = maps.offsets.to_numpy()
    keys = maps.keys.slice(offsets[0], offsets[-1] - offsets[0])
    hits = np.flatnonzero(pc.equal(keys, key).to_numpy(zero_copy_only=False)) + offsets[0]
    if len(hits) == len(maps) and np.all(hits >= offsets[:-1]) and np.all(hits < offsets[1:]):
        return maps.items.take(pa.array(hits))
    check_spelling(pc.unique(keys).to_pylist(), key)
    return pc.map_lookup(maps, key, "first")


def _number_combinations(columns: Sequence[pa.ChunkedArray]) -> tuple[np.ndarray, np.ndarray]:
    """Return one row per distinct combination, and the combination number of every row."""
    samples = np.zeros(1, dtype=np.int64)
    numbers = np.zeros(len(columns[0]), dtype=np.int64)
    for column in columns:
        encoded = column.combine_chunks().dictionary_encode()
        base = len(encoded.dictionary) + 1
        codes = pc.fill_null(encoded.indices, base - 1).to_numpy(zero_copy_only=False)
        samples, numbers = _dense(numbers * base + codes, len(samples) * base)
    return samples, numbers


def _dense(mixed: np.ndarray, bound: int) -> tuple[np.ndarray, np.ndarray]:
    """Renumber without gaps; return one index for each number, and the new numbers."""
    if bound > 2 * len(mixed):
        _, samples, numbers = np.unique(mixed, return_index=True, return_inverse=True)
        return samples, numbers
    place = np.full(bound, -1, dtype=np.int64)
    place[mixed] = np.arange(len(mixed))
    present = np.flatnonzero(place >= 0)
    renumbered = np.zeros(bound, dtype=np.int64)
    renumbered[present] = np.arange(len(present))
    return place[present], renumbered[mixed]
