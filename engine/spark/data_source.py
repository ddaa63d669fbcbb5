"""Delta tables as Spark's data source `lake`: read, written and streamed by this engine.

register(spark)
frame = spark.read.format("lake").load("/lake/orders")
frame.write.format("lake").mode("append").save("/lake/copy")
spark.readStream.format("lake").load("/lake/orders")
"""

from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from typing import Any, ClassVar

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import types as spark_types
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxFiles,
    SupportsTriggerAvailableNow,
)

from engine.actions.table import Metadata
from engine.errors import (
    RequestError,
    TableReplacedError,
    TimestampOutOfRangeError,
    VersionNotFoundError,
)
from engine.log.commits import list_versions
from engine.log.history import version_at
from engine.log.tip import Tip, is_replaced
from engine.schema.types import parse_schema
from engine.snapshot.stream_errors import SourceReplacedError
from engine.snapshot.stream_log import StreamLimits, StreamLog, StreamTerms
from engine.snapshot.stream_position import Position
from engine.snapshot.timestamps import timestamp_to_ms
from engine.spark.columns import to_spark_schema
from engine.spark.data_source_options import LATEST, LakeOptions, Place
from engine.spark.data_source_reader import (
    FileShape,
    LakeReader,
    PruningLakeReader,
    partitions_of,
    shape_of,
)
from engine.spark.data_source_sink import LakeSink
from engine.spark.data_source_writer import LakeWriter, open_table
from engine.spark.jvm import source_exists
from engine.spark.session import is_remote
from engine.storage.uri import open_store

_FIRST = "first"


class LakeStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A stream over a table, read under the metadata of the version where the query began."""

    def __init__(self, options: LakeOptions, shape: FileShape, terms: StreamTerms) -> None:
        """A stream that reads files of a shape under its terms."""
        self._options, self._shape, self._table_id = options, shape, terms.metadata.id
        store = open_store(options.uri, options.storage_options)
        self._log: StreamLog | None = StreamLog(store, terms)
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
            msg = "Offsets are the driver's matter."
            raise RequestError(msg)
        return self._log

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Where a new query begins."""
        if self._first is None:
            self._first = self._beginning()
        return self._offset(self._first, self._first)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Where the batch that begins at `start` ends.

        Raises:
            StreamError: the stream may not go on.
        """
        position, first = self._position(start), _first_of(start)
        self._check_since(position)
        last = self._newest() if self._last_version is None else self._last_version
        limits = StreamLimits() if isinstance(limit, ReadAllAvailable) else self._options.limits
        return self._offset(self.log.batch_end(position, limits, last), first)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """What one batch may hold where the trigger does not say."""
        limits = self._options.limits
        if limits.max_files is not None:
            return ReadMaxFiles(limits.max_files)
        return ReadAllAvailable() if limits.max_bytes is None else ReadMaxBytes(limits.max_bytes)

    def reportLatestOffset(self) -> dict[str, Any]:  # noqa: N802
        """How far the table is."""
        return Position(self._newest() + 1).to_json(self._table_id)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Go no further than the table is now."""
        self._last_version = self._newest()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """The files between two offsets."""
        until = self._position(end)
        begin = self._position(start) if start.get(_FIRST) == end.get(_FIRST) else _first_of(end)
        self._check_since(begin)
        return partitions_of(self.log.files(begin, until))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one partition, on an executor."""
        return self._shape.read(partition)

    def _newest(self) -> int:
        read_version = self.log.terms.version
        return max(read_version, self.log.latest_version(read_version) or read_version)

    def _beginning(self) -> Position:
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
        """The first version that was committed at a time or later."""
        store, metadata, time_ms = (
            self.log.store,
            self.log.terms.metadata,
            timestamp_to_ms(timestamp),
        )
        until = version_at(store, metadata, time_ms)
        try:
            return version_at(store, metadata, time_ms - 1) + 1
        except TimestampOutOfRangeError:  # committed at that very millisecond, and the first
            return until

    def _check_since(self, position: Position) -> None:
        if not self._is_checked:
            self.log.check_since(position)
            self._is_checked = True

    def _position(self, offset: Mapping[str, Any]) -> Position:
        if offset.get("table") != self._table_id:
            table_id = str(offset.get("table"))
            raise SourceReplacedError(self.log.store.root, table_id, self._table_id)
        return Position.from_json(offset)

    def _offset(self, position: Position, first: Position) -> dict[str, Any]:
        return {**position.to_json(self._table_id), _FIRST: first.to_json(self._table_id)}


def _first_of(offset: Mapping[str, Any]) -> Position:
    position = offset.get(_FIRST)
    return Position.from_json(position if isinstance(position, Mapping) else offset)


NAME = "lake"
_PUSHDOWN = "spark.sql.python.filterPushdown.enabled"


class LakeDataSource(DataSource):
    """The data source. Every read of one DataFrame sees the version that it was made at."""

    place: ClassVar[Place] = Place()
    prunes: ClassVar[bool] = False

    def __init__(self, options: MutableMapping[str, str]) -> None:
        """What Spark was told about a read or a write."""
        super().__init__(options)
        self._seen: tuple[int, Metadata, Tip | None] | None = None

    @classmethod
    def name(cls) -> str:
        """How it is asked for."""
        return NAME

    def schema(self) -> spark_types.StructType:
        """The columns of the version that is read."""
        _, metadata, _ = self._version(self._parsed())
        return to_spark_schema(parse_schema(metadata.schema_string))

    def reader(self, schema: spark_types.StructType) -> LakeReader:
        """A batch read.

        Raises:
            TableReplacedError: another table is in the place of the one whose columns Spark was told.
        """
        options = self._parsed()
        version, metadata, tip = self._version(options)
        shape = shape_of(options, self.place, metadata, schema)
        snapshot = open_table(options, self.place).snapshot(version)
        if tip is not None and is_replaced(snapshot.store, tip):
            raise TableReplacedError(snapshot.table_uri, version)
        return (PruningLakeReader if self.prunes else LakeReader)(snapshot, shape)

    def writer(self, schema: spark_types.StructType, overwrite: bool) -> LakeWriter:
        """A batch write."""
        return LakeWriter(self._parsed(), self.place, schema, overwrite)

    def streamReader(self, schema: spark_types.StructType) -> LakeStream:  # noqa: N802 - Spark's name
        """A stream over the table."""
        options = self._parsed()
        version, metadata, tip = self._version(options)
        terms = StreamTerms(
            metadata,
            version,
            tip=tip,
            accepted_version=options.accept_schema_version,
            heeds_properties=True,
            ignore_deletes=options.ignore_deletes,
            ignore_changes=options.ignore_changes,
            skip_change_commits=options.skip_change_commits,
        )
        return LakeStream(options, shape_of(options, self.place, metadata, schema), terms)

    def streamWriter(self, schema: spark_types.StructType, overwrite: bool) -> LakeSink:  # noqa: N802
        """A batch of a stream into the table."""
        return LakeSink(self._parsed(), self.place, schema, overwrite)

    def _parsed(self) -> LakeOptions:
        return LakeOptions.parse(self.options, self.place)

    def _version(self, options: LakeOptions) -> tuple[int, Metadata, Tip | None]:
        """The version asked for, or else the newest when it was first asked for; it stays so."""
        if self._seen is None:
            table = open_table(options, self.place)
            snapshot = table.snapshot(options.version, options.timestamp)
            self._seen = snapshot.version, snapshot.metadata, snapshot.state.tip
        return self._seen


def register(spark: SparkSession, place: Place | None = None) -> None:
    """Make the format `lake` known to a session.

    Args:
        spark: the session; pushing filters to Python data sources is turned on in it.
        place: where tables may be, and how their stores are opened.
    """
    chosen = place or Place()

    class Registered(LakeDataSource):  # of this call alone: it travels to Python workers by value
        place = chosen
        prunes = True

    spark.conf.set(_PUSHDOWN, "true")
    spark.dataSource.register(Registered)


def register_for_names(spark: SparkSession) -> None:
    """Make the provider `delta` known to a session, so that its catalogue takes names of tables.

    Spark hands a Python source of a catalogue's table no options, so that it cannot be read there:
    the error says how it can. A source that the session has under that name already is kept.
    """
    if not is_remote(spark) and source_exists(spark, "delta"):
        return

    class Named(LakeDataSource):
        @classmethod
        def name(cls) -> str:
            return "delta"

        def schema(self) -> spark_types.StructType:
            return super().schema() if "path" in self.options else spark_types.StructType()

    spark.dataSource.register(Named)
