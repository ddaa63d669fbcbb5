"""From the arguments of callers to the engine's tables: names, paths, stores' options, times.

A name is looked up in the session's catalog, or holds a path.
"""

import re
from collections.abc import Mapping, Sequence
from datetime import UTC
from zoneinfo import ZoneInfo

from pyspark.sql import SparkSession

from engine.catalog.catalog import CatalogTableName
from engine.errors import RequestError, TableExistsError, TableNotFoundError
from engine.expressions.literals import parse_timestamp
from engine.log.segment import list_log_files
from engine.spark.columns import quote_column
from engine.spark.session import is_remote, plain_sql
from engine.spark.session_catalog import (
    CATALOG_SCHEME,
    SessionTable,
    find_catalog,
    find_table,
)
from engine.spark.statement_plan import name_parts
from engine.storage.uri import normalize_uri, open_store
from engine.table import DeltaTable

PROVIDERS = frozenset({"delta", "lake"})
_PART = re.compile(r"`(?:[^`]|``)+`|[^.`\s]+")
_PATH = re.compile(r"\s*(delta|lake|parquet)\s*\.\s*`((?:[^`]|``)+)`\s*\Z", re.IGNORECASE)

_PREFIXES = ("fs.", "dfs.")
_S3 = {
    "fs.s3a.access.key": "aws_access_key_id",
    "fs.s3a.secret.key": "aws_secret_access_key",
    "fs.s3a.session.token": "aws_session_token",
    "fs.s3a.endpoint": "aws_endpoint",
    "fs.s3a.endpoint.region": "aws_region",
}
"""Hadoop's settings of S3, and their names in the engine's own store."""


class NotADeltaTableError(TableNotFoundError, code="DELTA_MISSING_DELTA_TABLE"):
    """There is no Delta table of this name, or at this path."""

    def __init__(self, name: str) -> None:
        """Take the name or path as the caller gave it."""
        super().__init__(
            f"`{name}` is not a Delta table.", "Check the spelling, or create the table."
        )


class OtherFormatError(NotADeltaTableError, code="DELTA_NOT_A_DELTA_TABLE"):
    """A statement replaces a table of another format."""


class PathNotFoundError(NotADeltaTableError, code="PATH_NOT_FOUND", sqlstate="42K03"):
    """A statement names a path where nothing is."""


class PartialWriteError(NotADeltaTableError, code="DELTA_UNEXPECTED_PARTIAL_SCAN"):
    """A statement writes to a directory inside a table."""


class NameTakenError(TableExistsError, code="TABLE_OR_VIEW_ALREADY_EXISTS"):
    """A table of this name, or at this path, already exists."""

    def __init__(self, name: str) -> None:
        """Take the name or path as the caller gave it."""
        super().__init__(
            f"Cannot create table or view {name} because it already exists.",
            "Choose another name, or use CREATE OR REPLACE.",
        )


class NameUnknownError(TableNotFoundError, code="TABLE_OR_VIEW_NOT_FOUND"):
    """There is no table of this name to replace."""

    def __init__(self, name: str) -> None:
        """Take the name or path as the caller gave it."""
        super().__init__(
            f"The table or view {name} cannot be found.",
            "Check the name, or create the table.",
        )


class HadoopOptionError(RequestError, code="DELTA_TABLE_FOR_PATH_UNSUPPORTED_HADOOP_CONF"):
    """An option that no file system has."""


class InvalidTimestampError(RequestError, code="DELTA_TIMESTAMP_INVALID"):
    """A text that is not a time."""


def path_in(name: str, provider: str = "") -> str | None:
    """Return the path of delta.`/path` (or of another provider); None for a plain name."""
    match = _PATH.match(name)
    if match is None:
        return None
    providers = {provider} if provider else PROVIDERS
    return match[2].replace("``", "`") if match[1].lower() in providers else None


def locate(spark: SparkSession, name: str) -> SessionTable:
    """Return the Delta table of a name.

    Raises:
        NotADeltaTableError: there is none, it is a view, or a table of another format.
    """
    path = path_in(name)
    if path is not None:
        return SessionTable("", "PATH", path, "delta")
    table = find_table(spark, name)
    if table is None or table.is_view or table.provider.lower() not in PROVIDERS:
        raise NotADeltaTableError(name)
    return table


def parts_of(name: str) -> tuple[str, ...]:
    """Return the parts of a name as SQL writes it, without their backticks."""
    return tuple(part.strip("`").replace("``", "`") for part in _PART.findall(name))


def parts_in(spark: SparkSession, name: str) -> tuple[str, ...]:
    """Return the parts of a table's name, parsed by Spark if it is in this process.

    Raises:
        ParseException: it is not a name.
    """
    return parts_of(name) if is_remote(spark) else name_parts(spark, name)


def name_sql(parts: Sequence[str]) -> str:
    """Render a name's parts as SQL; the format before a path stays unquoted."""
    if len(parts) == 2 and "/" in parts[1]:
        return f"{parts[0]}.{quote_column(parts[1])}"
    return ".".join(map(quote_column, parts))


def find_delta(spark: SparkSession, parts: Sequence[str]) -> SessionTable | None:
    """Return the Delta table of a name's parts; None if there is none."""
    if len(parts) == 2 and parts[0].lower() in PROVIDERS and "/" in parts[1]:
        return SessionTable("", "PATH", parts[1], "delta")
    table = find_table(spark, ".".join(map(quote_column, parts)))
    if table is None or table.is_view or table.provider.lower() not in PROVIDERS:
        return None
    return table


def default_location(spark: SparkSession, name: str) -> str:
    """Return the catalog's default location for a table of this name.

    Raises:
        RequestError: the catalog does not report it.
    """
    database, _, table = name.replace("`", "").rpartition(".")
    described = f"DESCRIBE DATABASE {database or spark.catalog.currentDatabase()}"
    rows = plain_sql(spark, described).collect()
    places = [str(row[1]) for row in rows if str(row[0]).lower().startswith("location")]
    if not places:
        what = f"The catalog does not say where the tables of {database} are."
        raise RequestError(what, "Give the table's location.", field="location")
    return f"{places[0].rstrip('/')}/{table.lower()}"


def uses_delta_spark(spark: SparkSession) -> bool:
    """Whether delta-spark's catalog serves the session."""
    catalog = spark.conf.get("spark.sql.catalog.spark_catalog", "") or ""
    return "delta" in catalog.lower()


def open_table(
    spark: SparkSession, path: str, options: Mapping[str, str] | None = None, name: str = ""
) -> DeltaTable:
    """Open the table at a path, or the one of a catalog at its place as `find_table` returns it.

    The log of a table at a path may refer to files anywhere in its store (shallow clones).

    Raises:
        NotADeltaTableError: there is none; the message has `name` if it is given.
        HadoopOptionError: an option is not one of a file system.
        CatalogError: the catalog failed or refused.
    """
    if path.startswith(CATALOG_SCHEME):
        full_name = path.removeprefix(CATALOG_SCHEME)
        catalog = find_catalog(spark, CatalogTableName.parse(full_name).catalog)
        try:
            return DeltaTable.open(full_name, catalog=catalog)
        except TableNotFoundError as error:
            raise NotADeltaTableError(name or full_name) from error
    uri = normalize_uri(path)
    stores = storage_options(spark, uri, options or {})
    try:
        return DeltaTable.open(uri, stores, allowed_roots=reachable_roots(uri))
    except TableNotFoundError as error:
        raise NotADeltaTableError(name or path) from error


def explain_missing(spark: SparkSession, path: str) -> NotADeltaTableError:
    """Return the error for a path in a statement that is not a Delta table."""
    uri = normalize_uri(path)
    if find_table_above(spark, path) is not None:
        return PartialWriteError(path)
    files = open_store(uri, storage_options(spark, uri, {})).list_all()
    return (NotADeltaTableError if next(iter(files), None) else PathNotFoundError)(path)


def find_table_above(spark: SparkSession, path: str) -> str | None:
    """Return the location of the table whose directory a path is inside of; None if there is none."""
    uri = normalize_uri(path)
    scheme, separator, rest = uri.partition("://")
    prefix, names = (f"{scheme}://", rest.split("/")) if separator else ("", uri.split("/"))
    options = storage_options(spark, uri, {})
    for count in range(len(names) - 1, 1, -1):
        place = prefix + "/".join(names[:count])
        if list_log_files(open_store(place, options)):
            return place
    return None


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

    def setting(name: str) -> str:
        return str(options.get(name) or spark.conf.get(f"spark.hadoop.{name}", None) or "")

    own_options = {own: value for hadoop, own in _S3.items() if (value := setting(hadoop))}
    endpoint = own_options.get("aws_endpoint", "")
    if endpoint and "://" not in endpoint:
        plain = setting("fs.s3a.connection.ssl.enabled").lower() == "false"
        endpoint = own_options["aws_endpoint"] = f"{'http' if plain else 'https'}://{endpoint}"
    if endpoint.startswith("http://"):
        own_options["allow_http"] = "true"
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
