"""A live file of the log as a data file of Iceberg, its statistics among it."""

import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any

from pyiceberg.conversions import to_bytes
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.typedef import Record

from engine.actions.files import AddFile
from engine.actions.statistics import (
    greatest_moment,
    least_moment,
    parse_row_count,
    parse_stats,
)
from engine.errors import DataFileError
from engine.expressions.possible_values import upper_bound
from engine.iceberg.schema import Leaf, iter_leaves
from engine.schema.column_mapping import physical_name
from engine.schema.partition_values import parse_stored_value, partition_text
from engine.schema.types import DecimalType, StructField, StructType
from engine.storage.uri import resolve_log_path

_EPOCH_DAY = date(1970, 1, 1).toordinal()
_INTEGERS = frozenset({"byte", "short", "integer", "long"})
_MOMENTS = frozenset({"timestamp", "timestamp_ntz"})
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class IcebergFileShape:
    """The properties of a table needed to convert its files: location, columns, partitioning."""

    root: str
    location: str
    partitions: tuple[StructField, ...]
    leaves: tuple[Leaf, ...]
    allowed_roots: tuple[str, ...] = field(default=())

    @classmethod
    def build(
        cls,
        root: str,
        schema: StructType,
        partition_columns: Iterable[str],
        allowed_roots: Iterable[str] = (),
    ) -> "IcebergFileShape":
        """Build the shape of a table's files."""
        columns = (schema.get(name) for name in partition_columns)
        partitions = tuple(column for column in columns if column is not None)
        return cls(
            root, location_of(root), partitions, tuple(iter_leaves(schema)), tuple(allowed_roots)
        )

    def uri(self, path_in_log: str) -> str:
        """Return Iceberg's name for a file, without any encoding.

        Raises:
            PathOutsideRootError: it is outside the table and the allowed roots.
        """
        place = resolve_log_path(self.root, path_in_log, self.allowed_roots)
        return f"{location_of(place.root)}/{place.path}"


def location_of(root: str) -> str:
    """Return Iceberg's name for a store's location."""
    return root if "://" in root else f"file://{root}"


def data_file(add: AddFile, shape: IcebergFileShape) -> DataFile:
    """Build the data file of a live file.

    Raises:
        DataFileError: the log lacks its row count.
        MalformedLogError: its partition values are invalid.
    """
    stats = parse_stats(add.stats) or {}
    rows = parse_row_count(stats.get("numRecords"))
    if rows is None:
        msg = f"The log does not record the number of rows of {add.path}, which Iceberg needs."
        raise DataFileError(msg, "Rewrite it with REORG TABLE … APPLY (UPGRADE UNIFORM …).")
    lows, highs = (_bounds(stats, name, shape.leaves) for name in ("minValues", "maxValues"))
    nulls = _null_counts(stats, shape.leaves)
    made = DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=shape.uri(add.path),
        file_format=FileFormat.PARQUET,
        partition=Record(
            *(_partition(add.partition_values, partition) for partition in shape.partitions)
        ),
        record_count=rows,
        file_size_in_bytes=add.size,
        value_counts=dict.fromkeys(nulls, rows),
        null_value_counts=nulls,
        lower_bounds=lows,
        upper_bounds=highs,
    )
    made.spec_id = 0
    return made


def _partition(values: Mapping[str, str | None], column: StructField) -> Any:  # noqa: ANN401 - any value
    """Convert a partition value for manifests: days, microseconds, plain values."""
    return parse_stored_value(partition_text(values, physical_name(column, "name")), column.type)


def _null_counts(stats: Mapping[str, Any], leaves: Iterable[Leaf]) -> dict[int, int]:
    counts = ((leaf.field_id, _value_at_path(stats.get("nullCount"), leaf.path)) for leaf in leaves)
    return {number: count for number, count in counts if type(count) is int}


def _bounds(stats: Mapping[str, Any], name: str, leaves: Iterable[Leaf]) -> dict[int, bytes]:
    """Convert the bounds of one side; inconvertible ones are omitted and prune nothing."""
    is_upper = name == "maxValues"
    bounds = (
        (leaf.field_id, _encode_bound(_value_at_path(stats.get(name), leaf.path), leaf, is_upper))
        for leaf in leaves
    )
    return {number: bound for number, bound in bounds if bound is not None}


def _encode_bound(value: Any, leaf: Leaf, is_upper: bool) -> bytes | None:  # noqa: ANN401 - JSON
    if value is None:
        return None
    try:
        if isinstance(leaf.type, DecimalType):
            exact = _decimal(value, leaf.type)
        else:
            exact = _plain(value, leaf.type.name, is_upper)
        return None if exact is None else to_bytes(leaf.iceberg_type, exact)
    except (ValueError, TypeError, ArithmeticError, struct.error):
        return None


def _plain(value: Any, name: str, is_upper: bool) -> Any:  # noqa: ANN401 - JSON
    if name in _INTEGERS:
        return value if type(value) is int else None
    if name == "string" and isinstance(value, str):
        return upper_bound(value) if is_upper else value
    if name == "date":
        return date.fromisoformat(value).toordinal() - _EPOCH_DAY
    if name in _MOMENTS:
        return _micros(value, is_upper=is_upper)
    return None  # floating point: bounds in the log may omit NaN, or be NaN


def _decimal(value: Any, data_type: DecimalType) -> Decimal | None:  # noqa: ANN401 - JSON
    if not isinstance(value, int | Decimal):
        return None
    exact = Decimal(value)
    rounded = exact.quantize(Decimal(1).scaleb(-data_type.scale))
    if rounded != exact:
        raise InvalidOperation
    return rounded


def _micros(text: str, *, is_upper: bool) -> int | None:
    moment = datetime.fromisoformat(text)
    wall = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    bound = greatest_moment(wall, text) if is_upper else least_moment(wall, text)
    return None if bound is None else (bound - _EPOCH) // timedelta(microseconds=1)


def _value_at_path(tree: Any, path: tuple[str, ...]) -> Any:  # noqa: ANN401 - JSON
    for part in path:
        tree = tree.get(part) if isinstance(tree, dict) else None
    return tree
