"""`enable(spark)`: Delta tables of a session go through the engine, by the names that programs use.

PySpark has no hook without a class of one's own in the JVM. Its classes are therefore patched once
to check whether a session is enabled. A setting of the session holds the flag: Spark copies it with
the session for streams, and every other session behaves as in PySpark.
"""

from collections.abc import Callable
from functools import wraps
from importlib import import_module
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.catalog import Catalog, Table
from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame
from pyspark.sql.merge import MergeIntoWriter
from pyspark.sql.readwriter import DataFrameReader, DataFrameWriter, DataFrameWriterV2
from pyspark.sql.sql_formatter import SQLStringFormatter
from pyspark.sql.streaming.readwriter import DataStreamReader, DataStreamWriter
from pyspark.sql.types import StructType

from engine.delta.create_statements import create_by_catalog
from engine.delta.exceptions import delta_errors
from engine.delta.frame_reader import STREAM_SOURCE, DeltaFrameReader, DeltaStreamReader, is_delta
from engine.delta.frame_writer import DeltaFrameWriter, DeltaFrameWriterV2, DeltaStreamWriter
from engine.delta.handle import RETRIES, session_retries
from engine.delta.merge_builder import merge_writer
from engine.delta.names import find_delta, open_table, parts_in, uses_delta_spark
from engine.delta.result_frames import catalog_columns
from engine.delta.statement_views import StatementViews
from engine.delta.statements import refuse_cache, run_statement
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
check_hooks(
    Catalog,
    createTable="tableName path source schema description options",
    listColumns="tableName dbName",
    getTable="tableName",
    listTables="dbName pattern",
    cacheTable="tableName storageLevel",
    isCached="tableName",
    uncacheTable="tableName",
    refreshTable="tableName",
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
    session.read = route_property(session.read, DeltaFrameReader, is_enabled)
    session.readStream = route_property(session.readStream, DeltaStreamReader, is_enabled)
    session.table = route(session.table, read_table, is_enabled)
    catalog: Any = Catalog
    catalog.createTable = _create_table(catalog.createTable)
    catalog.cacheTable = _answer_of_cache(catalog.cacheTable, refuse_cache)
    catalog.isCached = _answer_of_cache(catalog.isCached, lambda _: False)
    catalog.uncacheTable = _answer_of_cache(catalog.uncacheTable, lambda _: None)
    catalog.refreshTable = _answer_of_cache(catalog.refreshTable, lambda _: None)
    catalog.listColumns = _list_columns(catalog.listColumns)
    catalog.getTable = _describe_tables(catalog.getTable)
    catalog.listTables = _describe_tables(catalog.listTables)
    frame: Any = ClassicDataFrame
    frame.write = route_property(frame.write, DeltaFrameWriter, is_enabled)
    frame.writeStream = route_property(frame.writeStream, DeltaStreamWriter, is_enabled)
    frame.writeTo = route(frame.writeTo, DeltaFrameWriterV2, is_enabled)
    frame.mergeInto = route(frame.mergeInto, merge_writer, is_enabled)
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


def route(
    original: Callable[..., Any], ours: Callable[..., Any], enabled: Callable[[Any], bool]
) -> Callable[..., Any]:
    """Return a method of sessions or frames that calls ours if the session is enabled.

    The original is called if ours returns None.
    """

    @wraps(original)
    def method(self: Any, *arguments: Any, **keywords: Any) -> Any:  # noqa: ANN401 - as PySpark's
        is_ours = enabled(getattr(self, "sparkSession", self))
        result = ours(self, *arguments, **keywords) if is_ours else None
        return original(self, *arguments, **keywords) if result is None else result

    return method


def route_property(
    original: property, ours: Callable[[Any], Any], enabled: Callable[[Any], bool]
) -> property:
    """Return a property of sessions or frames that is ours if the session is enabled."""
    getter: Any = original.fget
    return property(route(getter, ours, enabled))


def read_table(session: SparkSession, tableName: str) -> DataFrame:  # noqa: N803 - as PySpark's
    """Return a table as `spark.read` of an enabled session does."""
    return session.read.table(tableName)


def _create_table(original: Callable[..., DataFrame]) -> Callable[..., DataFrame]:
    @wraps(original)
    def create_table(
        self: Catalog,
        tableName: str,  # noqa: N803
        path: str | None = None,
        source: str | None = None,
        schema: StructType | None = None,
        description: str | None = None,
        **options: str,
    ) -> DataFrame:
        spark = self._sparkSession
        if not (is_enabled(spark) and is_delta(spark, source or "")):
            return original(self, tableName, path, source, schema, description, **options)
        return create_by_catalog(spark, tableName, path, schema, description, options)

    return create_table


def _answer_of_cache(
    original: Callable[..., Any], answer: Callable[[str], Any]
) -> Callable[..., Any]:
    """Answer for Delta tables and views over them, of which the catalog caches none."""

    @wraps(original)
    def method(self: Catalog, tableName: str, *arguments: Any, **keywords: Any) -> Any:  # noqa: ANN401, N803
        spark = self._sparkSession
        if is_enabled(spark):
            with bypass_routing(), delta_errors():
                parts = parts_in(spark, tableName)
                if find_delta(spark, parts) or StatementViews(spark).read_view(parts) is not None:
                    return answer(tableName)
        return original(self, tableName, *arguments, **keywords)

    return method


def _describe_tables(original: Callable[..., Any]) -> Callable[..., Any]:
    """Give Delta tables the descriptions of the catalog, which Spark asks their data source for."""

    @wraps(original)
    def describe_tables(self: Catalog, *arguments: Any, **keywords: Any) -> Any:  # noqa: ANN401
        result = original(self, *arguments, **keywords)
        spark = self._sparkSession
        if not is_enabled(spark):
            return result
        with bypass_routing(), delta_errors():
            if isinstance(result, list):
                return [_describe_table(spark, table) for table in result]
            return _describe_table(spark, result)

    return describe_tables


def _describe_table(spark: SparkSession, table: Table) -> Table:
    if table.isTemporary or table.description is not None:
        return table
    place = find_delta(spark, (*(table.namespace or ()), table.name))
    return table._replace(description=place.description or None) if place else table


def _list_columns(original: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(original)
    def list_columns(self: Catalog, tableName: str, dbName: str | None = None) -> Any:  # noqa: ANN401, N803
        spark = self._sparkSession
        if is_enabled(spark):
            with bypass_routing(), delta_errors():
                parts = parts_in(spark, tableName)
                place = find_delta(spark, parts if dbName is None else (dbName, *parts))
                if place is not None:
                    table = open_table(spark, place.location, name=tableName)
                    return catalog_columns(table.snapshot())
        return original(self, tableName, dbName)

    return list_columns


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
