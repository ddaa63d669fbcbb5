"""Rows as texts for people: what a page shows of values of any type."""

import json
from collections.abc import Sequence

import pyarrow as pa

from engine.schema.types import DataType, StructField, type_to_json
from lakeui.catalog import log_values
from lakeui.catalog.previews import PREVIEW_TEXT


def row_texts(rows: pa.Table) -> list[list[str | None]]:
    """Every row as a list of texts, null for NULL."""
    shown = [_texts(rows.column(number)) for number in range(rows.num_columns)]
    return [list(row) for row in zip(*shown, strict=True)]


def column_texts(fields: Sequence[StructField]) -> list[dict[str, str]]:
    """The columns by name and type."""
    return [
        {"name": log_values.text(field.name), "type": _type_name(field.type)} for field in fields
    ]


def _type_name(kind: DataType) -> str:
    said = type_to_json(kind)
    return said if isinstance(said, str) else str(said["type"])


def _texts(column: pa.ChunkedArray) -> list[str | None]:
    kind = column.type
    if pa.types.is_nested(kind):
        values = [
            None if value is None else json.dumps(value, ensure_ascii=False, default=str)
            for value in column.to_pylist()
        ]
    elif pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        values = [None if value is None else value.hex() for value in column.to_pylist()]
    else:
        values = column.cast(pa.string()).to_pylist()
    return [None if value is None else _cut(log_values.text(value)) for value in values]


def _cut(text: str) -> str:
    return text if len(text) <= PREVIEW_TEXT else text[: PREVIEW_TEXT - 1] + "…"
