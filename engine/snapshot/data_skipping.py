"""Which files cannot hold a row that a condition wants: by partition values and statistics.

`may_match` answers False only as proof. Partition values are exact; statistics are bounds that
may be missing, cut, or rounded, and never rule out NaN.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa

from engine.actions.files import AddFile
from engine.errors import MalformedLogError
from engine.expressions.literals import as_single, parse_date, parse_timestamp
from engine.expressions.possible import compiled
from engine.expressions.ranges import NULL, UNKNOWN, Range, after_prefix, constant
from engine.expressions.traits import columns_of, conjunction, is_deterministic, split_conjuncts
from engine.expressions.tree import Column, Expression
from engine.expressions.types import FLOATS, INTEGRALS
from engine.schema.column_mapping import PHYSICAL_NAME_KEY
from engine.schema.partition_values import parse_partition_value
from engine.schema.types import (
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    DataType,
    DecimalType,
    StructType,
)

_STATS = msgspec.json.Decoder(float_hook=Decimal)
_CUT_LENGTH = 32
_EXACT_DIGITS = 15
_ROUNDING = Decimal("4e-16")
_MILLISECOND = timedelta(milliseconds=1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class FileFacts(NamedTuple):
    """What one file says of its columns: by physical name, as in the log."""

    partition_values: Mapping[str, str | None]
    stats: Mapping[str, Any] | None


class Skipper:
    """A condition made ready to be asked of many files.

    Args:
        expression: a condition over `schema`'s logical columns.
        schema: the table's.
        partition_columns: their logical names.
    """

    def __init__(
        self, expression: Expression, schema: StructType, partition_columns: Collection[str]
    ) -> None:
        self._schema = schema
        self._partitions = {name.lower() for name in partition_columns}
        condition = deterministic_part(expression)
        self._test = compiled(condition, self._reader)
        self.looks_at_data = any(
            path[0].lower() not in self._partitions for path in columns_of(condition)
        )

    def may_match(
        self, partition_values: Mapping[str, str | None], stats: Mapping[str, Any] | None
    ) -> bool:
        """Whether a file may hold a row for which the condition is true. False is proof."""
        return self._test(FileFacts(partition_values, stats)).true

    def _reader(self, column: Column) -> Callable[[FileFacts], Range]:
        path = _physical_path(self._schema, column.path)
        if path is None:
            return lambda _: UNKNOWN
        if column.path[0].lower() in self._partitions:
            return _partition_reader(path, column.type)
        return _statistics_reader(path, column.type)


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
    return Skipper(expression, schema, partition_columns).may_match(partition_values, stats)


def add_may_match(
    expression: Expression,
    add: AddFile,
    schema: StructType,
    partition_columns: Collection[str],
) -> bool:
    """`may_match` of an add; its statistics are parsed only if its partition does not decide."""
    skipper = Skipper(expression, schema, partition_columns)
    values = add.partition_values or {}
    if not skipper.may_match(values, None):
        return False
    stats = parse_stats(add.stats) if skipper.looks_at_data else None
    return stats is None or skipper.may_match(values, stats)


def prune(
    files: pa.Table,
    expression: Expression,
    schema: StructType,
    partition_columns: Collection[str],
) -> pa.BooleanArray:
    """`may_match` for each row of a table of files (`partition_values`, `stats`).

    Each distinct partition is tested once; statistics are parsed only for what is left.
    """
    skipper = Skipper(expression, schema, partition_columns)
    return pa.array(_iter_matches(files, skipper), pa.bool_())


def _iter_matches(files: pa.Table, skipper: Skipper) -> Iterator[bool]:
    by_partition: dict[tuple[Any, ...], bool] = {}
    rows = zip(files["partition_values"].to_pylist(), files["stats"].to_pylist(), strict=True)
    for pairs, text in rows:
        key = tuple(pairs or ())
        found = by_partition.get(key)
        if found is None:
            found = by_partition[key] = skipper.may_match(dict(key), None)
        if found and skipper.looks_at_data:
            stats = parse_stats(text)
            found = stats is None or skipper.may_match(dict(key), stats)
        yield found


def parse_stats(text: str | None) -> dict[str, Any] | None:
    """Statistics as parsed JSON, numbers exact; None where there are none or they are no object."""
    if not text or text == "null":
        return None
    try:
        found = _STATS.decode(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def deterministic_part(expression: Expression) -> Expression:
    """The condition without the conjuncts that may differ each time they are evaluated."""
    return conjunction(each for each in split_conjuncts(expression) if is_deterministic(each))


def _partition_reader(path: Sequence[str], data_type: DataType) -> Callable[[FileFacts], Range]:
    def read(file: FileFacts) -> Range:
        if len(path) != 1 or path[0] not in file.partition_values:
            return UNKNOWN
        try:
            value = parse_partition_value(file.partition_values[path[0]], data_type)
        except MalformedLogError:
            return UNKNOWN
        return constant(as_single(value) if data_type == FLOAT and value is not None else value)

    return read


def _statistics_reader(path: Sequence[str], data_type: DataType) -> Callable[[FileFacts], Range]:
    typed = _typed_as(data_type)
    nan, top = data_type in FLOATS, len(path) == 1

    def read(file: FileFacts) -> Range:
        stats = file.stats
        if stats is None:
            return UNKNOWN
        nulls = _at(stats, "nullCount", path)
        counted = top and type(nulls) is int
        if counted and nulls == stats.get("numRecords"):
            return NULL
        low, high = _at(stats, "minValues", path), _at(stats, "maxValues", path)
        return Range(
            None if low is None else _lower(typed(low)),
            None if high is None else _upper(typed(high)),
            null=not (counted and nulls == 0),
            nan=nan,
        )

    return read


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


def _at(stats: Mapping[str, Any], kind: str, path: Sequence[str]) -> Any:  # noqa: ANN401 - JSON
    found: Any = stats.get(kind)
    for name in path:
        found = found.get(name) if isinstance(found, dict) else None
    return found


def _lower(found: Any) -> Any:  # noqa: ANN401 - a value of the column's type
    """A value at or below every value of the file; None where there is no bound."""
    if isinstance(found, Decimal):
        return found - _slack(found)
    if isinstance(found, datetime) and found < _EPOCH.replace(tzinfo=found.tzinfo):
        return _moved(found, -_MILLISECOND)
    return found


def _upper(found: Any) -> Any:  # noqa: ANN401 - a value of the column's type
    """A value at or above every value of the file, NaN apart; None where there is no bound."""
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


def _typed_as(data_type: DataType) -> Callable[[Any], Any]:
    """From a JSON value to one of the column's type, None for what is none."""
    convert = _CONVERSIONS.get(data_type)
    if isinstance(data_type, DecimalType):
        convert = _decimal
    if convert is None:
        return lambda _: None

    def run(value: Any) -> Any:  # noqa: ANN401 - JSON to a value
        try:
            return convert(value)
        except (ValueError, OverflowError, ArithmeticError, TypeError):
            return None

    return run


def _whole(value: Any) -> int | None:  # noqa: ANN401 - JSON
    return value if type(value) is int else None


def _truth(value: Any) -> bool | None:  # noqa: ANN401 - JSON
    return value if isinstance(value, bool) else None


def _text(value: Any) -> str | None:  # noqa: ANN401 - JSON
    return value if isinstance(value, str) else None


def _decimal(value: Any) -> Decimal | None:  # noqa: ANN401 - JSON
    return None if isinstance(value, bool) else Decimal(str(value))


def _double(value: Any) -> float | None:  # noqa: ANN401 - JSON
    number = None if isinstance(value, bool) else float(value)
    return None if number != number else number


def _single(value: Any) -> float | None:  # noqa: ANN401 - JSON
    """Statistics of a FLOAT are written short: 0.1 means the float nearest to it."""
    number = _double(value)
    return None if number is None else as_single(number)


def _moment(value: Any) -> datetime | None:  # noqa: ANN401 - JSON
    return parse_timestamp(value) if isinstance(value, str) else None


_CONVERSIONS: dict[DataType, Callable[[Any], Any]] = {
    **dict.fromkeys(INTEGRALS, _whole),
    FLOAT: _single,
    DOUBLE: _double,
    BOOLEAN: _truth,
    STRING: _text,
    DATE: lambda value: parse_date(value) if isinstance(value, str) else None,
    TIMESTAMP: _moment,
    TIMESTAMP_NTZ: lambda value: (found := _moment(value)) and found.replace(tzinfo=None),
}
