"""A table's rows as `format("delta")` reads them: a version, a point in time, or the changes between two."""

from collections.abc import Mapping
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from engine.delta.frames import Latest, frame_of
from engine.delta.names import NotADeltaTableError
from engine.delta.table_access import open_table, timestamp_text
from engine.delta.time_travel import split_point
from engine.errors import RequestError
from engine.log.history import version_at, version_from
from engine.snapshot.change_feed import (
    CHANGE_TYPE,
    COMMIT_TIMESTAMP,
    COMMIT_VERSION,
    read_changes,
)
from engine.snapshot.timestamps import timestamp_to_ms
from engine.spark.columns import to_spark_schema
from engine.table import DeltaTable

_FILE_SYSTEM = ("fs.", "dfs.")
VERSION, TIMESTAMP = "versionasof", "timestampasof"
_CHANGES = ("readchangefeed", "readchangedata")
"""delta-spark's names of options, in small letters."""


def lower_options(options: Mapping[str, object]) -> dict[str, str]:
    """Options under names in small letters, values as text."""
    return {str(key).lower(): _text(value) for key, value in options.items() if value is not None}


def table_at(
    spark: SparkSession, path: str, options: Mapping[str, object], name: str = ""
) -> DeltaTable:
    """Open the table at a path, with its store's options taken from all options."""
    stores = {key: _text(v) for key, v in options.items() if key.startswith(_FILE_SYSTEM)}
    return open_table(spark, path, stores, name)


def read_path(
    spark: SparkSession,
    path: str,
    options: Mapping[str, object],
    latest: Latest = DeltaTable.snapshot,
) -> DataFrame:
    """Read the table at a path by options; the path may end in `@v1` or `@yyyyMMddHHmmssSSS`.

    Raises:
        NotADeltaTableError: there is none.
        RequestError: the options name a point in time too, or `read_frame` refuses them.
    """
    asked = lower_options(options)
    try:
        return read_frame(spark, table_at(spark, path, options), asked, latest)
    except NotADeltaTableError:
        before, version, moment = split_point(path)
        if before == path:
            raise
        table = table_at(spark, before, options)
    if VERSION in asked or TIMESTAMP in asked:
        what = f"{path} names a point in time, and so do its options."
        raise RequestError(what, "Give one of them.", field="path")
    point = {TIMESTAMP: moment} if version is None else {VERSION: version}
    return read_frame(spark, table, {**asked, **{k: v for k, v in point.items() if v}})


def read_frame(
    spark: SparkSession,
    table: DeltaTable,
    options: Mapping[str, str],
    latest: Latest = DeltaTable.snapshot,
) -> DataFrame:
    """Read a table by options with names in small letters.

    Raises:
        RequestError: they contradict each other, or name a missing version or time.
    """
    if any(options.get(name, "false").lower() == "true" for name in _CHANGES):
        return _changes(spark, table, options, latest)
    version, timestamp = options.get(VERSION), options.get(TIMESTAMP)
    if version is not None and timestamp is not None:
        what = "versionAsOf and timestampAsOf cannot both be given."
        raise RequestError(what, "Give one of them.", field="timestampAsOf")
    if timestamp is not None:
        moment = timestamp_text(spark, timestamp)
        return frame_of(spark, table, table.snapshot(timestamp=moment))
    if version is not None:
        return frame_of(spark, table, table.snapshot(_version(version, "versionAsOf")))
    return frame_of(spark, table, latest=latest)


def _changes(
    spark: SparkSession, table: DeltaTable, options: Mapping[str, str], latest: Latest
) -> DataFrame:
    start = _feed_bound(spark, table, options, "starting")
    if start is None:
        what = "A change feed needs startingVersion or startingTimestamp."
        raise RequestError(what, "Give one of them.", field="startingVersion")
    end = _feed_bound(spark, table, options, "ending")
    if end is None:
        end = latest(table).version
    schema = to_spark_schema(table.snapshot(end).schema)
    schema = schema.add(CHANGE_TYPE, "string").add(COMMIT_VERSION, "long")
    rows = read_changes(table, start, end).combine_chunks()  # Spark stops at an empty chunk
    return spark.createDataFrame(rows, schema.add(COMMIT_TIMESTAMP, "timestamp"))


def _feed_bound(
    spark: SparkSession, table: DeltaTable, options: Mapping[str, str], which: str
) -> int | None:
    """Return the first or last version of a change feed."""
    version, timestamp = options.get(f"{which}version"), options.get(f"{which}timestamp")
    if version is not None:
        return _version(version, f"{which}Version")
    if timestamp is None:
        return None
    time_ms = timestamp_to_ms(timestamp_text(spark, timestamp))
    metadata = table.snapshot().metadata
    find = version_at if which == "ending" else version_from
    return find(table.store, metadata, time_ms)


def _version(text: str, option: str) -> int:
    digits = text.strip()
    if not (digits.isascii() and digits.isdigit() and len(digits) < 19):
        what = f"{option} is {text[:60]!r}, not a whole number."
        raise RequestError(what, "Give 0 or more.", field=option)
    return int(digits)


def _text(value: Any) -> str:  # noqa: ANN401 - what callers give to option()
    return str(value).lower() if isinstance(value, bool) else str(value)
