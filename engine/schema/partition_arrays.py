"""Partition values in Arrow, for every year files can store."""

from collections.abc import Sequence

import pyarrow as pa

from engine.schema.arrow import to_arrow_type
from engine.schema.partition_values import (
    MOMENTS,
    format_partition_value,
    format_stored_moment,
    parse_stored_value,
)
from engine.schema.types import DATE, DataType


def partition_array(texts: Sequence[str | None], data_type: DataType) -> pa.Array:
    """Convert the log's texts to values.

    Raises:
        MalformedLogError: a text is not a value of the type.
    """
    values = [parse_stored_value(text, data_type) for text in texts]
    kind = to_arrow_type(data_type)
    if data_type not in MOMENTS:
        return pa.array(values, kind)
    return pa.array(values, _number(data_type)).view(kind)


def partition_scalar(text: str | None, data_type: DataType) -> pa.Scalar:
    """Convert one text of the log to a value; raise errors like `partition_array`."""
    return partition_array([text], data_type)[0]


def partition_text_at(column: pa.Array, row: int, data_type: DataType) -> str | None:
    """Format the value in a row as the log's text."""
    value = column[row]
    if data_type not in MOMENTS:
        return format_partition_value(value.as_py(), data_type)
    stored = value.cast(to_arrow_type(data_type)).cast(_number(data_type)).as_py()
    return None if stored is None else format_stored_moment(stored, data_type)


def _number(data_type: DataType) -> pa.DataType:
    return pa.int32() if data_type == DATE else pa.int64()
