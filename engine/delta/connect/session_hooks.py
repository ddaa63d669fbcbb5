"""`enable(spark)` for a session of Spark Connect, within the limits of its client.

The client asks the engine, and the engine asks the server for rows and files. The server parses
SQL, so only statements of the engine's own grammar come this way.
"""

from collections.abc import Callable
from typing import Any
from weakref import WeakSet

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.connect.dataframe import DataFrame as ConnectDataFrame
from pyspark.sql.connect.readwriter import DataFrameReader as ConnectReader
from pyspark.sql.connect.readwriter import DataFrameWriter as ConnectWriter
from pyspark.sql.connect.readwriter import DataFrameWriterV2 as ConnectWriterV2
from pyspark.sql.connect.session import SparkSession as ConnectSession

from engine.delta.exceptions import delta_errors
from engine.delta.frame_reader import ReadsDelta
from engine.delta.frame_writer import WritesDelta, WritesDeltaV2
from engine.delta.merge_builder import merge_writer
from engine.delta.session_hooks import read_table, route, route_property
from engine.delta.statements import run_engine_statement
from engine.delta.table_statements import CHANGES
from engine.spark.session import bypass_routing, check_hooks, is_plain

_enabled: "WeakSet[Any]" = WeakSet()
_installed: list[bool] = []

check_hooks(ConnectSession, sql="sqlQuery args kwargs", table="tableName", read=None)
check_hooks(ConnectDataFrame, write=None, writeTo="table", mergeInto="table condition")
check_hooks(ConnectReader, __init__="client")
check_hooks(ConnectWriter, __init__="plan session callback")
check_hooks(ConnectWriterV2, __init__="plan session table callback")


def enable_remote(spark: SparkSession) -> None:
    """Have `format("delta")` and the engine's own statements of a session go through the engine."""
    _enabled.add(spark)
    if _installed:
        return
    _installed.append(True)
    session: Any = ConnectSession
    session.sql = _sql(session.sql)
    session.table = route(session.table, read_table, _is_enabled)
    session.read = route_property(session.read, ConnectFrameReader, _is_enabled)
    frame: Any = ConnectDataFrame
    frame.write = route_property(frame.write, _writer_of, _is_enabled)
    frame.writeTo = route(frame.writeTo, _writer_to, _is_enabled)
    frame.mergeInto = route(frame.mergeInto, merge_writer, _is_enabled)


def _is_enabled(spark: SparkSession) -> bool:
    return not is_plain() and spark in _enabled


def _sql(original: Callable[..., DataFrame]) -> Callable[..., DataFrame]:
    def sql(self: SparkSession, sqlQuery: str, args: Any = None, **kwargs: Any) -> DataFrame:  # noqa: ANN401, N803
        if _is_enabled(self) and not args and not kwargs:
            with bypass_routing(), delta_errors():
                done = run_engine_statement(self, sqlQuery, None, CHANGES)
            if done is not None:
                return done
        return original(self, sqlQuery, args, **kwargs)

    sql.__doc__ = original.__doc__
    return sql


class ConnectFrameReader(ReadsDelta, ConnectReader):  # type: ignore[misc] # of another kind of session
    """The reader of a session of Spark Connect."""


class ConnectFrameWriter(WritesDelta, ConnectWriter):  # type: ignore[misc]
    """The writer of a frame of Spark Connect."""


class ConnectFrameWriterV2(WritesDeltaV2, ConnectWriterV2):  # type: ignore[misc]
    """The writer of a frame of Spark Connect to a name."""


def _writer_of(frame: DataFrame) -> WritesDelta:
    """Return the writer for `df.write`."""
    inside: Any = frame
    return ConnectFrameWriter(frame, inside._plan, inside._session)


def _writer_to(frame: DataFrame, table: str) -> WritesDeltaV2:
    """Return the writer for `df.writeTo`."""
    inside: Any = frame
    return ConnectFrameWriterV2(frame, table, inside._plan, inside._session, table)
