"""From callers' arguments to the engine's tables: paths, options of stores, times as text."""

from collections.abc import Mapping
from datetime import UTC
from zoneinfo import ZoneInfo

from pyspark.sql import SparkSession

from engine.delta.names import NotADeltaTableError
from engine.errors import RequestError, TableNotFoundError
from engine.expressions.literals import parse_timestamp
from engine.storage.uri import normalise_uri
from engine.table import DeltaTable

_PREFIXES = ("fs.", "dfs.")
_S3 = {
    "fs.s3a.access.key": "aws_access_key_id",
    "fs.s3a.secret.key": "aws_secret_access_key",
    "fs.s3a.session.token": "aws_session_token",
    "fs.s3a.endpoint": "aws_endpoint",
    "fs.s3a.endpoint.region": "aws_region",
}
"""Hadoop's settings of S3, and their names in the engine's own store."""


class HadoopOptionError(RequestError, code="DELTA_TABLE_FOR_PATH_UNSUPPORTED_HADOOP_CONF"):
    """An option that no file system has."""


class InvalidTimestampError(RequestError, code="DELTA_TIMESTAMP_INVALID"):
    """A text that is not a time."""


def open_table(
    spark: SparkSession, path: str, options: Mapping[str, str] | None = None, name: str = ""
) -> DeltaTable:
    """Open the table at a path. Its log may refer to files anywhere in its store (shallow clones).

    Raises:
        NotADeltaTableError: there is none; the message has `name` if it is given.
        HadoopOptionError: an option is not one of a file system.
    """
    uri = normalise_uri(path)
    stores = storage_options(spark, uri, options or {})
    try:
        return DeltaTable.open(uri, stores, allowed_roots=reachable_roots(uri))
    except TableNotFoundError as error:
        raise NotADeltaTableError(name or path) from error


def reachable_roots(uri: str) -> tuple[str, ...]:
    """Return the locations to which the log of a caller's own table may refer."""
    scheme, separator, rest = uri.partition("://")
    return (f"{scheme}://{rest.partition('/')[0]}",) if separator else ("/",)


def storage_options(spark: SparkSession, uri: str, options: Mapping[str, str]) -> dict[str, str]:
    """Return the options of a table's store: those given, else the session's for Hadoop.

    Raises:
        HadoopOptionError: an option is not one of a file system.
    """
    bad = [key for key in options if not str(key).startswith(_PREFIXES)]
    if bad:
        what = f"Options for a path begin with fs. or dfs., and {bad[0]} does not."
        raise HadoopOptionError(what, "Leave it out.", field="hadoopConf")
    if not uri.startswith("s3://"):
        return {}
    own_options = {}
    for hadoop, own in _S3.items():
        value = options.get(hadoop) or spark.conf.get(f"spark.hadoop.{hadoop}", None)
        if value:
            own_options[own] = value
    return own_options


def timestamp_text(spark: SparkSession, text: str) -> str:
    """Convert a time in the session's time zone to ISO 8601.

    Raises:
        InvalidTimestampError: the text is not a time.
    """
    wall = parse_timestamp(text, zone=False)
    if wall is not None:
        zone = spark.conf.get("spark.sql.session.timeZone") or "UTC"
        return wall.replace(tzinfo=_zone(zone)).astimezone(UTC).isoformat()
    moment = parse_timestamp(text)
    if moment is None:
        what = f"The provided timestamp ('{text}') cannot be converted to a valid timestamp."
        raise InvalidTimestampError(what, field="timestamp")
    return moment.isoformat()


def _zone(name: str) -> ZoneInfo:
    return ZoneInfo("UTC" if name in {"Z", "+00:00"} else name)
