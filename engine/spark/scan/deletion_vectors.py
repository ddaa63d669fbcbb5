"""Deletion vectors as a constant of each file in a scan, tested by Spark's own code.

Row *r* of a file is bit *r* mod 64 of the big-endian word at byte 8 · (*r* div 64). The bytes end
with the file's last deleted row: every row behind it is live. A frame whose files have no such
constant leaves deleted rows out on the executors (`live_rows`).
"""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyroaring import BitMap64
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import BinaryType

from engine.actions.files import AddFile
from engine.snapshot.data_files import read_deleted_rows
from engine.spark.columns import column
from engine.spark.jvm import (
    column_of,
    data_type,
    expression_of,
    expressions,
    keep_in_jvm,
    scala_seq,
)
from engine.spark.scan.file_index import ConstantColumn
from engine.spark.table_files import TableFiles
from engine.storage.uri import open_store

MOST_WORDS = 4 * 1024 * 1024
"""32 MiB: a bit a row up to each file's last deleted one."""
MOST_LIVE_WORDS = 16 * MOST_WORDS
"""Limit for a frame without another way to leave out rows."""
_THREADS = min(8, 2 * (os.cpu_count() or 1))
_BYTES = 8
_WORDS = "__lake_deleted"
_COMPARATOR = "org.apache.hadoop.io.WritableComparator"


def build_deleted_constant(words: Sequence[bytes | None]) -> ConstantColumn:
    """Return the constant for `is_live`, from the words of each file."""
    return ConstantColumn(_WORDS, pa.array(words, pa.binary()), BinaryType())


def is_live(spark: SparkSession, row: Column) -> Column:
    """Return whether rows of these positions are live."""
    words = column(_WORDS)
    place = F.shiftright(row, 6) * _BYTES
    bit = row.bitwiseAND(F.lit(_BYTES * 8 - 1)).cast("int")
    word = column_of(_word_at(spark, words, place.cast("int")), spark)
    is_behind = words.isNull() | (place >= F.octet_length(words))
    return F.when(is_behind, F.lit(True)).otherwise(F.getbit(word, bit) == 0)


def _word_at(spark: SparkSession, words: Column, place: Column) -> Any:  # noqa: ANN401 - the JVM's
    """Return the word at a byte, by a method with bounds checks."""
    inside: Any = spark
    jvm, context = inside._jvm, spark.sparkContext
    nothing = scala_seq([], spark)
    return expressions(spark).objects.StaticInvoke(
        keep_in_jvm(
            context, "WritableComparator", lambda: jvm.java.lang.Class.forName(_COMPARATOR)
        ),
        keep_in_jvm(context, "long", lambda: data_type('"long"', spark)),
        "readLong",
        scala_seq([expression_of(words, spark), expression_of(place, spark)], spark),
        nothing,
        True,
        True,
        True,
        jvm.scala.Option.apply(None),
    )


def read_deleted_words(
    table: TableFiles, files: Iterable[AddFile], most_words: int | None = None
) -> list[bytes | None] | None:
    """Return the words of each file, None for a file without deleted rows.

    The result is None if all files together take more than `most_words` (MOST_WORDS by default).

    Raises:
        DeletionVectorError: a vector is missing or damaged.
    """
    store = open_store(table.uri, table.storage_options)
    left = MOST_WORDS if most_words is None else most_words

    def words_of(add: AddFile) -> bytes | None:
        rows = read_deleted_rows(store, add, table.allowed_roots)
        if len(rows) and rows.max() >= left * _BYTES * 8:
            raise _TooManyError
        return _words(rows) or None

    parts = []
    try:
        with ThreadPoolExecutor(_THREADS) as pool:
            for words in pool.map(words_of, files):
                left -= len(words or b"") // _BYTES
                if left < 0:
                    pool.shutdown(cancel_futures=True)
                    return None
                parts.append(words)
    except _TooManyError:
        return None
    return parts


class _TooManyError(Exception):
    """A file's vector alone takes more words than there may be."""


def _words(rows: BitMap64) -> bytes:
    if not len(rows):
        return b""
    positions = np.fromiter(rows, np.int64, len(rows))
    bits = np.zeros((int(positions[-1]) // 64 + 1) * 64, np.uint8)
    bits[positions] = 1
    return np.packbits(bits, bitorder="little").view("<u8").astype(">u8").tobytes()


def live_rows(
    table: TableFiles, files: Mapping[int, AddFile]
) -> Callable[[Column, Column], Column]:
    """Return a function of a file's number and a row's position: whether the row is live."""
    masked = {index: _drop_claims(add) for index, add in files.items()}
    roots = tuple(table.allowed_roots)
    mask = _Mask(table.uri, dict(table.storage_options), masked, roots)

    def live(file: pa.Array, row: pa.Array) -> pa.Array:
        return mask.live(file.to_numpy(zero_copy_only=False), row.to_numpy(zero_copy_only=False))

    live.__annotations__ = {"file": pa.Array, "row": pa.Array, "return": pa.Array}
    udf: Callable[[Column, Column], Column] = F.arrow_udf(live, "boolean")  # type: ignore[attr-defined] # missing in its stubs
    return udf


def _drop_claims(add: AddFile) -> AddFile:
    """Return a file without statistics and tags, which executors do not need."""
    return msgspec.structs.replace(add, stats=None, tags=None)


@dataclass
class _Mask:
    """The mask of live rows, evaluated on an executor."""

    uri: str
    storage_options: dict[str, str]
    files: dict[int, AddFile]
    allowed_roots: tuple[str, ...] = ()
    _deleted: dict[int, npt.NDArray[np.uint64]] = field(default_factory=dict)

    def live(self, files: npt.NDArray[np.int32], rows: npt.NDArray[np.int64]) -> pa.Array:
        alive = np.ones(len(files), dtype=bool)
        for index in np.unique(files):
            here = files == index
            alive[here] = ~_is_member(rows[here].astype(np.uint64), self._load_deleted(int(index)))
        return pa.array(alive)

    def _load_deleted(self, index: int) -> npt.NDArray[np.uint64]:
        if index not in self._deleted:
            if len(self._deleted) > 64:
                self._deleted.clear()
            store = open_store(self.uri, self.storage_options)
            deleted = read_deleted_rows(store, self.files[index], self.allowed_roots)
            self._deleted[index] = np.fromiter(deleted, dtype=np.uint64)
        return self._deleted[index]


def _is_member(
    values: npt.NDArray[np.uint64], ordered: npt.NDArray[np.uint64]
) -> npt.NDArray[np.bool_]:
    places = np.searchsorted(ordered, values)
    inside = places < len(ordered)
    hits = np.zeros(len(values), dtype=bool)
    hits[inside] = ordered[places[inside]] == values[inside]
    return hits
