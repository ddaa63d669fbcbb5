"""Readers and writers of sessions of Spark Connect that are enabled: Delta tables are the engine's.

The client asks the engine, and the engine asks the server for rows and files. SQL is parsed by the
server, so that only statements of the engine's own grammar come this way.
"""

from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.connect.readwriter import DataFrameReader as ConnectReader
from pyspark.sql.connect.readwriter import DataFrameWriter as ConnectWriter
from pyspark.sql.connect.readwriter import DataFrameWriterV2 as ConnectWriterV2

from engine.delta.frame_reader import ReadsDelta
from engine.delta.frame_writer import WritesDelta
from engine.delta.frame_writer_v2 import WritesDeltaV2


class ConnectFrameReader(ReadsDelta, ConnectReader):  # type: ignore[misc] # of another kind of session
    """The reader of a session of Spark Connect."""


class ConnectFrameWriter(WritesDelta, ConnectWriter):  # type: ignore[misc]
    """The writer of a frame of Spark Connect."""


class ConnectFrameWriterV2(WritesDeltaV2, ConnectWriterV2):  # type: ignore[misc]
    """The writer of a frame of Spark Connect to a name."""


def reader_of(session: SparkSession) -> ReadsDelta:
    """What `spark.read` is."""
    return ConnectFrameReader(session)


def writer_of(frame: DataFrame) -> WritesDelta:
    """What `df.write` is."""
    inside: Any = frame
    return ConnectFrameWriter(frame, inside._plan, inside._session)


def writer_to(frame: DataFrame, table: str) -> WritesDeltaV2:
    """What `df.writeTo` gives."""
    inside: Any = frame
    return ConnectFrameWriterV2(frame, table, inside._plan, inside._session, table)
