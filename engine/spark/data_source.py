"""Delta tables as Spark's data source `lake`: read, written and streamed by this engine.

For example:

    register(spark)
    frame = spark.read.format("lake").load("/lake/orders")
    frame.write.format("lake").mode("append").save("/lake/copy")
    spark.readStream.format("lake").load("/lake/orders")
"""

from collections.abc import MutableMapping
from typing import ClassVar

from pyspark.sql import SparkSession
from pyspark.sql import types as spark_types
from pyspark.sql.datasource import DataSource

from engine.actions.table import Metadata
from engine.errors import RequestError, TableReplacedError
from engine.log.tip import Tip, is_replaced
from engine.schema.types import parse_schema
from engine.snapshot.change_feed import ENABLED_KEY
from engine.snapshot.stream_log import StreamTerms
from engine.spark.columns import to_spark_schema
from engine.spark.data_source_options import LakeOptions, SourcePlace
from engine.spark.data_source_reader import LakeReader, PruningLakeReader, shape_of
from engine.spark.jvm import make_active, source_exists
from engine.spark.session import is_remote
from engine.spark.stream.table_stream import (
    LakeChangeStream,
    LakeStream,
    add_change_columns,
    drop_change_columns,
)
from engine.spark.write.data_source_writer import LakeSink, LakeWriter, open_table

NAME = "lake"
_PUSHDOWN = "spark.sql.python.filterPushdown.enabled"


class LakeDataSource(DataSource):
    """The data source. Every read of one DataFrame uses the version at which it was created."""

    place: ClassVar[SourcePlace] = SourcePlace()
    prunes: ClassVar[bool] = False

    def __init__(self, options: MutableMapping[str, str]) -> None:
        """Take the options of a read or a write."""
        super().__init__(options)
        self._seen: tuple[int, Metadata, Tip | None] | None = None

    @classmethod
    def name(cls) -> str:
        """Return the format's name."""
        return NAME

    def schema(self) -> spark_types.StructType:
        """Return the columns of the version to read."""
        options = self._parse_options()
        _, metadata, _ = self._version(options)
        schema = to_spark_schema(parse_schema(metadata.schema_string))
        return add_change_columns(schema) if options.change_feed else schema

    def reader(self, schema: spark_types.StructType) -> LakeReader:
        """Return a batch reader.

        Raises:
            TableReplacedError: another table replaced the one whose columns Spark was given.
        """
        options = self._refuse_change_feed()
        version, metadata, tip = self._version(options)
        shape = shape_of(options, self.place, metadata, schema)
        snapshot = open_table(options, self.place).snapshot(version)
        if tip is not None and is_replaced(snapshot.store, tip):
            raise TableReplacedError(snapshot.table_uri, version)
        return (PruningLakeReader if self.prunes else LakeReader)(snapshot, shape)

    def writer(self, schema: spark_types.StructType, overwrite: bool) -> LakeWriter:
        """Return a batch writer."""
        return LakeWriter(self._refuse_change_feed(), self.place, schema, overwrite)

    def streamReader(self, schema: spark_types.StructType) -> LakeStream:  # noqa: N802 - Spark's name
        """Return a stream over the table, or over its changes.

        Raises:
            RequestError: the table has no change feed.
        """
        options = self._parse_options()
        version, metadata, tip = self._version(options)
        if options.change_feed:
            _check_feed(options, metadata)
        terms = StreamTerms(
            metadata,
            version,
            tip=tip,
            accepted_version=-1 if options.change_feed else options.accept_schema_version,
            heeds_properties=True,
            ignore_deletes=options.ignore_deletes,
            ignore_changes=options.ignore_changes,
            skip_change_commits=options.skip_change_commits,
        )
        columns = drop_change_columns(schema) if options.change_feed else schema
        stream = LakeChangeStream if options.change_feed else LakeStream
        return stream(options, shape_of(options, self.place, metadata, columns), terms)

    def streamWriter(self, schema: spark_types.StructType, overwrite: bool) -> LakeSink:  # noqa: N802
        """Return a writer for one batch of a stream."""
        return LakeSink(self._refuse_change_feed(), self.place, schema, overwrite)

    def _parse_options(self) -> LakeOptions:
        return LakeOptions.parse(self.options, self.place)

    def _refuse_change_feed(self) -> LakeOptions:
        """Return the options; refuse a change feed."""
        options = self._parse_options()
        if options.change_feed:
            msg = "The data source lake reads a change feed only as a stream."
            remedy = "Call engine.delta.enable(spark), or use engine.snapshot.change_feed."
            raise RequestError(msg, remedy, field="readChangeFeed")
        return options

    def _version(self, options: LakeOptions) -> tuple[int, Metadata, Tip | None]:
        """Return the requested version, or the latest at the first call; it stays the same."""
        if self._seen is None:
            table = open_table(options, self.place)
            snapshot = table.snapshot(options.version, options.timestamp)
            self._seen = snapshot.version, snapshot.metadata, snapshot.state.tip
        return self._seen


def _check_feed(options: LakeOptions, metadata: Metadata) -> None:
    if metadata.configuration.get(ENABLED_KEY, "false").lower() != "true":
        msg = f"The change data feed of {options.uri} is not enabled."
        raise RequestError(msg, f"Set {ENABLED_KEY} to true.", field="readChangeFeed")
    if options.accept_schema_version >= 0:
        msg = "A stream of changes does not support acceptSchemaVersion."
        raise RequestError(msg, "Start a new stream after that version.", field="path")


def register(spark: SparkSession, place: SourcePlace | None = None) -> None:
    """Make the format `lake` known to a session.

    Args:
        spark: the session; pushing filters to Python data sources is turned on in it.
        place: where tables may be, and how their stores are opened.
    """
    chosen = place or SourcePlace()

    class RegisteredSource(
        LakeDataSource
    ):  # of this call alone: it travels to Python workers by value
        place = chosen
        prunes = True

    spark.conf.set(_PUSHDOWN, "true")
    if not is_remote(spark):
        make_active(spark)
    spark.dataSource.register(RegisteredSource)


def register_for_names(spark: SparkSession) -> None:
    """Register the provider `delta` in a session, so that its catalog accepts names of tables.

    Spark passes a Python source no options for a table of its catalog, so such a table cannot be
    read;
    the error says how to read it. A source already registered under the name is kept.
    """
    if not is_remote(spark) and source_exists(spark, "delta"):
        return

    class NamedSource(LakeDataSource):
        @classmethod
        def name(cls) -> str:
            return "delta"

        def schema(self) -> spark_types.StructType:
            return super().schema() if "path" in self.options else spark_types.StructType()

    spark.dataSource.register(NamedSource)
