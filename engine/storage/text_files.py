"""Lines and records of text files, numbered on executors so that errors can name them."""

import posixpath
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.csv as pa_csv

from engine.errors import RequestError, SchemaMismatchError, TooManyColumnsError
from engine.storage.uri import open_store

PROBLEM = "__problem"
RECORD = "__record"
FILE = "__source"
BLOCK_BYTES = 8 * 1024 * 1024
MAX_COLUMNS = 10_000
"""Limit of a source's columns: Spark plans each one, and its CSV parser allows 20,480."""
_HEADER_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class TextFile:
    """A file under a directory: the store's URI, its options, the path below it."""

    root: str
    path: str
    size_bytes: int
    storage_options: Mapping[str, str] = field(default_factory=dict)

    @property
    def shown(self) -> str:
        """The file for messages."""
        return posixpath.join(self.root, self.path)


@dataclass(frozen=True, slots=True)
class CsvDialect:
    """The dialect of a CSV file. Unquoted empty text is null."""

    header: bool = True
    delimiter: str = ","
    quote: str = '"'
    null_text: str = ""


def csv_columns(file: TextFile, dialect: CsvDialect) -> list[str]:
    """Return the names in a file's header, or `_c0`, `_c1` … without one.

    Raises:
        pa.ArrowInvalid: the first lines are not CSV.
        TooManyColumnsError: more than `MAX_COLUMNS`.
    """
    store = open_store(file.root, file.storage_options)
    return names_in_head(store.read(file.path, 0, BLOCK_BYTES), dialect, file.shown)


def names_in_head(head: bytes, dialect: CsvDialect, shown: str) -> list[str]:
    """Read column names, as `csv_columns`, from a file's head; `shown` names the file in messages."""
    if not head.strip():
        return []
    first_line = head.lstrip(b"\r\n").partition(b"\n")[0]
    check_width(
        1 + first_line.count(dialect.delimiter.encode()), shown
    )  # every column needs memory
    reader = pa_csv.open_csv(
        pa.BufferReader(head),
        read_options=pa_csv.ReadOptions(
            autogenerate_column_names=not dialect.header, block_size=BLOCK_BYTES, use_threads=False
        ),
        parse_options=_parse_options(dialect, []),
    )
    names = reader.schema.names
    return names if dialect.header else [f"_c{i}" for i in range(len(names))]


def check_header(names: Sequence[str], shown: str) -> None:
    """Refuse an invalid header.

    Raises:
        RequestError: it is empty.
        TooManyColumnsError: more than `MAX_COLUMNS`.
        SchemaMismatchError: it repeats a name.
    """
    if not names:
        msg = f"{shown} is empty."
        raise RequestError(msg, "Use a file with rows.", field="source.uri")
    check_width(len(names), shown)
    repeated = min((name for name, count in Counter(names).items() if count > 1), default=None)
    if repeated is not None:
        msg = f"The header of {shown} has two columns called {repeated!r}."
        raise SchemaMismatchError(msg, "Give each column a unique name.", field="source")


def check_width(columns: int, shown: str) -> None:
    """Refuse more columns than are read.

    Raises:
        TooManyColumnsError: there are more than `MAX_COLUMNS`.
    """
    if columns > MAX_COLUMNS:
        what = f"{shown} has {columns:,} columns: {MAX_COLUMNS:,} is the limit."
        remedy = "Check the delimiter, or split the file by its columns."
        raise TooManyColumnsError(what, remedy, field="source")


def iter_csv(
    file: TextFile,
    dialect: CsvDialect,
    columns: list[str],
    *,
    text: bytes | None = None,
    before: int = 0,
) -> Iterator[pa.RecordBatch]:
    """Yield records as text columns, then the file, the record's number and its problem if any.

    Records are numbered from 1, including a header, without empty lines. Records with too few or
    too many values are nulls with a problem.

    Args:
        file: the file.
        dialect: its CSV dialect.
        columns: the names of its columns.
        text: some of its lines, already read; None for the whole file.
        before: the number of records before them in the file.
    """
    bad: list[pa_csv.InvalidRow] = []
    header = dialect.header and not before
    if not file.size_bytes or text == b"" or (header and _is_one_line(file, text)):
        return
    with _open_text(file, text) as source:
        reader = pa_csv.open_csv(
            source,
            read_options=pa_csv.ReadOptions(
                column_names=columns,
                skip_rows=1 if header else 0,
                block_size=BLOCK_BYTES,
                use_threads=False,
            ),
            parse_options=_parse_options(dialect, bad),
            convert_options=pa_csv.ConvertOptions(
                column_types=dict.fromkeys(columns, pa.string()),
                null_values=[dialect.null_text],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        )
        number = int(header)
        for batch in reader:
            numbers = _numbers(number, batch.num_rows, {line.number for line in bad})
            number = numbers[-1] if numbers else number
            absolute = [before + place for place in numbers]
            yield _add_origin(list(batch.columns), columns, file, absolute, None)
    yield from _bad_batches(bad, columns, file, before)


def _is_one_line(file: TextFile, text: bytes | None) -> bool:
    """Return whether the file is only a header; Arrow cannot skip an unterminated line."""
    if text is None and file.size_bytes > _HEADER_BYTES:
        return False
    if text is None:
        text = open_store(file.root, file.storage_options).read(file.path, 0, file.size_bytes)
    return b"\n" not in text and b"\r" not in text


def _open_text(file: TextFile, text: bytes | None) -> pa.NativeFile:
    if text is not None:
        return pa.BufferReader(text)
    return open_store(file.root, file.storage_options).open_input(file.path)


def iter_lines(
    file: TextFile, *, text: bytes | None = None, before: int = 0
) -> Iterator[pa.RecordBatch]:
    """Yield nonblank lines as one column `value`, with file, number (from 1) and no problem.

    `text` are some of the file's lines, already read, after `before` others.
    """
    if text is not None:
        yield _line_batch(text.split(b"\n"), before, file)
        return
    store = open_store(file.root, file.storage_options)
    number, rest, offset = 0, b"", 0
    while offset < file.size_bytes:
        block = store.read(file.path, offset, BLOCK_BYTES)
        offset += len(block)
        lines = (rest + block).split(b"\n")
        rest = lines.pop() if offset < file.size_bytes else b""
        yield _line_batch(lines, number, file)
        number += len(lines)


def _numbers(last: int, count: int, bad: set[int | None]) -> list[int]:
    """Return the numbers of the next good records, skipping bad ones."""
    if not bad:
        return list(range(last + 1, last + count + 1))
    starts: list[int] = []
    while len(starts) < count:
        last += 1
        if last not in bad:
            starts.append(last)
    return starts


def _line_batch(lines: list[bytes], before: int, file: TextFile) -> pa.RecordBatch:
    kept = [(i, line) for i, line in enumerate(lines, before + 1) if line.strip()]
    text = pa.array([line.decode("utf-8", errors="replace") for _, line in kept], pa.string())
    return _add_origin([text], ["value"], file, [i for i, _ in kept], None)


def _bad_batches(
    bad: Iterable[pa_csv.InvalidRow], columns: list[str], file: TextFile, before: int
) -> Iterator[pa.RecordBatch]:
    rows = list(bad)
    if rows:
        empty = [pa.nulls(len(rows), pa.string()) for _ in columns]
        problems = [
            f"{row.actual_columns} values where {row.expected_columns} are expected: "
            f"{row.text[:200]}"
            for row in rows
        ]
        numbers = [before + (row.number or 0) for row in rows]
        yield _add_origin(empty, columns, file, numbers, problems)


def _add_origin(
    arrays: list[pa.Array],
    names: list[str],
    file: TextFile,
    numbers: list[int],
    problems: list[str] | None,
) -> pa.RecordBatch:
    count = len(numbers)
    origin = [
        pa.array([file.shown] * count, pa.string()),
        pa.array(numbers, pa.int64()),
        pa.nulls(count, pa.string()) if problems is None else pa.array(problems, pa.string()),
    ]
    return pa.RecordBatch.from_arrays([*arrays, *origin], names=[*names, FILE, RECORD, PROBLEM])


def _parse_options(dialect: CsvDialect, bad: list[pa_csv.InvalidRow]) -> pa_csv.ParseOptions:
    def note(row: pa_csv.InvalidRow) -> str:
        bad.append(row)
        return "skip"

    return pa_csv.ParseOptions(
        delimiter=dialect.delimiter,
        quote_char=dialect.quote or False,
        newlines_in_values=True,
        ignore_empty_lines=True,
        invalid_row_handler=note,
    )
