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

from engine.snapshot.snapshot import Snapshot
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
        self._version: int | None = None

    @classmethod
    def name(cls) -> str:
        """How it is asked for."""
        return NAME

    def schema(self) -> spark_types.StructType:
        """The columns of the version that is read."""
        return to_spark_schema(self._snapshot(self._parsed()).schema)

    def reader(self, schema: spark_types.StructType) -> LakeReader:
        """A batch read."""
        options = self._parsed()
        snapshot = self._snapshot(options)
        shape = shape_of(snapshot, schema, dict(options.storage_options))
        return (PruningLakeReader if self.prunes else LakeReader)(snapshot, shape)

    def writer(self, schema: spark_types.StructType, overwrite: bool) -> LakeWriter:
        """A batch write."""
        return LakeWriter(self._parsed(), self.place, schema, overwrite)

    def streamReader(self, schema: spark_types.StructType) -> LakeStream:  # noqa: N802 - Spark's name
        """A stream over the table."""
        options = self._parsed()
        return LakeStream(options, self._snapshot(options), schema)

    def streamWriter(self, schema: spark_types.StructType, overwrite: bool) -> LakeSink:  # noqa: N802
        """A batch of a stream into the table."""
        return LakeSink(self._parsed(), self.place, schema, overwrite)

    def _parsed(self) -> LakeOptions:
        return LakeOptions.parse(self.options, self.place)

    def _snapshot(self, options: LakeOptions) -> Snapshot:
        """The version asked for, or else the newest when it was first asked for."""
        table = open_table(options, self.place)
        if self._version is not None:
            return table.snapshot(self._version)
        found = table.snapshot(options.version, options.timestamp)
        self._version = found.version
        return found


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
