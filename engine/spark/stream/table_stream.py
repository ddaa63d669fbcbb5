"""A table as a Spark stream: its added rows or its change feed, from the log to the executors.

The executors read the changes of each version as Arrow batches.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa
from pyspark.sql import types as spark_types
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxFiles,
    SupportsTriggerAvailableNow,
)

from engine.errors import RequestError, VersionNotFoundError
from engine.log.commits import list_versions
from engine.log.history import version_from
from engine.snapshot.change_feed import (
    CHANGE_TYPE,
    COMMIT_TIMESTAMP,
    COMMIT_VERSION,
    commit_time_scalar,
    read_changes,
)
from engine.snapshot.change_log import ChangeLog
from engine.snapshot.stream_log import (
    Position,
    SourceReplacedError,
    StreamLimits,
    StreamLog,
    StreamTerms,
)
from engine.snapshot.timestamps import timestamp_to_ms
from engine.spark.data_source_options import LATEST, LakeOptions
from engine.spark.data_source_reader import FileShape, convert_to_batches, partitions_of
from engine.storage.uri import open_store
from engine.table import DeltaTable

_FIRST = "first"

_FILES_OF_A_PIECE = 16
_OWN = frozenset({CHANGE_TYPE, COMMIT_VERSION, COMMIT_TIMESTAMP})


class LakeStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A stream over a table, read under the metadata of the version at the query's start."""

    log_type: ClassVar[type[StreamLog]] = StreamLog

    def __init__(self, options: LakeOptions, shape: FileShape, terms: StreamTerms) -> None:
        """Open a stream over files of a shape, under its terms."""
        self._options, self._shape, self._table_id = options, shape, terms.metadata.id
        store = open_store(options.uri, options.storage_options)
        self._log: StreamLog | None = self.log_type(store, terms)
        self._first: Position | None = None
        self._last_version: int | None = None
        self._is_checked = False

    def __getstate__(self) -> dict[str, Any]:
        """Executors read files, they do not follow the log."""
        return {**self.__dict__, "_log": None}

    @property
    def log(self) -> StreamLog:
        """The source's log.

        Raises:
            RequestError: this is an executor.
        """
        if self._log is None:
            msg = "Only the driver reads offsets."
            raise RequestError(msg)
        return self._log

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Return the offset at which a new query starts."""
        if self._first is None:
            self._first = self._start_position()
        return self._offset(self._first, self._first)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Return the end of the batch that begins at `start`.

        Raises:
            StreamError: the stream may not go on.
        """
        position, first = self._position(start), _first_of(start)
        self._check_since(position)
        last = self._newest() if self._last_version is None else self._last_version
        limits = StreamLimits() if isinstance(limit, ReadAllAvailable) else self._options.limits
        return self._offset(self.log.batch_end(position, limits, last), first)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Return the limit of one batch if the trigger sets none."""
        limits = self._options.limits
        if limits.max_files is not None:
            return ReadMaxFiles(limits.max_files)
        return ReadAllAvailable() if limits.max_bytes is None else ReadMaxBytes(limits.max_bytes)

    def reportLatestOffset(self) -> dict[str, Any]:  # noqa: N802
        """Return the table's latest offset."""
        return Position(self._newest() + 1).to_json(self._table_id)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Go no further than the table is now."""
        self._last_version = self._newest()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return the files between two offsets as partitions."""
        return partitions_of(self.log.files(*self.read_offsets(start, end)))

    def read_offsets(self, start: dict[str, Any], end: dict[str, Any]) -> tuple[Position, Position]:
        """Return the positions of two offsets, after checking that the log allows reading on.

        Raises:
            StreamError: the stream may not go on.
        """
        until = self._position(end)
        begin = self._position(start) if start.get(_FIRST) == end.get(_FIRST) else _first_of(end)
        self._check_since(begin)
        return begin, until

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Iterate over the rows of one partition, on an executor."""
        return self._shape.read(partition)

    def _newest(self) -> int:
        read_version = self.log.terms.version
        return max(read_version, self.log.latest_version(read_version) or read_version)

    def _start_position(self) -> Position:
        chosen = self._options.starting_version
        newest = self._newest()
        if self._options.starting_timestamp is not None:
            chosen = self._version_from(self._options.starting_timestamp)
        if chosen is None:
            return Position(newest, initial=True)
        if chosen == LATEST:
            return Position(newest + 1)
        version = int(chosen)
        earliest = min(list_versions(self.log.store), default=0)
        if not earliest <= version <= newest + 1:
            raise VersionNotFoundError(self.log.store.root, version, earliest, newest)
        return Position(version)

    def _version_from(self, timestamp: str) -> int:
        """Return the first version committed at or after a time."""
        metadata = self.log.terms.metadata
        return version_from(self.log.store, metadata, timestamp_to_ms(timestamp))

    def _check_since(self, position: Position) -> None:
        if not self._is_checked:
            self.log.check_since(position)
            self._is_checked = True

    def _position(self, offset: Mapping[str, Any]) -> Position:
        table_id = str(offset.get("reservoirId", offset.get("table")))
        if table_id != self._table_id:
            raise SourceReplacedError(self.log.store.root, table_id, self._table_id)
        return Position.from_json(offset)

    def _offset(self, position: Position, first: Position) -> dict[str, Any]:
        return {**position.to_json(self._table_id), _FIRST: first.to_json(self._table_id)}


def _first_of(offset: Mapping[str, Any]) -> Position:
    position = offset.get(_FIRST)
    return Position.from_json(position if isinstance(position, Mapping) else offset)


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

    def _position(self, offset: Mapping[str, Any]) -> Position:
        """Return the position of an offset; delta-spark's counts files of changes in its own order."""
        position = super()._position(offset)
        if "reservoirId" in offset and position.index:
            what = f"delta-spark stopped within version {position.version}."
            remedy = "Let it finish that version (maxFilesPerTrigger, maxBytesPerTrigger) first."
            raise RequestError(what, remedy, field="checkpoint")
        return position

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
        """Add columns of later versions as nulls to rows of earlier versions."""
        lost = [
            name
            for name in rows.column_names
            if name not in _OWN and name not in self._shape.schema.names
        ]
        if lost:
            what = (
                f"The stream reads changes of {self._shape.uri}, which no longer has the "
                f"column {lost[0]}."
            )
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
