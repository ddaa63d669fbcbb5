"""Data skipping: files excluded by partition values and statistics.

`may_match` answers False only as proof. Partition values are exact; statistics are bounds that may
be missing, cut, or rounded, and never rule out NaN. Contradictory statistics are ignored. Bounds of
decimals are widened, because some writers round decimals through a double.
"""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa

from engine.actions.statistics import (
    MALFORMED,
    greatest_moment,
    least_moment,
    parse_row_count,
    parse_stats,
)
from engine.errors import MalformedLogError
from engine.expressions import possible_values
from engine.expressions.literals import parse_date, parse_timestamp, round_to_single
from engine.expressions.possible_values import (
    NULL,
    UNKNOWN,
    Read,
    ValueRange,
    compile_condition,
    constant,
)
from engine.expressions.traits import columns_of, conjunction, is_deterministic, split_conjuncts
from engine.expressions.tree import Column, Expression
from engine.expressions.types import FLOATS, INTEGRALS
from engine.schema.column_mapping import physical_name
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

_DIGITS = Context(prec=100)
_EXACT_DIGITS = 15  # digits a double represents exactly
_ROUNDING = Decimal("4e-16")
_SMALLEST, _LARGEST = Decimal(-(2**63)), Decimal(2**63 - 1)  # limits of the bounds deltalake writes


def lower_bound(value: Decimal, data_type: DecimalType) -> Decimal | None:
    """Return a value at or below all values behind a minimum; None if there is no bound."""
    return None if value <= _SMALLEST else _widen_bound(value, -1, data_type)


def upper_bound(value: Decimal, data_type: DecimalType) -> Decimal | None:
    """Return a value at or above all values behind a maximum; None if there is no bound."""
    return None if value >= _LARGEST else _widen_bound(value, 1, data_type)


def _widen_bound(value: Decimal, side: int, data_type: DecimalType) -> Decimal | None:
    """Widen a bound, because some writers round decimals through a double."""
    lost = abs(value) * _ROUNDING if data_type.precision > _EXACT_DIGITS else Decimal(0)
    rounding = ROUND_CEILING if side < 0 else ROUND_FLOOR
    try:
        moved = _DIGITS.add(value, lost * side)
        return moved.quantize(Decimal(1).scaleb(-data_type.scale), rounding, _DIGITS)
    except ArithmeticError:
        return None


_UNFIT = re.compile(r'[\x00-\x1f"\\]')


def can_be_decoded(physical_name: str) -> bool:
    """Return whether the name needs no escapes in JSON, as msgspec requires of struct fields."""
    return _UNFIT.search(physical_name) is None


_BATCH_FILES = 8192
_TYPE_CHANGES = "delta.typeChanges"


class FileFacts(NamedTuple):
    """A file's partition values and statistics by physical name, as in the log.

    With `has_vector`, some writers count only the live rows in `numRecords`, but the nulls of all.
    """

    partition_values: Mapping[str, str | None]
    stats: Mapping[str, Any] | None
    has_vector: bool = False


class Skipper:
    """A condition prepared for evaluation over many files.

    Args:
        expression: a condition over `schema`'s logical columns.
        schema: the table's schema.
        partition_columns: their logical names.
        mode: the table's column mapping mode.
    """

    def __init__(
        self,
        expression: Expression,
        schema: StructType,
        partition_columns: Collection[str],
        mode: str,
    ) -> None:
        self._schema, self._mode = schema, mode
        self._partitions = {name.lower() for name in partition_columns}
        condition = conjunction(filter(is_deterministic, split_conjuncts(expression)))
        self.is_exact = condition == expression
        self._test = compile_condition(condition, self._reader)
        data = [path for path in columns_of(condition) if path[0].lower() not in self._partitions]
        self.looks_at_data = bool(data)
        physical = (_physical_path(schema, path, mode) for path in data)
        self._columns = frozenset(path[0] for path in physical if path)

    def may_match(
        self,
        partition_values: Mapping[str, str | None],
        stats: Mapping[str, Any] | None,
        *,
        has_vector: bool = False,
    ) -> bool:
        """Return whether a file may hold a row matching the condition; False is proof."""
        return self._test([FileFacts(partition_values, stats, has_vector)])[0].true

    def matches_all(
        self, partition_values: Mapping[str, str | None], stats: Mapping[str, Any] | None
    ) -> bool:
        """Return whether statistics prove the condition true for every row of a file."""
        if not self.is_exact:
            return False
        outcomes = self._test([FileFacts(partition_values, stats)])[0]
        return outcomes.true and not (outcomes.false or outcomes.null)

    def may_match_each(self, files: Sequence[FileFacts]) -> list[bool]:
        """Evaluate `may_match` for many files, faster than one by one."""
        return [outcomes.true for outcomes in self._test(files)]

    def stats_parser(self) -> Callable[[str | None], Mapping[str, Any] | None]:
        """Return a function like `parse_stats`, limited to the columns of the condition."""
        return _parser_of(sorted(self._columns))

    def _reader(self, column: Column) -> Read:
        path = _physical_path(self._schema, column.path, self._mode)
        if path is None:
            return lambda files: [UNKNOWN] * len(files)
        if column.path[0].lower() in self._partitions:
            return _partition_reader(path, column.type)
        return _statistics_reader(
            path, column.type, was_float=_was_float(self._schema, column.path)
        )


def prune(
    files: pa.Table,
    expression: Expression,
    schema: StructType,
    partition_columns: Collection[str],
    mode: str,
) -> pa.BooleanArray:
    """Evaluate `Skipper.may_match` for each row of a table of files.

    It has the columns `partition_values`, `stats` and `deletion_vector`.


    Each distinct partition is tested once; statistics are parsed only for the remaining files.
    """
    skipper = Skipper(expression, schema, partition_columns, mode)
    parse = skipper.stats_parser()
    kept: list[bool] = []
    for start in range(0, files.num_rows, _BATCH_FILES):
        kept += _matches(files.slice(start, _BATCH_FILES), skipper, parse)
    return pa.array(kept, pa.bool_())


def _matches(
    files: pa.Table, skipper: Skipper, parse: Callable[[str | None], Mapping[str, Any] | None]
) -> list[bool]:
    keys = [tuple(pairs or ()) for pairs in files["partition_values"].to_pylist()]
    values = {key: dict(key) for key in keys}
    facts = [FileFacts(value, None) for value in values.values()]
    by_partition = dict(zip(values, skipper.may_match_each(facts), strict=True))
    kept = [by_partition[key] for key in keys]
    if skipper.looks_at_data:
        left = [row for row, keep in enumerate(kept) if keep]
        rest = files.take(pa.array(left, pa.int64()))
        texts, masked = rest["stats"].to_pylist(), rest["deletion_vector"].is_valid().to_pylist()
        facts = [
            FileFacts(values[keys[row]], parse(text), has_vector)
            for row, text, has_vector in zip(left, texts, masked, strict=True)
        ]
        for row, matches in zip(left, skipper.may_match_each(facts), strict=True):
            kept[row] = matches
    return kept


def _parser_of(columns: Sequence[str]) -> Callable[[str | None], Mapping[str, Any] | None]:
    """Return a decoder for the statistics of some columns, skipping others if names allow it."""
    if not all(map(can_be_decoded, columns)):
        return parse_stats
    names = [f"f{place}" for place in range(len(columns))]
    rename = dict(zip(names, columns, strict=True))
    fields = [(name, Any, None) for name in names]
    of_columns = msgspec.defstruct("_OfColumns", fields, rename=rename)
    kinds = ("minValues", "maxValues", "nullCount")
    of_kinds = [(kind, of_columns | None, None) for kind in kinds]
    stats = msgspec.defstruct("_Stats", [("numRecords", Any, None), *of_kinds])
    decoder = msgspec.json.Decoder(stats, float_hook=Decimal)

    def rename_bounds(bounds: Any) -> dict[str, Any]:  # noqa: ANN401 - defined above
        return {column: getattr(bounds, name) for name, column in rename.items()}

    def parse(text: str | None) -> Mapping[str, Any] | None:
        try:
            stats: Any = decoder.decode(text or "")
        except MALFORMED:
            return parse_stats(text)
        shown = {
            kind: rename_bounds(getattr(stats, kind)) for kind in kinds if getattr(stats, kind)
        }
        return {"numRecords": stats.numRecords, **shown}

    return parse


def _partition_reader(path: Sequence[str], data_type: DataType) -> Read:
    @lru_cache(maxsize=_BATCH_FILES)
    def parse_partition(text: str | None) -> ValueRange:
        try:
            value = parse_partition_value(text, data_type)
        except MalformedLogError:
            return UNKNOWN
        return constant(
            round_to_single(value) if data_type == FLOAT and value is not None else value
        )

    def read(files: Sequence[FileFacts]) -> list[ValueRange]:
        if len(path) != 1:
            return [UNKNOWN] * len(files)
        (name,) = path
        values = (file.partition_values for file in files)
        return [parse_partition(value[name]) if name in value else UNKNOWN for value in values]

    return read


def _statistics_reader(
    path: Sequence[str], data_type: DataType, *, was_float: bool = False
) -> Read:
    typed = _build_bound_converter(data_type)
    nan, top = data_type in FLOATS, len(path) == 1

    def one(file: FileFacts) -> ValueRange:
        stats = file.stats
        if stats is None:
            return UNKNOWN
        nulls = _read_bound(stats, "nullCount", path)
        counted = top and type(nulls) is int
        claimed = parse_row_count(stats.get("numRecords"))
        low, high = _read_bound(stats, "minValues", path), _read_bound(stats, "maxValues", path)
        all_null = counted and claimed and nulls == claimed and not file.has_vector
        if all_null and low is None and high is None:
            return NULL
        least = None if low is None else _lower(typed(low), low, data_type, was_float=was_float)
        most = None if high is None else _upper(typed(high), high, data_type, was_float=was_float)
        if least is not None and most is not None and least > most:
            return UNKNOWN  # one of them is wrong
        return ValueRange(least, most, null=not (counted and nulls == 0), nan=nan)

    return lambda files: [one(file) for file in files]


def _physical_path(schema: StructType, path: Sequence[str], mode: str) -> list[str] | None:
    names: list[str] = []
    inside: DataType = schema
    for name in path:
        field = inside.get(name) if isinstance(inside, StructType) else None
        if field is None:
            return None
        names.append(physical_name(field, mode))
        inside = field.type
    return names


def _was_float(schema: StructType, path: Sequence[str]) -> bool:
    """Return whether a DOUBLE column was FLOAT when some of its files were written."""
    inside: DataType = schema
    changes: Any = None
    for name in path:
        field = inside.get(name) if isinstance(inside, StructType) else None
        if field is None:
            return False
        inside, changes = field.type, field.metadata.get(_TYPE_CHANGES)
    return inside == DOUBLE and "float" in str(changes)


def _read_bound(stats: Mapping[str, Any], kind: str, path: Sequence[str]) -> Any:  # noqa: ANN401 - JSON
    value: Any = stats.get(kind)
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _lower(bound: Any, written: Any, data_type: DataType, *, was_float: bool = False) -> Any:  # noqa: ANN401 - a value of the column's type
    """Return a value at or below every value of the file; None if there is no bound.

    Statistics print a float as 0.1, which as a double may be above the stored value.
    """
    if was_float and isinstance(bound, float):
        return min(bound, round_to_single(bound))
    if isinstance(data_type, DecimalType):
        return bound if bound is None else lower_bound(bound, data_type)
    return least_moment(bound, written) if isinstance(bound, datetime) else bound


def _upper(bound: Any, written: Any, data_type: DataType, *, was_float: bool = False) -> Any:  # noqa: ANN401 - a value of the column's type
    """Return a value at or above every value of the file except NaN; None if there is no bound."""
    if was_float and isinstance(bound, float):
        return max(bound, round_to_single(bound))
    if isinstance(data_type, DecimalType):
        return bound if bound is None else upper_bound(bound, data_type)
    if isinstance(bound, datetime):
        return greatest_moment(bound, written)
    return possible_values.upper_bound(bound) if isinstance(bound, str) else bound


def _build_bound_converter(data_type: DataType) -> Callable[[Any], Any]:
    """Return a function from JSON to the column's type; it returns None for invalid values."""
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
    """Round a FLOAT statistic to single precision: 0.1 in JSON means the nearest float."""
    number = _double(value)
    return None if number is None else round_to_single(number)


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
    TIMESTAMP_NTZ: lambda value: (moment := _moment(value)) and moment.replace(tzinfo=None),
}
