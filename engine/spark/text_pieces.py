"""Large text files in pieces of whole lines, so that several tasks read one file.

A piece knows how many records stand before it: each record keeps its number in the file. A CSV file
is one piece if its lines may not be its records.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from itertools import accumulate, islice

import pyarrow as pa
from pyspark.sql import SparkSession

from engine.storage.text_files import BLOCK_BYTES, CsvDialect, TextFile
from engine.storage.uri import open_store

PIECE_BYTES = 32 * 1024 * 1024


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
