"""From a condition to files, and from files to rows."""

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

import pyarrow as pa

from engine.actions.files import AddFile
from engine.errors import RequestError, UnknownColumnError
from engine.expressions.evaluate import matching_rows
from engine.expressions.traits import columns_of, conjunction, split_conjuncts
from engine.expressions.tree import Expression
from engine.log.file_table import adds_of
from engine.log.replay import TableState
from engine.schema.types import StructType
from engine.snapshot.conform import target_type
from engine.snapshot.data_skipping import prune as may_match_each
from engine.snapshot.partition_pruning import is_on_partitions_alone, prune_partitions
from engine.snapshot.reader import TableShape, iter_file, read_file
from engine.snapshot.simple_comparisons import as_comparison, prune_by

_LIMITED_BATCH_ROWS = 16_384
_THREADS = min(8, 2 * (os.cpu_count() or 1))


class Scannable(TableShape, Protocol):
    """A table's shape with its live files; a snapshot is one."""

    @property
    def state(self) -> TableState:
        """The replayed log."""
        ...


def prune(table: Scannable, files: pa.Table, condition: Expression | None) -> pa.Table:
    """The files that may hold rows a condition matches: what is left out is proved to hold none."""
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
    """Comparisons with constants first, since they are quick; then what is left to ask."""
    simple, others = [], []
    for part in conjuncts:
        comparison = as_comparison(part, table.schema, table.mapping_mode)
        if comparison is None:
            others.append(part)
        else:
            simple.append(comparison)
    left = prune_by(files, simple) if simple else files
    if not others or left.num_rows == 0:
        return left
    kept = may_match_each(left, conjunction(others), table.schema, table.partition_columns)
    return left.filter(kept)


def scan(
    table: Scannable,
    condition: Expression | None,
    *,
    columns: Sequence[str] | None = None,
    limit: int | None = None,
) -> pa.Table:
    """The rows of a table that a condition matches, in the order of its files.

    Raises:
        UnknownColumnError: the schema has no such column.
        RequestError: the limit is negative.
    """
    if limit is not None and limit < 0:
        msg = f"A limit of {limit} rows cannot be."
        raise RequestError(msg, "Use 0 or more.", field="limit")
    names = _column_names(table.schema, columns)
    needed = list(names)
    if condition is not None:
        needed += [path[0] for path in columns_of(condition) if path[0] not in needed]
    adds = adds_of(prune(table, table.state.files, condition))
    parts: list[pa.Table] = []
    missing = limit
    for rows in _read(table, adds, needed, limited=limit is not None):
        matching = rows if condition is None else rows.filter(matching_rows(condition, rows))
        parts.append(matching.select(names)[:missing])
        if missing is not None:
            missing -= parts[-1].num_rows
            if missing <= 0:
                break
    empty = _empty(table.schema, names)
    return pa.concat_tables([empty, *parts]) if names or not parts else pa.concat_tables(parts)


def _read(
    table: Scannable, adds: list[AddFile], columns: list[str], *, limited: bool
) -> Iterator[pa.Table]:
    """Files in turn: in small batches if a limit may end it, else several whole ones at a time."""
    if limited:
        for add in adds:
            yield from iter_file(table, add, columns, batch_rows=_LIMITED_BATCH_ROWS)
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
