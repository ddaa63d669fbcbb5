"""Deletion vectors of many files as one array of bits in a scan's plan, which Spark's own code looks into.

Row *r* of a file is bit *r* mod 64 of word `start + r div 64`. Words end with the file's last deleted
row: whatever lies behind is live.
"""

import os
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyroaring import BitMap64
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import LongType

from engine.actions.files import AddFile
from engine.snapshot.data_files import read_deleted_rows
from engine.spark.columns import column
from engine.spark.file_index import Constant
from engine.spark.jvm import column_of, data_type, expressions, kept
from engine.spark.table_files import TableFiles
from engine.storage.uri import open_store

MOST_WORDS = 4 * 1024 * 1024
"""32 MiB, which every task is sent: a bit a row up to each file's last deleted one."""
_THREADS = min(8, 2 * (os.cpu_count() or 1))
_WORD = 64
_LONGS = '{"type":"array","elementType":"long","containsNull":false}'
_START, _COUNT = "__lake_words_from", "__lake_words"


@dataclass(frozen=True)
class DeletedBits:
    """`words` of all files; of each file where its own start, and how many they are."""

    words: npt.NDArray[np.int64]
    starts: npt.NDArray[np.int64]
    counts: npt.NDArray[np.int64]

    def constants(self) -> list[Constant]:
        """What of each file `live` must find beside its rows."""
        named = ((_START, self.starts), (_COUNT, self.counts))
        return [Constant(n, pa.array(v), LongType(), nullable=False) for n, v in named]

    def live(self, spark: SparkSession, row: Column) -> Column:
        """Whether rows of these positions are live."""
        word, start = F.shiftright(row, 6), column(_START)
        bit = row.bitwiseAND(F.lit(_WORD - 1)).cast("int")
        return (word >= column(_COUNT)) | (F.getbit(self._literal(spark)[start + word], bit) == 0)

    def _literal(self, spark: SparkSession) -> Column:
        inside: Any = spark
        catalyst, context = expressions(spark), spark.sparkContext
        longs = inside.sparkContext._gateway.new_array(inside._jvm.long, len(self.words))
        payload = bytearray(self.words.astype(">i8").tobytes())
        wrap = kept(context, "ByteBuffer.wrap", lambda: inside._jvm.java.nio.ByteBuffer.wrap)
        wrap(payload).asLongBuffer().get(longs)
        array = catalyst.UnsafeArrayData.fromPrimitiveArray(longs)
        kind = kept(context, "longs", lambda: data_type(_LONGS, spark))
        return column_of(catalyst.Literal(array, kind), spark)


def deleted_bits(table: TableFiles, files: Iterable[AddFile]) -> DeletedBits | None:
    """The vectors of files, in their order; None where they are too many for a plan.

    Raises:
        DeletionVectorError: one is missing or damaged.
    """
    store = open_store(table.uri, table.storage_options)

    def words_of(add: AddFile) -> npt.NDArray[np.int64]:
        return _words(read_deleted_rows(store, add, table.allowed_roots))

    parts, total = [], 0
    with ThreadPoolExecutor(_THREADS) as pool:
        for words in pool.map(words_of, files):
            total += len(words)
            if total > MOST_WORDS:
                pool.shutdown(cancel_futures=True)
                return None
            parts.append(words)
    counts = np.array([len(words) for words in parts], np.int64)
    starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)[:-1]])
    return DeletedBits(np.concatenate([*parts, np.zeros(1, np.int64)]), starts, counts)


def _words(rows: BitMap64) -> npt.NDArray[np.int64]:
    if not len(rows):
        return np.zeros(0, np.int64)
    positions = np.fromiter(rows, np.int64, len(rows))
    last = int(positions[-1])
    if last >= MOST_WORDS * _WORD:
        return np.zeros(MOST_WORDS + 1, np.int64)
    bits = np.zeros((last // _WORD + 1) * _WORD, np.uint8)
    bits[positions] = 1
    return np.packbits(bits, bitorder="little").view("<i8").astype(np.int64)
