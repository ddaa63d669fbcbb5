"""The change feed of a table as a stream: each version's changes on the executors, as Arrow batches."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa
from pyspark.sql import types as spark_types
from pyspark.sql.datasource import InputPartition
from pyspark.sql.pandas.types import to_arrow_schema

from engine.errors import RequestError
from engine.snapshot.change_feed import (
    CHANGE_TYPE,
    COMMIT_TIMESTAMP,
    COMMIT_VERSION,
    commit_time_scalar,
    read_changes,
)
from engine.snapshot.change_log import ChangeLog
from engine.snapshot.stream_log import StreamLog
from engine.spark.data_source_reader import convert_to_batches, partitions_of
from engine.spark.table_stream import LakeStream
from engine.table import DeltaTable

_FILES_OF_A_PIECE = 16
_OWN = frozenset({CHANGE_TYPE, COMMIT_VERSION, COMMIT_TIMESTAMP})


def add_change_columns(schema: spark_types.StructType) -> spark_types.StructType:
    """Return a table's columns and the columns that describe a change."""
    columns = spark_types.StructType(list(schema.fields))
    columns = columns.add(CHANGE_TYPE, "string").add(COMMIT_VERSION, "long")
    return columns.add(COMMIT_TIMESTAMP, "timestamp")


def drop_change_columns(schema: spark_types.StructType) -> spark_types.StructType:
    """Return the table's columns without the change columns."""
    return spark_types.StructType([field for field in schema if field.name not in _OWN])


@dataclass(frozen=True)
class ChangePiece:
    """A unit of work: versions, both ends included, or files of the stream's initial version.

    Attributes:
        files: lines of the log; empty for versions.
        timestamp_ms: commit time of `first`, for files.
    """

    first: int
    last: int
    files: tuple[str, ...] = ()
    timestamp_ms: int = 0


class LakeChangeStream(LakeStream):
    """A stream of a table's changes; a new one begins with the existing rows as inserts."""

    log_type: ClassVar[type[StreamLog]] = ChangeLog

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return the changes between two offsets as partitions."""
        begin, until = self.read_offsets(start, end)
        log = self.log
        if not isinstance(log, ChangeLog):  # it is, as `log_type` says
            return []
        pieces = [ChangePiece(*ends) for ends in log.ranges(begin, until, _FILES_OF_A_PIECE)]
        if begin.initial and begin != until:
            snapshot = self._table().snapshot(begin.version)
            pieces = [
                *(
                    ChangePiece(
                        begin.version, begin.version, tuple(part.value), snapshot.timestamp_ms
                    )
                    for part in partitions_of(snapshot.add_files())
                ),
                *pieces,
            ]
        return [InputPartition(piece) for piece in pieces]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Iterate over the changes of one piece, on an executor."""
        piece = partition.value
        if not isinstance(piece, ChangePiece):
            return
        if piece.files:
            for batch in self._shape.read(InputPartition(list(piece.files))):
                yield from convert_to_batches(_mark_inserted(batch, piece), self._arrow)
            return
        rows = read_changes(self._table(), piece.first, piece.last)
        yield from convert_to_batches(self._add_missing_columns(rows), self._arrow)

    def _table(self) -> DeltaTable:
        shape = self._shape
        roots = tuple(shape.allowed_roots)
        return DeltaTable.open(shape.uri, shape.storage_options, allowed_roots=roots)

    @property
    def _arrow(self) -> pa.Schema:
        """The columns as Spark expects them."""
        own = to_arrow_schema(add_change_columns(spark_types.StructType()), timezone="UTC")
        return pa.schema([*self._shape.arrow, *own])

    def _add_missing_columns(self, rows: pa.Table) -> pa.Table:
        """Add columns of later versions as nulls to rows of earlier versions.

        Raises:
            RequestError: the rows have a column that the stream does not show.
        """
        lost = [
            name
            for name in rows.column_names
            if name not in _OWN and name not in self._shape.schema.names
        ]
        if lost:
            what = f"The stream reads changes of {self._shape.uri}, and has no column {lost[0]}."
            raise RequestError(what, "Start a new stream after that version.", field="path")
        for field in self._arrow:
            if field.name not in rows.column_names:
                rows = rows.append_column(field, pa.nulls(rows.num_rows, field.type))
        return rows


def _mark_inserted(batch: pa.RecordBatch, piece: ChangePiece) -> pa.Table:
    """Mark the rows of the initial version as inserted by that version."""
    rows, count = pa.Table.from_batches([batch]), batch.num_rows
    for name, value in (
        (CHANGE_TYPE, pa.scalar("insert")),
        (COMMIT_VERSION, pa.scalar(piece.first, pa.int64())),
        (COMMIT_TIMESTAMP, commit_time_scalar(piece.timestamp_ms)),
    ):
        rows = rows.append_column(name, pa.repeat(value, count))
    return rows
