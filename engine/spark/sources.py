"""Rows from files outside the lake, as a DataFrame.

Text is cast to the wanted types row by row. An invalid row is identified by its file and number;
the source decides whether the job fails, or the row or the value is left out.

Large text files are read in pieces of whole lines by several tasks. A piece knows how many records
stand before it: each record keeps its number in the file. A CSV file is one piece if its lines may
not be its records.
"""

import posixpath
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import accumulate, islice

import pyarrow as pa
from pyspark.sql import Column, DataFrame, DataFrameReader, Observation, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from engine.commands.sources import FileSource
from engine.errors import FileMissingError, RequestError
from engine.schema.types import STRING, ArrayType, DataType, MapType, StructField, StructType
from engine.spark.columns import column, from_spark_schema, to_spark_schema, to_spark_type
from engine.spark.object_stores import check_file_system, hadoop_options, spark_path
from engine.spark.session import default_parallelism
from engine.spark.write.row_checks import refuse_bad_rows
from engine.storage.base import FileStatus
from engine.storage.text_files import (
    BLOCK_BYTES,
    FILE,
    PROBLEM,
    RECORD,
    CsvDialect,
    TextFile,
    check_header,
    check_width,
    csv_columns,
    iter_csv,
    iter_lines,
)
from engine.storage.uri import normalize_uri, open_store

PIECE_BYTES = 32 * 1024 * 1024

_SHOWN = 200
_INFER = "infer the schema"


@dataclass(frozen=True, slots=True)
class FilePiece:
    """The lines of a file that begin from `start` to before `end`, after `before` records."""

    file: TextFile
    start: int
    end: int
    before: int = 0

    @property
    def is_whole(self) -> bool:
        """Whether it is all of its file."""
        return self.start == 0 and self.end >= self.file.size_bytes


Count = Callable[[FilePiece], tuple[int, bool]]
"""The records of a piece, and whether each of its lines is one."""

Apart = Callable[[str], AbstractContextManager[None]]
"""The context for a step of this name."""


def run_inline(_step: str) -> AbstractContextManager[None]:
    """Run a step without a context of its own."""
    return nullcontext()


@dataclass(frozen=True)
class SourceRows:
    """Rows of a source, under their own column names.

    `schema` is theirs; `dropped` counts the rows left out, once the rows were written.
    `is_together` is true if one task has them all.
    """

    frame: DataFrame
    schema: StructType
    dropped: Callable[[], int] = field(default=lambda: 0)
    is_together: bool = False


def read_files(
    spark: SparkSession,
    source: FileSource,
    table_schema: StructType | None,
    storage_options: Mapping[str, str] | None = None,
    *,
    piece_bytes: int = PIECE_BYTES,
    apart: Apart = run_inline,
) -> SourceRows:
    """Read the rows of files.

    Args:
        spark: the session.
        source: the files, and the handling of invalid rows.
        table_schema: the columns' types, by name; others, and all if it is None, are inferred.
        storage_options: of the files' store.
        piece_bytes: how much of a large text file one task reads.
        apart: context for earlier Spark jobs, by the name of the step.

    Raises:
        RequestError: there are no such files.
    """
    files = _list_files(source, storage_options or {})
    reading = _TextReading(spark, source, files, piece_bytes, apart)
    if source.format in {"parquet", "orc"}:
        return _columnar(reading)
    if source.format == "csv":
        return _csv(reading, table_schema)
    return _json(reading, table_schema)


def _columnar(reading: "_TextReading") -> SourceRows:
    source, files = reading.source, reading.files
    reader = _reader(reading.spark, files).option("recursiveFileLookup", "true")
    with reading.apart(_INFER):
        frame = reader.format(source.format).load(_paths(files))
    check_width(len(frame.schema), source.uri)
    return SourceRows(frame, from_spark_schema(frame.schema))


@dataclass(frozen=True)
class _TextReading:
    """Text files on their way to rows."""

    spark: SparkSession
    source: FileSource
    files: Sequence[TextFile]
    piece_bytes: int
    apart: Apart

    def pieces(self, count: Count) -> list[FilePiece]:
        return number_all_pieces(self.spark, self.files, count, self.piece_bytes, self.apart)


def _csv(reading: _TextReading, table_schema: StructType | None) -> SourceRows:
    spark, source, files = reading.spark, reading.source, reading.files
    dialect = CsvDialect(source.header, source.delimiter, source.quote, source.null_text)
    names = _csv_names(files, dialect, table_schema)
    schema = _declare_columns(names, table_schema, lambda: _infer_csv(reading))
    text = _read_in_tasks(
        spark,
        reading.pieces(build_csv_counter(dialect)),
        lambda file, text, before: iter_csv(file, dialect, names, text=text, before=before),
        names,
    )
    return _judge_rows(text, source, schema, {name: column(name) for name in names})


def _csv_names(
    files: Sequence[TextFile], dialect: CsvDialect, table_schema: StructType | None
) -> list[str]:
    try:
        names = csv_columns(files[0], dialect)
    except pa.ArrowInvalid as error:
        msg = f"{files[0].shown} is not valid CSV: {error}."
        raise RequestError(
            msg, "Check the delimiter and the quote character.", field="source"
        ) from error
    check_header(names, files[0].shown)
    if not dialect.header and table_schema is not None and len(names) == len(table_schema):
        return table_schema.names
    return names


def _json(reading: _TextReading, table_schema: StructType | None) -> SourceRows:
    spark, source = reading.spark, reading.source
    inferred = _infer_json(reading)
    check_width(len(inferred.names), source.uri)
    schema = _declare_columns(inferred.names, table_schema, lambda: inferred)
    lines = _read_in_tasks(
        spark,
        reading.pieces(count_lines),
        lambda file, text, before: iter_lines(file, text=text, before=before),
        ["value"],
    )
    fields = to_spark_schema(schema).add("__corrupt", "string")
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": "__corrupt"}
    parsed = lines.withColumn("__row", F.from_json(column("value"), fields, options))
    corrupt = F.col("__row").getField("__corrupt")
    shown = F.concat(
        F.lit("not a JSON object of the table's types: "), F.substring(corrupt, 1, _SHOWN)
    )
    judged = parsed.withColumn(PROBLEM, F.when(corrupt.isNotNull(), shown))
    frame, dropped = _handle_bad_rows(judged, source)
    selected = frame.select(*[F.col("__row").getField(n).alias(n) for n in schema.names])
    return SourceRows(selected, schema, dropped)


def _declare_columns(
    names: Iterable[str], table_schema: StructType | None, infer: Callable[[], StructType]
) -> StructType:
    """Return the columns under the wanted types, or the inferred types if there are none."""
    declared = {
        name: (table_schema.get(name) if table_schema is not None else None) for name in names
    }
    inferred = infer() if not all(declared.values()) else StructType()
    types = {text_type.name: text_type.type for text_type in inferred}
    return StructType(
        tuple(
            StructField(name, field.type if field else types.get(name, STRING))
            for name, field in declared.items()
        )
    )


def _judge_rows(
    text: DataFrame, source: FileSource, schema: StructType, columns: Mapping[str, Column]
) -> SourceRows:
    """Cast text columns to types; a failed cast is a problem of its row."""
    cast = {given.name: cast_text(columns[given.name], given.type) for given in schema}
    problems = [
        F.when(columns[n].isNotNull() & cast[n].isNull(), _misfit(schema, n, columns[n]))
        for n in cast
    ]
    values = [value.alias(f"__v_{name}") for name, value in cast.items()]
    problem = (
        F.coalesce(column(PROBLEM), *problems) if source.bad_rows != "null" else column(PROBLEM)
    )
    judged = text.select(*values, column(FILE), column(RECORD), problem.alias(PROBLEM))
    frame, dropped = _handle_bad_rows(judged, source)
    return SourceRows(
        frame.select(*[column(f"__v_{name}").alias(name) for name in cast]), schema, dropped
    )


def _handle_bad_rows(judged: DataFrame, source: FileSource) -> tuple[DataFrame, Callable[[], int]]:
    if source.bad_rows == "fail":
        return refuse_bad_rows(judged, column(PROBLEM), column(FILE), column(RECORD)), lambda: 0
    seen = Observation()
    counted = judged.observe(seen, F.count(column(PROBLEM)).alias("bad"))
    return counted.filter(column(PROBLEM).isNull()), lambda: int(seen.get.get("bad") or 0)


def cast_text(value: Column, data_type: DataType) -> Column:
    """Cast text to a type; null if it is invalid."""
    if isinstance(data_type, StructType | ArrayType | MapType):
        return F.from_json(value, to_spark_type(data_type))  # type: ignore[arg-type]
    return value.try_cast(to_spark_type(data_type))


def _misfit(schema: StructType, name: str, value: Column) -> Column:
    declared = schema.get(name)
    type_name = to_spark_type(declared.type).simpleString() if declared else "value"
    return F.concat(
        F.lit(f"column {name} is not a {type_name}: '"), F.substring(value, 1, _SHOWN), F.lit("'")
    )


def _read_in_tasks(
    spark: SparkSession,
    pieces: Sequence[FilePiece],
    read: Callable[[TextFile, bytes | None, int], Iterator[pa.RecordBatch]],
    columns: Sequence[str],
) -> DataFrame:
    """Pieces of files read by tasks, many small files by one; rows with file, number, problem."""

    def task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for piece in (pieces[number] for number in batch.column(0).to_pylist()):
                text = None if piece.is_whole else read_piece(piece)
                yield from read(piece.file, text, piece.before)

    fields = StructType(tuple(StructField(name, STRING) for name in [*columns, FILE]))
    schema = to_spark_schema(fields).add(RECORD, "long").add(PROBLEM, "string")
    total = sum(piece.end - piece.start for piece in pieces)
    tasks = min(len(pieces), total // PIECE_BYTES + default_parallelism(spark))
    return spark.range(0, len(pieces), 1, tasks).mapInArrow(task, schema)


def _infer_csv(reading: _TextReading) -> StructType:
    source, files = reading.source, reading.files
    reader = _reader(reading.spark, files).option("header", str(source.header).lower())
    options = {
        "sep": source.delimiter,
        "quote": source.quote,
        "inferSchema": "true",
        "nullValue": source.null_text,
    }
    with reading.apart(_INFER):
        frame = reader.options(**options).csv(_paths(files))
    return from_spark_schema(frame.schema)


def _infer_json(reading: _TextReading) -> StructType:
    reader = _reader(reading.spark, reading.files).option("mode", "DROPMALFORMED")
    with reading.apart(_INFER):
        frame = reader.json(_paths(reading.files))
    return from_spark_schema(frame.schema)


def _reader(spark: SparkSession, files: Sequence[TextFile]) -> DataFrameReader:
    """Return a reader of exactly these files, with their store's options."""
    first_file = files[0]
    check_file_system(spark, first_file.root)
    options = hadoop_options(first_file.root, first_file.storage_options)
    return spark.read.options(**options).option("__globPaths__", "false")


def _paths(files: Sequence[TextFile]) -> list[str]:
    return [spark_path(file.root, file.path, file.storage_options) for file in files]


def _list_files(source: FileSource, storage_options: Mapping[str, str]) -> list[TextFile]:
    """List the file at a URI, or all visible files below it."""
    root = normalize_uri(source.uri)
    parent, name = posixpath.split(root)
    try:
        single = open_store(parent, storage_options).stat(name)
    except FileMissingError:
        single = None
    if single is not None and _is_file(parent, name, storage_options):
        return [TextFile(parent, name, single.size_bytes, dict(storage_options))]
    statuses = [f for f in open_store(root, storage_options).list_all() if _is_visible(f)]
    if not statuses:
        msg = f"There are no files at {source.uri}."
        raise RequestError(msg, "Check the location.", field="source.uri")
    ordered = sorted(statuses, key=lambda status: status.path)
    return [
        TextFile(root, status.path, status.size_bytes, dict(storage_options)) for status in ordered
    ]


def _is_file(parent: str, name: str, storage_options: Mapping[str, str]) -> bool:
    below = open_store(posixpath.join(parent, name), storage_options)
    return next(iter(below.list_all()), None) is None


def _is_visible(file: FileStatus) -> bool:
    return not any(part.startswith(("_", ".")) for part in file.path.split("/"))


def union(frames: Sequence[DataFrame]) -> DataFrame:
    """Frames of the same columns, one behind the other."""
    return reduce(DataFrame.unionByName, frames)


def pieces_of(file: TextFile, piece_bytes: int = PIECE_BYTES) -> list[FilePiece]:
    """Cut a file every `piece_bytes`; the starts of records are not known yet."""
    starts = range(0, max(file.size_bytes, 1), piece_bytes)
    return [FilePiece(file, start, min(start + piece_bytes, file.size_bytes)) for start in starts]


def read_piece(piece: FilePiece) -> bytes:
    """Return the whole lines of a piece."""
    store = open_store(piece.file.root, piece.file.storage_options)
    first = max(piece.start - 1, 0)
    content = store.read(piece.file.path, first, piece.end - first)
    if piece.start:
        begun = content.find(b"\n") + 1
        if begun == 0 or first + begun >= piece.end:
            return b""
        content = content[begun:]
    at, parts = piece.end, [content]
    while at < piece.file.size_bytes and not parts[-1].endswith(b"\n"):
        block = store.read(piece.file.path, at, BLOCK_BYTES)
        rest = block[: block.find(b"\n") + 1] or block
        parts.append(rest)
        at += len(rest)
    return b"".join(parts)


def count_lines(piece: FilePiece) -> tuple[int, bool]:
    """Count the lines of a piece, blank ones too."""
    text = read_piece(piece)
    return text.count(b"\n") + int(bool(text) and not text.endswith(b"\n")), True


def build_csv_counter(dialect: CsvDialect) -> Count:
    """Return a counter of records as `iter_csv` numbers them: headers count, empty lines do not."""
    plain = _plain_line(dialect)
    quote = dialect.quote.encode()

    def count(piece: FilePiece) -> tuple[int, bool]:
        text = read_piece(piece)
        if text.count(b"\r") != text.count(b"\r\n"):  # a line could end there too
            return 0, False
        lines = text.replace(b"\r\n", b"\n").split(b"\n")
        header = int(dialect.header and piece.start == 0)
        records = header + sum(1 for line in lines[header:] if line)
        if not quote or quote not in text:
            return records, True
        return records, all(plain.match(line) for line in lines if quote in line)

    return count


def _plain_line(dialect: CsvDialect) -> re.Pattern[bytes]:
    """Return the pattern of a line whose quotes open and close values within it."""
    quote, delimiter = re.escape(dialect.quote.encode()), re.escape(dialect.delimiter.encode())
    value = rb"(?:%b(?:[^%b]|%b%b)*+%b|[^%b%b]*+)" % (
        quote,
        quote,
        quote,
        quote,
        quote,
        quote,
        delimiter,
    )
    return re.compile(rb"%b(?:%b%b)*+\Z" % (value, delimiter, value), re.DOTALL)


def number_all_pieces(
    spark: SparkSession,
    files: Sequence[TextFile],
    count: Count,
    piece_bytes: int = PIECE_BYTES,
    apart: Apart = run_inline,
) -> list[FilePiece]:
    """Return the pieces for tasks: records of large files are counted first, in parallel."""
    by_file = [pieces_of(file, piece_bytes) for file in files]
    cut = [piece for pieces in by_file if len(pieces) > 1 for piece in pieces]
    counts: Iterator[tuple[int, bool]] = iter(())
    if cut:
        with apart("count lines"):
            counts = iter(_count_records(spark, cut, count))
    return [part for pieces in by_file for part in number_pieces(pieces, counts)]


def number_pieces(
    pieces: Sequence[FilePiece], counts: Iterator[tuple[int, bool]]
) -> list[FilePiece]:
    """Set the records before each piece of a file; merge the pieces if lines are not records."""
    if len(pieces) == 1:
        return list(pieces)
    own = list(islice(counts, len(pieces)))
    if not all(is_plain for _, is_plain in own):
        return [replace(pieces[0], end=pieces[0].file.size_bytes)]
    before = accumulate((records for records, _ in own), initial=0)
    return [replace(piece, before=start) for piece, start in zip(pieces, before, strict=False)]


def _count_records(
    spark: SparkSession, pieces: Sequence[FilePiece], count: Count
) -> list[tuple[int, bool]]:
    def task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                records, plain = count(pieces[number])
                columns = [pa.array([number]), pa.array([records]), pa.array([plain])]
                yield pa.RecordBatch.from_arrays(columns, names=["piece", "records", "plain"])

    numbers = spark.range(0, len(pieces), 1, len(pieces))
    rows = numbers.mapInArrow(task, "piece long, records long, plain boolean").collect()
    return [(row["records"], row["plain"]) for row in sorted(rows, key=lambda row: row["piece"])]
