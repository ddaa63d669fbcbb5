"""Delta tables as Spark's data source `lake`: read, written and streamed by this engine.

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
from engine.schema.types import parse_schema
from engine.snapshot.stream_log import StreamTerms
from engine.spark.columns import to_spark_schema
from engine.spark.data_source_options import LakeOptions, Place
from engine.spark.data_source_reader import LakeReader, PruningLakeReader, shape_of
from engine.spark.data_source_sink import LakeSink
from engine.spark.data_source_stream import LakeStream
from engine.spark.data_source_writer import LakeWriter, open_table

NAME = "lake"
_PUSHDOWN = "spark.sql.python.filterPushdown.enabled"


class LakeDataSource(DataSource):
    """The data source. Every read of one DataFrame sees the version that it was made at."""

    place: ClassVar[Place] = Place()
    prunes: ClassVar[bool] = False

    def __init__(self, options: MutableMapping[str, str]) -> None:
        """What Spark was told about a read or a write."""
        super().__init__(options)
        self._seen: tuple[int, Metadata] | None = None

    @classmethod
    def name(cls) -> str:
        """How it is asked for."""
        return NAME

    def schema(self) -> spark_types.StructType:
        """The columns of the version that is read."""
        _, metadata = self._version(self._parsed())
        return to_spark_schema(parse_schema(metadata.schema_string))

    def reader(self, schema: spark_types.StructType) -> LakeReader:
        """A batch read."""
        options = self._parsed()
        version, metadata = self._version(options)
        shape = shape_of(options, self.place, metadata, schema)
        snapshot = open_table(options, self.place).snapshot(version)
        return (PruningLakeReader if self.prunes else LakeReader)(snapshot, shape)

    def writer(self, schema: spark_types.StructType, overwrite: bool) -> LakeWriter:
        """A batch write."""
        return LakeWriter(self._parsed(), self.place, schema, overwrite)

    def streamReader(self, schema: spark_types.StructType) -> LakeStream:  # noqa: N802 - Spark's name
        """A stream over the table."""
        options = self._parsed()
        version, metadata = self._version(options)
        terms = StreamTerms(
            metadata,
            version,
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

    def _version(self, options: LakeOptions) -> tuple[int, Metadata]:
        """The version asked for, or else the newest when it was first asked for; it stays so."""
        if self._seen is None:
            table = open_table(options, self.place)
            found = table.snapshot(options.version, options.timestamp)
            self._seen = found.version, found.metadata
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
