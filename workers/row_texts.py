"""Rows as texts for people: values of any type on a page."""

import json
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from engine.schema.types import DataType, StructField, type_to_json
from lakeui.catalog import log_values
from lakeui.catalog.previews import PREVIEW_TEXT


def row_texts(rows: pa.Table) -> list[list[str | None]]:
    """Return every row as a list of texts, null for NULL."""
    shown = [_texts(rows.column(number)) for number in range(rows.num_columns)]
    return [list(row) for row in zip(*shown, strict=True)]


def column_texts(fields: Sequence[StructField]) -> list[dict[str, str]]:
    """Return the columns by name and type."""
    return [
        {"name": log_values.text(field.name), "type": _type_name(field.type)} for field in fields
    ]


def _type_name(kind: DataType) -> str:
    said = type_to_json(kind)
    return said if isinstance(said, str) else str(said["type"])


def _texts(column: pa.ChunkedArray) -> list[str | None]:
    kind = column.type
    if pa.types.is_nested(kind):
        values = [_render_nested(value) for value in column]
    elif pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        values = [None if value is None else value.hex() for value in column.to_pylist()]
    else:
        values = column.cast(pa.string()).to_pylist()
    return [None if value is None else _cut(log_values.text(value)) for value in values]


def _render_nested(value: pa.Scalar) -> str | None:
    if not value.is_valid:
        return None
    try:
        plain = value.as_py()
    except (ValueError, OverflowError):  # Python's calendar ends with the year 9999
        plain = _convert_times(value)
    return json.dumps(plain, ensure_ascii=False, default=_plain_text)


def _plain_text(value: object) -> str:
    """Render a value without a JSON form; bytes in hex, as in a column of bytes."""
    return value.hex() if isinstance(value, bytes) else str(value)


def _convert_times(value: pa.Scalar) -> Any:  # noqa: ANN401 - JSON
    """Return a nested value with its dates and times as Arrow writes them."""
    if not value.is_valid:
        return None
    if pa.types.is_struct(value.type):
        return {name: _convert_times(inner) for name, inner in value.items()}
    if pa.types.is_nested(value.type):
        return [_convert_times(inner) for inner in value.values]
    return value.cast(pa.string()).as_py() if pa.types.is_temporal(value.type) else value.as_py()


def _cut(text: str) -> str:
    return text if len(text) <= PREVIEW_TEXT else text[: PREVIEW_TEXT - 1] + "…"
