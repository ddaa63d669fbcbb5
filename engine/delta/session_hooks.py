"""`enable(spark)`: Delta tables of a session go through the engine, by the names that programs use.

PySpark has no hook without a class of one's own in the JVM. Its classes are therefore patched once
to check whether a session is enabled. A setting of the session holds the flag: Spark copies it with
the session for streams, and every other session behaves as in PySpark.
"""

from collections.abc import Callable
from functools import wraps
from importlib import import_module
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame
from pyspark.sql.merge import MergeIntoWriter
from pyspark.sql.readwriter import DataFrameReader, DataFrameWriter, DataFrameWriterV2
from pyspark.sql.sql_formatter import SQLStringFormatter
from pyspark.sql.streaming.readwriter import DataStreamReader, DataStreamWriter

from engine.delta.frame_reader import STREAM_SOURCE, DeltaFrameReader, DeltaStreamReader
from engine.delta.frame_writer import DeltaFrameWriter, DeltaFrameWriterV2, DeltaStreamWriter
from engine.delta.handle import RETRIES, session_retries
from engine.delta.merge_builder import merge_writer
from engine.delta.names import uses_delta_spark
from engine.delta.statements import run_statement
from engine.errors import RequestError
from engine.snapshot.snapshot import Snapshot
from engine.spark.data_source import register, register_for_names
from engine.spark.data_source_options import SourcePlace
from engine.spark.jvm import source_exists
from engine.spark.scan.live_frames import pin_versions, refresh
from engine.spark.scan.live_tables import LiveTable
from engine.spark.session import bypass_routing, check_hooks, is_plain, is_remote, send_engine

SETTING = "spark.lakeui.enabled"
_installed: list[bool] = []

check_hooks(
    SparkSession,
    sql="sqlQuery args kwargs",
    table="tableName",
    newSession="",
    read=None,
    readStream=None,
)
check_hooks(
    ClassicDataFrame,
    collect="",
    toPandas="",
    toArrow="",
    toLocalIterator="prefetchPartitions",
    rdd=None,
    write=None,
    writeStream=None,
    writeTo="table",
    mergeInto="table condition",
)
check_hooks(DataFrameReader, __init__="spark")
check_hooks(DataStreamReader, __init__="spark")
check_hooks(DataFrameWriter, __init__="df")
check_hooks(DataStreamWriter, __init__="df")
check_hooks(DataFrameWriterV2, __init__="df table")
check_hooks(MergeIntoWriter, __init__="df table condition")


class NotEnabledError(RequestError, code="LAKE_SESSION_NOT_ENABLED"):
    """The engine cannot or must not take over the session."""


def enable(
    spark: SparkSession, *, take_over: bool = False, retries: int | None = None
) -> SparkSession:
    """Route `spark.sql` and `format("delta")` of a session through the engine for Delta tables.

    Spark Connect: `format("delta")`, names, `writeTo` and `mergeInto`, and statements of the
    engine's own grammar; its server parses the others.

    Args:
        spark: the session; sessions from its `newSession` are enabled too.
        take_over: enable it even if delta-spark is on the class path.
        retries: how often its writes are retried after a retryable conflict; the same as the
            setting `spark.lakeui.retries`.

    Raises:
        NotEnabledError: delta-spark is there already.
    """
    if retries is not None:
        spark.conf.set(RETRIES, str(retries))
        session_retries(spark)
    if is_remote(spark):
        import_module("engine.delta.connect.session_hooks").enable_remote(spark)
        return spark
    if not take_over and has_delta_spark(spark):
        what = "delta-spark is on the class path of this session and already handles Delta tables."
        raise NotEnabledError(what, "Call enable(spark, take_over=True).", field="spark")
    send_engine(spark)
    _install()
    _switch_on(spark)
    return spark


def is_enabled(spark: SparkSession) -> bool:
    """Whether the engine has Delta tables of a session now."""
    return not is_plain() and spark.conf.get(SETTING, None) == "true"


def has_delta_spark(spark: SparkSession) -> bool:
    """Whether delta-spark's classes are available to the session."""
    inside: Any = spark
    loader = inside._jvm.org.apache.spark.util.Utils
    return uses_delta_spark(spark) or bool(
        loader.classIsLoadable("org.apache.spark.sql.delta.DeltaLog")
    )


def _switch_on(spark: SparkSession) -> None:
    if not source_exists(spark, STREAM_SOURCE):
        register(spark, SourcePlace(allowed_roots=("/",)))
    if not has_delta_spark(spark):
        register_for_names(spark)
    spark.conf.set(SETTING, "true")


def _install() -> None:
    """Patch PySpark's classes, once in a process."""
    if _installed:
        return
    _installed.append(True)
    session: Any = SparkSession
    session.sql = _sql(session.sql)
    session.newSession = _new_session(session.newSession)
    session.read = _property(session.read, DeltaFrameReader)
    session.readStream = _property(session.readStream, DeltaStreamReader)
    session.table = _table(session.table)
    frame: Any = ClassicDataFrame
    frame.write = _property(frame.write, DeltaFrameWriter)
    frame.writeStream = _property(frame.writeStream, DeltaStreamWriter)
    frame.writeTo = _write_to(frame.writeTo)
    frame.mergeInto = _merge_into(frame.mergeInto)
    for name in ("collect", "toPandas", "toArrow"):
        setattr(frame, name, _wrap_other_frame(getattr(frame, name), refresh))
    frame.toLocalIterator = _wrap_other_frame(frame.toLocalIterator, _pin_now)
    frame.rdd = _rdd(frame.rdd)


def _sql(original: Callable[..., DataFrame]) -> Callable[..., DataFrame]:
    def sql(self: SparkSession, sqlQuery: str, args: Any = None, **kwargs: Any) -> DataFrame:  # noqa: ANN401, N803
        if not is_enabled(self):
            return original(self, sqlQuery, args, **kwargs)
        formatter = SQLStringFormatter(self)
        text = formatter.format(sqlQuery, **kwargs) if kwargs else sqlQuery
        try:
            return run_statement(self, text, args, lambda plain: original(self, plain, args))
        finally:
            formatter.clear()

    sql.__doc__ = original.__doc__
    return sql


def _property(original: property, ours: Callable[[Any], Any]) -> property:
    """Return a property of sessions or frames with our reader or writer in an enabled session."""

    def value(self: Any) -> Any:  # noqa: ANN401
        session = self if isinstance(self, SparkSession) else self.sparkSession
        return ours(self) if is_enabled(session) else original.__get__(self)

    return property(value, doc=original.__doc__)


def _table(original: Callable[..., DataFrame]) -> Callable[..., DataFrame]:
    def table(self: SparkSession, tableName: str) -> DataFrame:  # noqa: N803
        return self.read.table(tableName) if is_enabled(self) else original(self, tableName)

    table.__doc__ = original.__doc__
    return table


def _write_to(original: Callable[..., Any]) -> Callable[..., Any]:
    def write_to(self: DataFrame, table: str) -> Any:  # noqa: ANN401
        enabled = is_enabled(self.sparkSession)
        return DeltaFrameWriterV2(self, table) if enabled else original(self, table)

    write_to.__doc__ = original.__doc__
    return write_to


def _merge_into(original: Callable[..., Any]) -> Callable[..., Any]:
    def merge_into(self: DataFrame, table: str, condition: Column) -> Any:  # noqa: ANN401
        ours = merge_writer(self, table, condition) if is_enabled(self.sparkSession) else None
        return original(self, table, condition) if ours is None else ours

    merge_into.__doc__ = original.__doc__
    return merge_into


def _wrap_other_frame(
    original: Callable[..., Any], other: Callable[[DataFrame], DataFrame]
) -> Callable[..., Any]:
    """Run an action on another frame of the same rows: Spark keeps the files of its last run."""

    @wraps(original)
    def action(self: DataFrame, *arguments: Any, **keywords: Any) -> Any:  # noqa: ANN401
        frame = other(self) if is_enabled(self.sparkSession) else self
        return original(frame, *arguments, **keywords)

    return action


def _rdd(original: Any) -> property:  # noqa: ANN401 - a property, or one that is kept
    """Return a property with the rows as an RDD, all of one version of each table."""

    def rdd(self: DataFrame) -> Any:  # noqa: ANN401
        frame = _pin_now(self) if is_enabled(self.sparkSession) else self
        return original.__get__(frame, type(frame))

    return property(rdd, doc=original.__doc__)


def _pin_now(frame: DataFrame) -> DataFrame:
    """Return the frame at the versions of now: outside of a query each scan might see another one."""
    snapshots: dict[str, Snapshot] = {}

    def choose(live: LiveTable) -> Snapshot:
        if live.place not in snapshots:
            snapshots[live.place] = live.table.snapshot()
        return snapshots[live.place]

    return pin_versions(frame, choose)


def _new_session(original: Callable[..., SparkSession]) -> Callable[..., SparkSession]:
    def new_session(self: SparkSession) -> SparkSession:
        enabled, retries = is_enabled(self), self.conf.get(RETRIES, None)
        with bypass_routing():
            result = original(self)
            if enabled:
                _switch_on(result)
                result.conf.set(RETRIES, retries or "0")
        return result

    new_session.__doc__ = original.__doc__
    return new_session
