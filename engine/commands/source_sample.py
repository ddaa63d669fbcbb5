"""Preview of a file before a job loads it: inferred columns, and the first rows as written.

Parquet and ORC files may expand to any size, so an untrusted one is read by this module as a
program with a limit on its memory: it reads a request as JSON and writes the sample, or the error,
as JSON.
"""

import json
import resource
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import orc

from engine.commands.column_sql import type_sql
from engine.commands.sources import FileSource, source_from_json
from engine.commands.text_sample import (
    HEAD_BYTES,
    INFERRED_ROWS,
    Misfit,
    TextHead,
    TextLine,
    csv_head,
    json_head,
    json_value,
    text_value,
)
from engine.errors import CannotEvaluateError, InvalidSchemaError, RequestError, StatementError
from engine.expressions.arrow_cast import arrow_type, canonical, convert
from engine.expressions.type_grammar import parse_type
from engine.log.parquet_limits import is_inflated, reason_of
from engine.schema.arrow import from_arrow_type
from engine.schema.assignment import Cast, is_unchanged, plan_storage
from engine.schema.text_lengths import has_limits
from engine.schema.types import STRING, VARIANT, DataType, StructField, StructType
from engine.snapshot.new_table import check_names
from engine.storage.text_files import check_width

SHOWN_ROWS = 20
SHOWN_COLUMNS = 100
_LONG_NUMBERS = "Some numbers have more digits than DOUBLE keeps, so STRING is inferred."
_SHOWN_TEXT = 200
_MEMORY_BYTES = 1 << 30
TYPES = (
    "STRING", "BIGINT", "INT", "SMALLINT", "TINYINT", "DOUBLE", "FLOAT", "DECIMAL(18,2)", "BOOLEAN",
    "DATE", "TIMESTAMP", "TIMESTAMP_NTZ", "BINARY",
)  # fmt: skip
"""The types offered; any other valid type may be typed in, too."""

_SHOWN_BYTES = 1000


@dataclass(frozen=True, slots=True)
class SampleColumn:
    """A column: its type as chosen, else as inferred; `problem` explains an invalid choice.

    `note` explains an unexpected inferred type.
    """

    name: str
    type: str
    inferred: str
    problem: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class SampleRow:
    """A row of the first columns. `misfits` are the indices of values their types cannot hold.

    `fate` is its outcome under the source's `bad_rows`: fails, dropped, nulled, or "" for a row
    written as shown. `problem` describes a fault of the row as a whole.
    """

    values: list[str | None]
    misfits: list[int] = field(default_factory=list)
    fate: str = ""
    problem: str = ""


@dataclass(frozen=True, slots=True)
class FileSample:
    """A file's columns and first rows.

    Attributes:
        columns: all of them.
        rows: the first rows, of the first `SHOWN_COLUMNS` columns.
        sampled_rows: the number of rows the types were inferred from; None if the file declares
            types.
        is_whole: whether these were all rows of the file.
        schema_json: Delta's schema for the job to write; "" if a choice is invalid.
        mapped_names: names a table can only have with column mapping.
        is_changed: whether a type differs from the inferred one.
    """

    columns: list[SampleColumn]
    rows: list[SampleRow]
    sampled_rows: int | None
    is_whole: bool
    schema_json: str
    mapped_names: list[str]
    is_changed: bool


def sample_file(source: FileSource, path: Path, chosen: Mapping[str, str]) -> FileSample:
    """Preview a local file.

    `chosen` are types by column, as text; the others are inferred.

    Raises:
        RequestError: it cannot be read; `field` names the part of the request.
    """
    source.validate()
    if source.format in {"csv", "json"}:
        with path.open("rb") as file:
            head = file.read(HEAD_BYTES)
        look = csv_head if source.format == "csv" else json_head
        return _sample_text(source, look(source, head, path.stat().st_size), chosen)
    inferred, first = columnar_head(source, str(path), SHOWN_ROWS, SHOWN_COLUMNS)
    columns, fields = _apply_chosen_types(inferred, chosen, stores=True)
    shown = [
        _convert_to_stored(first.column(i), inferred.fields[i], fields[i])
        for i in range(len(first.columns))
    ]
    rows = [_row([texts[at] for texts, _ in shown],
                 [i for i, (_, bad) in enumerate(shown) if at in bad], "fail")
            for at in range(first.num_rows)]  # fmt: skip
    return _sample(columns, fields, rows, None, is_whole=False)


def _sample_text(source: FileSource, head: TextHead, chosen: Mapping[str, str]) -> FileSample:
    columns, fields = _apply_chosen_types(head.columns, chosen, stores=False)
    columns = [
        replace(column, note=_LONG_NUMBERS) if column.name in head.long_numbers else column
        for column in columns
    ]
    value = text_value if source.format == "csv" else json_value
    kinds = [field.type for field in fields[:SHOWN_COLUMNS]]
    rows = [_text_row(line, kinds, value, source) for line in head.lines[:SHOWN_ROWS]]
    return _sample(columns, fields, rows, len(head.lines), is_whole=_is_all(head))


def _is_all(head: TextHead) -> bool:
    return head.is_whole and len(head.lines) < INFERRED_ROWS


def _text_row(
    line: TextLine,
    kinds: Sequence[DataType],
    value: Callable[[Any, DataType], str | None],
    source: FileSource,
) -> SampleRow:
    values: list[str | None] = []
    misfits: list[int] = []
    for place, (given, kind) in enumerate(zip(line.values, kinds, strict=False)):
        try:
            values.append(value(given, kind))
        except Misfit:
            misfits.append(place)
            values.append(given if isinstance(given, str) else json.dumps(given, default=str))
    bad_rows = source.bad_rows
    if bad_rows == "null" and (line.problem or source.format == "json"):
        bad_rows = "drop"  # an invalid line has no values to replace by null
    return _row(values, misfits, bad_rows, line.problem)


def _row(
    values: list[str | None], misfits: list[int], bad_rows: str, problem: str = ""
) -> SampleRow:
    cut = [text if text is None else _cut(text) for text in values]
    fates = {"fail": "fails", "drop": "dropped", "null": "nulled"}
    return SampleRow(cut, misfits, fates[bad_rows] if misfits or problem else "", problem)


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN_TEXT else f"{text[: _SHOWN_TEXT - 1]}…"


def _convert_to_stored(
    column: pa.ChunkedArray, source: StructField, target: StructField
) -> tuple[list[str | None], set[int]]:
    """Convert values as their column stores them; return also the indices of invalid ones."""
    texts = arrow_texts(column)
    try:
        way = plan_storage(source.type, target.type, source.name)
    except RequestError:
        return texts, set()  # the choice is refused as a whole
    if is_unchanged(way) or not isinstance(way, Cast):
        return texts, set()
    bad: set[int] = set()
    for place, value in enumerate(canonical(column.combine_chunks(), source.type)):
        if not value.is_valid:
            continue
        try:
            texts[place] = _cast_text(value, source.type, target.type)
        except CannotEvaluateError:
            continue  # Spark's form is unknown here: show the file's value
        except (Misfit, pa.ArrowException, OverflowError):
            bad.add(place)
    return texts, bad


def _cast_text(value: pa.Scalar, source: DataType, target: DataType) -> str | None:
    if source == STRING:
        return text_value(value.as_py(), target)
    stored = convert(value, source, target)
    return arrow_texts(pa.chunked_array([pa.array([stored.as_py()], arrow_type(target))]))[0]


def _apply_chosen_types(
    inferred: StructType, chosen: Mapping[str, str], *, stores: bool
) -> tuple[list[SampleColumn], list[StructField]]:
    """Apply the chosen types to the columns; `stores`: the file's values already have types."""
    columns, fields = [], []
    for own in inferred:
        said, problem, declared = type_sql(own.type), "", StructField(own.name, own.type)
        text = chosen.get(own.name, "").strip()
        if text:
            try:
                declared = _declare_field(own, text, stores=stores)
            except StatementError:
                problem = (
                    f"{text[:60]} is not a type. Types are BIGINT, DECIMAL(12,2), ARRAY<STRING> …"
                )
            except RequestError as error:
                problem = str(error)
        shown = text if problem else type_sql(parse_type(text)) if text else said
        columns.append(SampleColumn(own.name, shown, said, problem))
        fields.append(declared)
    return columns, fields


def _declare_field(own: StructField, text: str, *, stores: bool) -> StructField:
    kind = parse_type(text)
    if VARIANT in _list_inner_types(kind):
        msg = "A file has no values of the type VARIANT."
        raise RequestError(msg, "Load strings, and parse them later.", field="types")
    if has_limits(kind):
        msg = "A file cannot be loaded into CHAR or VARCHAR."
        raise RequestError(msg, "Choose STRING.", field="types")
    if stores:
        plan_storage(own.type, kind, own.name)
    return StructField(own.name, kind)


def _list_inner_types(kind: DataType) -> list[DataType]:
    parts = [getattr(kind, name, None) for name in ("element", "key", "value")] + [
        field.type for field in (kind if isinstance(kind, StructType) else ())
    ]
    return [
        kind,
        *(inner for part in parts if part is not None for inner in _list_inner_types(part)),
    ]


def _sample(
    columns: list[SampleColumn],
    fields: list[StructField],
    rows: list[SampleRow],
    sampled_rows: int | None,
    *,
    is_whole: bool,
) -> FileSample:
    schema = StructType(tuple(fields))
    check_names(schema, "name")  # a repeated name, ignoring case
    faulty = any(column.problem for column in columns)
    return FileSample(
        columns,
        rows,
        sampled_rows,
        is_whole,
        "" if faulty else schema.to_json(),
        [field.name for field in fields if not _is_plain(field)],
        any(column.type != column.inferred for column in columns),
    )


def _is_plain(field: StructField) -> bool:
    try:
        check_names(StructType((field,)), "none")
    except RequestError:
        return False
    return True


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
        raise RequestError(msg, "Check that the file is complete.", field="file") from error
    return _convert_schema(schema, shown), table


def _parquet(
    file: pa.NativeFile, shown: str, rows: int, columns: int
) -> tuple[pa.Schema, pa.Table]:
    parquet = pq.ParquetFile(file, coerce_int96_timestamp_unit="us")
    schema = parquet.schema_arrow
    check_width(len(schema), shown)
    if is_inflated(parquet.metadata.num_rows, file.size()):
        msg = f"its footer claims {parquet.metadata.num_rows:,} rows, more than its bytes can hold"
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


_READERS = {"parquet": _parquet, "orc": _orc}


def _convert_schema(schema: pa.Schema, shown: str) -> StructType:
    fields = []
    for column in schema:
        try:
            fields.append(StructField(column.name, from_arrow_type(column.type)))
        except InvalidSchemaError as error:
            msg = (
                f"The column {column.name} of {shown} has the type {column.type}, which Delta "
                "does not have."
            )
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


def sample_from_json(given: Mapping[str, Any]) -> FileSample:
    """Parse a sample written by `main`."""
    rest = {name: value for name, value in given.items() if name not in ("columns", "rows")}
    columns = [SampleColumn(**column) for column in given["columns"]]
    return FileSample(columns=columns, rows=[SampleRow(**row) for row in given["rows"]], **rest)


def main() -> None:
    """Look at the file of the request on standard input."""
    resource.setrlimit(resource.RLIMIT_DATA, (_MEMORY_BYTES, _MEMORY_BYTES))
    request = json.load(sys.stdin)
    try:
        source = source_from_json(request["source"])
        assert isinstance(source, FileSource)  # noqa: S101 - checked by the caller
        answer = {"sample": asdict(sample_file(source, Path(request["path"]), request["types"]))}
    except RequestError as error:
        answer = {"error": {"what": error.what, "remedy": error.remedy, "field": error.field}}
    sys.stdout.write(json.dumps(answer))


if __name__ == "__main__":
    main()
