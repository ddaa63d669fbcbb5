"""Statistics that a checkpoint holds as structs alone, as the JSON text that `add.stats` would be."""

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa


def stats_as_json(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """`stats_parsed` as JSON text, null where it is null."""
    texts = [
        None if row is None else json.dumps(_json(row))
        for row in column.to_pylist(maps_as_pydicts="lossy")
    ]
    return pa.chunked_array([pa.array(texts, pa.string())])


def _json(value: Any) -> Any:  # noqa: ANN401 - a Parquet value
    """The JSON of a statistic; what has none, such as binary, is left out."""
    match value:
        case dict():
            return {
                name: found for name, each in value.items() if (found := _json(each)) is not None
            }
        case Decimal():
            return float(value) if value != value.to_integral_value() else int(value)
        case datetime() if value.tzinfo is not None:
            return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
        case date():
            return value.isoformat()
        case _:
            return None if isinstance(value, bytes) else value
