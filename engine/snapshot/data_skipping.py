"""Which files cannot hold a row that a condition wants: by partition values and statistics.

`may_match` answers False only as proof. Partition values are exact; statistics are bounds that
may be missing, cut, or rounded, and never rule out NaN.
"""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any

import numpy as np
import pyarrow as pa

from engine.actions.files import AddFile
from engine.errors import MalformedLogError
from engine.expressions.literals import parse_date, parse_timestamp
from engine.expressions.possible import NULL, UNKNOWN, Range, after_prefix, constant, possible
from engine.expressions.traits import columns_of, conjunction, is_deterministic, split_conjuncts
from engine.expressions.tree import TRUE, Column, Expression
from engine.expressions.types import FLOATS, INTEGRALS
from engine.schema.column_mapping import PHYSICAL_NAME_KEY
from engine.schema.partition_values import parse_partition_value
from engine.schema.types import (
    BOOLEAN,
    DATE,
    FLOAT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    DataType,
    DecimalType,
    StructType,
)

_CUT_LENGTH = 32
_EXACT_DIGITS = 15
_ROUNDING = Decimal("4e-16")
_MILLISECOND = timedelta(milliseconds=1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def may_match(
    expression: Expression,
    partition_values: Mapping[str, str | None],
    stats: Mapping[str, Any] | None,
    schema: StructType,
    partition_columns: Collection[str],
) -> bool:
    """Whether a file may hold a row for which the condition is true. False is proof.

    Args:
        expression: a condition over `schema`'s logical columns.
        partition_values: as in the log, by physical name.
        stats: the file's statistics as parsed JSON, by physical name.
        schema: the table's.
        partition_columns: their logical names.
    """
    condition = deterministic_part(expression)
    return possible(condition, _FileBounds(partition_values, stats, schema, partition_columns)).true


def add_may_match(
    expression: Expression,
    add: AddFile,
    schema: StructType,
    partition_columns: Collection[str],
) -> bool:
    """`may_match` of an add; its statistics are parsed only if its partition does not decide."""
    condition = deterministic_part(expression)
    values = add.partition_values or {}
    if not possible(condition, _FileBounds(values, None, schema, partition_columns)).true:
        return False
    stats = parse_stats(add.stats)
    if stats is None:
        return True
    return possible(condition, _FileBounds(values, stats, schema, partition_columns)).true


def prune(
    files: pa.Table,
    expression: Expression,
    schema: StructType,
    partition_columns: Collection[str],
) -> pa.BooleanArray:
    """`may_match` for each row of a table of files (`partition_values`, `stats`).

    Each distinct partition is tested once; statistics are parsed only for what is left.
    """
    condition = deterministic_part(expression)
    if condition == TRUE or files.num_rows == 0:
        return pa.repeat(pa.scalar(True), files.num_rows)
    return pa.array(_iter_matches(files, condition, schema, partition_columns), pa.bool_())


def _iter_matches(
    files: pa.Table, condition: Expression, schema: StructType, partition_columns: Collection[str]
) -> Iterator[bool]:
    by_partition: dict[tuple[Any, ...], bool] = {}
    names = {name.lower() for name in partition_columns}
    on_data = any(path[0].lower() not in names for path in columns_of(condition))
    for row, text in zip(
        files["partition_values"].to_pylist(), files["stats"].to_pylist(), strict=True
    ):
        values = dict(row or ())
        key = tuple(sorted(values.items()))
        if key not in by_partition:
            bounds = _FileBounds(values, None, schema, partition_columns)
            by_partition[key] = possible(condition, bounds).true
        if not by_partition[key] or not on_data:
            yield by_partition[key]
            continue
        stats = parse_stats(text)
        bounds = _FileBounds(values, stats, schema, partition_columns)
        yield stats is None or possible(condition, bounds).true


def parse_stats(text: str | None) -> dict[str, Any] | None:
    """Statistics as parsed JSON, numbers exact; None where there are none or they are no object."""
    if not text or text == "null":
        return None
    try:
        found = json.loads(text, parse_float=Decimal)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def deterministic_part(expression: Expression) -> Expression:
    """The condition without the conjuncts that may differ each time they are evaluated."""
    return conjunction(each for each in split_conjuncts(expression) if is_deterministic(each))


@dataclass(frozen=True, slots=True)
class _FileBounds:
    """What one file says of its columns."""

    partition_values: Mapping[str, str | None]
    stats: Mapping[str, Any] | None
    schema: StructType
    partition_columns: Collection[str]

    def __call__(self, column: Column) -> Range:
        path = _physical_path(self.schema, column.path)
        if path is None:
            return UNKNOWN
        if column.path[0].lower() in {name.lower() for name in self.partition_columns}:
            return self._partition(path, column.type)
        return UNKNOWN if self.stats is None else self._statistics(path, column.type)

    def _partition(self, path: Sequence[str], data_type: DataType) -> Range:
        if len(path) != 1 or path[0] not in self.partition_values:
            return UNKNOWN
        try:
            return constant(parse_partition_value(self.partition_values[path[0]], data_type))
        except MalformedLogError:
            return UNKNOWN

    def _statistics(self, path: Sequence[str], data_type: DataType) -> Range:
        null_count = _at(self.stats, "nullCount", path)
        records = (self.stats or {}).get("numRecords")
        counted = isinstance(null_count, int) and not isinstance(null_count, bool)
        if counted and isinstance(records, int) and null_count == records and len(path) == 1:
            return NULL
        low = _lower(_at(self.stats, "minValues", path), data_type)
        high = _upper(_at(self.stats, "maxValues", path), data_type)
        has_null = not (counted and null_count == 0 and len(path) == 1)
        return Range(low, high, null=has_null, nan=data_type in FLOATS)


def _physical_path(schema: StructType, path: Sequence[str]) -> list[str] | None:
    names: list[str] = []
    inside: DataType = schema
    for name in path:
        field = inside.get(name) if isinstance(inside, StructType) else None
        if field is None:
            return None
        names.append(str(field.metadata.get(PHYSICAL_NAME_KEY) or field.name))
        inside = field.type
    return names


def _at(stats: Mapping[str, Any] | None, kind: str, path: Sequence[str]) -> Any:  # noqa: ANN401 - JSON
    found: Any = (stats or {}).get(kind)
    for name in path:
        found = found.get(name) if isinstance(found, Mapping) else None
    return found


def _lower(value: Any, data_type: DataType) -> Any:  # noqa: ANN401 - JSON to a value
    """A value at or below every value of the file; None where there is no bound."""
    found = _typed(value, data_type)
    if isinstance(found, Decimal):
        return found - _slack(found)
    if isinstance(found, datetime) and found < _EPOCH.replace(tzinfo=found.tzinfo):
        return _moved(found, -_MILLISECOND)
    return found


def _upper(value: Any, data_type: DataType) -> Any:  # noqa: ANN401 - JSON to a value
    """A value at or above every value of the file, NaN apart; None where there is no bound."""
    found = _typed(value, data_type)
    if isinstance(found, Decimal):
        return found + _slack(found)
    if isinstance(found, datetime):
        return _moved(found, _MILLISECOND)
    if isinstance(found, str) and len(found) >= _CUT_LENGTH:
        return after_prefix(found)
    return found


def _moved(value: datetime, by: timedelta) -> datetime | None:
    try:
        return value + by
    except OverflowError:
        return None


def _slack(value: Decimal) -> Decimal:
    """What a decimal may have lost where a writer took it through a double."""
    return Decimal(0) if len(value.as_tuple().digits) <= _EXACT_DIGITS else abs(value) * _ROUNDING


def _typed(value: Any, data_type: DataType) -> Any:  # noqa: ANN401, PLR0911
    """The statistic as a value of the column's type; None for what is no such value."""
    try:
        if data_type in FLOATS:
            return _floating(value, data_type)
        if isinstance(value, bool):
            return value if data_type == BOOLEAN else None
        if isinstance(value, str):
            return _text(value, data_type)
        if data_type in INTEGRALS:
            return value if isinstance(value, int) else None
        if isinstance(data_type, DecimalType) and isinstance(value, int | float | Decimal):
            return Decimal(str(value))
    except (ValueError, OverflowError, InvalidOperation):
        return None
    return None


def _floating(value: Any, data_type: DataType) -> float | None:  # noqa: ANN401 - JSON
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal | str):
        return None
    number = float(value)
    if number != number:
        return None
    return float(np.float32(number)) if data_type == FLOAT else number


def _text(value: str, data_type: DataType) -> str | date | Decimal | None:
    if data_type == STRING:
        return value
    if data_type == DATE:
        return parse_date(value)
    if data_type in {TIMESTAMP, TIMESTAMP_NTZ}:
        return _moment(value, data_type)
    return Decimal(value) if isinstance(data_type, DecimalType) else None


def _moment(value: str, data_type: DataType) -> datetime | None:
    found = parse_timestamp(value)
    if found is None or data_type == TIMESTAMP:
        return found
    return found.replace(tzinfo=None)
