"""Rows of a table as `format("delta")` reads them: of a version or a moment, or its changes.

The DataFrames are native scans of the table's files. A name may end in a point in time: `t@v1`,
`/path@v1`, `@yyyyMMddHHmmssSSS`.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeAlias
from urllib.parse import unquote

from pyspark.sql import Column, DataFrame, SparkSession

from engine.delta.names import (
    NotADeltaTableError,
    explain_missing,
    find_table_above,
    open_table,
    timestamp_text,
)
from engine.errors import (
    IllegalOptionError,
    MalformedLogError,
    RequestError,
    StatementError,
    TableNotFoundError,
)
from engine.expressions import build
from engine.expressions.lexer import Token, tokenize
from engine.expressions.traits import conjunction
from engine.expressions.tree import Column as ColumnOfRow
from engine.expressions.tree import Expression, Literal
from engine.log.history import version_at, version_from
from engine.operations.execution import Execution
from engine.schema.partition_values import parse_partition_value
from engine.snapshot.change_feed import CHANGE_TYPE, COMMIT_TIMESTAMP, COMMIT_VERSION, read_changes
from engine.snapshot.snapshot import Snapshot
from engine.snapshot.timestamps import timestamp_to_ms
from engine.spark.columns import to_column, to_spark_schema
from engine.spark.own_columns import move_to_session
from engine.spark.scan.live_frames import TABLE_MARK, VERSION_MARK
from engine.spark.scan.live_tables import LiveTable
from engine.spark.scan.reader import ScanRequest, scan
from engine.spark.scan.scan_columns import declare_column, select_columns
from engine.spark.session import engine_session, is_remote
from engine.storage.uri import normalize_uri
from engine.table import DeltaTable

Latest: TypeAlias = Callable[[DeltaTable], Snapshot]
"""Returns the latest version of a table, the same for all references in one statement."""

_FILE_SYSTEM = ("fs.", "dfs.")
VERSION, TIMESTAMP = "versionasof", "timestampasof"
_CHANGES = ("readchangefeed", "readchangedata")
"""delta-spark's names of options, in small letters."""

_VERSION = re.compile(r"[vV](\d{1,18})\Z", re.ASCII)
_MOMENT = re.compile(r"\d{17}\Z", re.ASCII)
_AT_END = re.compile(r"(.+)@([vV]\d{1,18}|\d{17})\Z", re.DOTALL | re.ASCII)


class PartitionPathError(RequestError, code="DELTA_INVALID_PARTITION_PATH"):
    """A path inside a table's directory that is not the directory of a partition."""

    def __init__(self, fragment: str, columns: Sequence[str]) -> None:
        """Take the part of the path below the table, and the table's partition columns."""
        what = f"{fragment} is not a partition of the table, whose partition columns are "
        what += f"{', '.join(columns) or 'none'}."
        super().__init__(what, "Read the table, and filter with where.", field="path")


class PartitionColumnError(PartitionPathError, code="DELTA_NON_PARTITION_COLUMN_SPECIFIED"):
    """The directory of a partition by another column than the table's."""


class TwoPointsError(IllegalOptionError, code="DELTA_ONEOF_IN_TIMETRAVEL"):
    """A read is of two points in time."""


class PointInvalidError(IllegalOptionError, code="DELTA_TIME_TRAVEL_INVALID_BEGIN_VALUE"):
    """A version is not a number."""


class NoStartError(RequestError, code="DELTA_NO_START_FOR_CDC_READ"):
    """A change feed has no first version."""


class PathUnknownError(TableNotFoundError, code="DELTA_PATH_DOES_NOT_EXIST"):
    """A path without files."""

    def __init__(self, path: str) -> None:
        """Take the path as the caller gave it."""
        super().__init__(f"{path} does not exist.", "Check its spelling.")


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
        NotADeltaTableError: (`PathNotFoundError`) there is none.
        RequestError: the options name a point in time too, or `read_frame` refuses them.
    """
    asked = lower_options(options)
    try:
        return read_frame(spark, table_at(spark, path, options), asked, latest)
    except NotADeltaTableError as error:
        before, version, moment = split_point(path)
        if before == path:
            partition = _read_partition(spark, path, options, latest)
            if partition is None:
                raise explain_missing(spark, path) from error
            return partition
        table = table_at(spark, before, options)
    if VERSION in asked or TIMESTAMP in asked:
        what = f"{path} selects a version or time, and so do its options."
        raise TwoPointsError(what, "Select it in one place only.", field="path")
    point = {TIMESTAMP: moment} if version is None else {VERSION: version}
    return read_frame(spark, table, {**asked, **{k: v for k, v in point.items() if v}})


def _read_partition(
    spark: SparkSession,
    path: str,
    options: Mapping[str, object],
    latest: Latest,
) -> DataFrame | None:
    """Read the rows of a partition by its directory, as `/lake/t/day=1`; None outside of tables."""
    root = find_table_above(spark, path)
    if root is None:
        return None
    table = table_at(spark, root, options)
    fragment = normalize_uri(path).removeprefix(root).strip("/")
    snapshot = latest(table)
    fields = {field.name: field for field in snapshot.partition_schema}
    tests = list[Expression]()
    for name in fragment.split("/"):
        key, separator, text = name.partition("=")
        if not separator:
            raise PartitionPathError(fragment, tuple(fields))
        field = fields.get(unquote(key))
        if field is None:
            raise PartitionColumnError(fragment, tuple(fields))
        try:
            value = parse_partition_value(unquote(text), field.type)
        except MalformedLogError as error:
            raise PathUnknownError(path) from error
        tests.append(
            build.call("=", [ColumnOfRow((field.name,), field.type), Literal(value, field.type)])
        )
    condition = conjunction(tests)
    if not snapshot.add_files(condition):
        raise PathUnknownError(path)
    return read_frame(spark, table, lower_options(options), latest).where(to_column(condition))


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
        raise TwoPointsError(what, "Remove one of them.", field="timestampAsOf")
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
        raise NoStartError(what, "Set one of them.", field="startingVersion")
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
        raise PointInvalidError(what, "Give 0 or more.", field=option)
    return int(digits)


def _text(value: Any) -> str:  # noqa: ANN401 - what callers give to option()
    return str(value).lower() if isinstance(value, bool) else str(value)


def frame_of(
    spark: SparkSession,
    table: DeltaTable,
    snapshot: Snapshot | None = None,
    *,
    latest: Latest = DeltaTable.snapshot,
) -> DataFrame:
    """Return the rows of a version; without one, of the latest version at each query.

    The plan names its table: a write of these rows into the table reads them at the version that
    its transaction reads. A requested version stays: rows of an earlier version are brought back on
    purpose. A frame of Spark Connect stays at the version of its creation, and the plan holds its
    number: a write of its rows into the table is checked against every later one.

    Raises:
        RequestError: Spark cannot read the files' location.
    """
    seen = latest(table) if snapshot is None else snapshot
    session = engine_session(spark) or spark
    execution = Execution(table, session)
    files = execution.files_of(seen)
    marks, live = {TABLE_MARK: seen.table_uri}, None
    if snapshot is None and is_remote(session):
        marks[VERSION_MARK] = str(seen.version)
    elif snapshot is None:
        live = LiveTable(table, execution.files_of, seen)
    rows = scan(session, files, ScanRequest(seen.add_files(), marks=marks, of=seen, live=live))
    partitions = set(files.partition_columns)

    def columns() -> list[Column]:
        return [
            declare_column(field, session, certain=field.name in partitions)
            for field in seen.schema
        ]

    form = "frame", seen.schema.to_json(), tuple(files.partition_columns)
    return move_to_session(select_columns(rows, form, columns), spark)


def split_point(text: str) -> tuple[str, str | None, str | None]:
    """Split a point in time from a name; return the name, the version and the time.

    The time is in the session's time zone. Version and time are None if the text ends in none.
    """
    match = _AT_END.match(text)
    if match is None:
        return text, None, None
    version, moment = _point(match[2])
    return (match[1], version, moment) if version or moment else (text, None, None)


def expand_time_travel(statement: str) -> str:
    """Replace each `name@point` in a statement by `VERSION AS OF` or `TIMESTAMP AS OF`."""
    try:
        tokens = tokenize(statement, error=StatementError)
    except StatementError:
        return statement  # Spark's parser will say
    parts, at = [], 0
    for before, sign, after in zip(tokens, tokens[1:], tokens[2:], strict=False):
        if not _is_suffix(before, sign, after):
            continue
        version, moment = _point(after.text)
        if version is None and moment is None:
            continue
        words = f" VERSION AS OF {version}" if version else f" TIMESTAMP AS OF '{moment}'"
        parts += [statement[at : sign.position], words]
        at = after.end
    return "".join([*parts, statement[at:]])


def _is_suffix(before: Token, sign: Token, after: Token) -> bool:
    """Whether `@` joins a name and the next token without a gap."""
    joined = before.end == sign.position and sign.end == after.position
    return joined and sign.value == "@" and before.kind in {"word", "name"}


def _point(text: str) -> tuple[str | None, str | None]:
    """Parse a version, or a time as text; both None if it is neither."""
    version = _VERSION.match(text)
    if version is not None:
        return version[1], None
    if not _MOMENT.match(text):
        return None, None
    try:
        moment = datetime.strptime(f"{text}000", "%Y%m%d%H%M%S%f")  # noqa: DTZ007 - of the session
    except ValueError:
        return None, None
    return None, moment.isoformat(sep=" ", timespec="milliseconds")
