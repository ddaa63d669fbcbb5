"""Columns of a Parquet or ORC file by its footer, and its first rows.

A small file may expand to any size: an untrusted file is read in a process with memory limits
(`engine.commands.source_sample`).
"""

import json
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import orc

from engine.commands.sources import FileSource
from engine.errors import InvalidSchemaError, RequestError
from engine.log.parquet_limits import is_inflated, reason_of
from engine.schema.arrow import from_arrow_type
from engine.schema.types import StructField, StructType
from engine.storage.text_files import check_width


def columnar_head(
    source: FileSource, path: str, rows: int, columns: int
) -> tuple[StructType, pa.Table]:
    """Read the columns of a file, and the first rows of the first columns.

    Raises:
        RequestError: it is unreadable, or has a column of an unsupported type.
    """
    shown = source.uri.rpartition("/")[2]
    try:
        with pa.OSFile(path) as file:
            schema, table = _READERS[source.format](file, shown, rows, columns)
    except (pa.ArrowException, OSError, ValueError, MemoryError) as error:
        msg = f"{shown} cannot be read as {source.format.upper()}: {reason_of(error)}."
        raise RequestError(msg, "Check that it is whole.", field="file") from error
    return _convert_schema(schema, shown), table


def _parquet(
    file: pa.NativeFile, shown: str, rows: int, columns: int
) -> tuple[pa.Schema, pa.Table]:
    parquet = pq.ParquetFile(file, coerce_int96_timestamp_unit="us")
    schema = parquet.schema_arrow
    check_width(len(schema), shown)
    if is_inflated(parquet.metadata.num_rows, file.size()):
        msg = f"it says it holds {parquet.metadata.num_rows:,} rows, and its bytes cannot"
        raise ValueError(msg)
    names = schema.names[:columns]
    batches = parquet.iter_batches(batch_size=rows, columns=names, use_threads=False)
    first = next((batch for batch in batches if batch.num_rows), None)
    empty = pa.schema([schema.field(i) for i in range(len(names))]).empty_table()
    return schema, empty if first is None else pa.Table.from_batches([first])


def _orc(file: pa.NativeFile, shown: str, rows: int, columns: int) -> tuple[pa.Schema, pa.Table]:
    opened = orc.ORCFile(file)
    schema = opened.schema
    check_width(len(schema), shown)
    names = schema.names[:columns]
    if not opened.nstripes:
        return schema, pa.schema([schema.field(i) for i in range(len(names))]).empty_table()
    stripe = opened.read_stripe(0, columns=names)
    return schema, pa.Table.from_batches([stripe]).slice(0, rows)


_SHOWN_BYTES = 1000
_READERS = {"parquet": _parquet, "orc": _orc}


def _convert_schema(schema: pa.Schema, shown: str) -> StructType:
    fields = []
    for column in schema:
        try:
            fields.append(StructField(column.name, from_arrow_type(column.type)))
        except InvalidSchemaError as error:
            msg = f"The column {column.name} of {shown} is of the type {column.type}, which no table has."
            raise RequestError(msg, "Cast it to a type that Delta has.", field="file") from error
    return StructType(tuple(fields))


def arrow_texts(column: pa.ChunkedArray) -> list[str | None]:
    """Format values for the page of a table's rows."""
    if pa.types.is_nested(column.type) or pa.types.is_binary(column.type):
        return [None if value is None else _text(value) for value in column.to_pylist()]
    return [None if value is None else str(value) for value in column.cast(pa.string()).to_pylist()]


def _text(value: Any) -> str:  # noqa: ANN401 - any value of any type
    if isinstance(value, bytes):
        return value[:_SHOWN_BYTES].hex()
    return json.dumps(value, ensure_ascii=False, default=str)
