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
    """The JSON of a statistic; times as delta-spark writes them, to the millisecond they may lose."""
    match value:
        case dict():
            return {name: _json(each) for name, each in value.items() if each is not None}
        case Decimal():
            return float(value) if value != value.to_integral_value() else int(value)
        case datetime():
            if value.tzinfo is None:
                return value.isoformat()
            return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
        case date():
            return value.isoformat()
        case bytes():
            return None
        case _:
            return value
