"""A table made at a place, and under a name of the session's catalogue.

The log is the engine's, whoever else reads the table. Where delta-spark serves the catalogue, names
are made by its statements; elsewhere Spark's own catalogue keeps name and place, under the provider
`delta`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from pyspark.sql import SparkSession

from engine.commands.model import Create
from engine.delta.handle import Handle
from engine.delta.names import (
    NameTakenError,
    NameUnknownError,
    default_location,
    path_in,
    uses_delta_spark,
)
from engine.errors import RequestError, TableExistsError
from engine.expressions.render import quote_string
from engine.log.segment import list_log_files
from engine.schema.types import StructField, StructType
from engine.spark.catalogue import CataloguedTable, find_table
from engine.spark.columns import quoted, to_spark_type
from engine.spark.data_source import register_for_names
from engine.storage.uri import open_store
from engine.table import DeltaTable

_DEFAULTS = "spark.databricks.delta.properties.defaults."
_PROTOCOL = {
    "spark.databricks.delta.minReaderVersion": "delta.minReaderVersion",
    "spark.databricks.delta.minWriterVersion": "delta.minWriterVersion",
}


class NothingNamedError(RequestError):
    """Neither a name nor a place was given."""

    code = "DELTA_CREATE_TABLE_MISSING_TABLE_NAME_OR_LOCATION"


@dataclass(frozen=True)
class Wanted:
    """What a builder was told."""

    name: str = ""
    location: str = ""
    columns: tuple[StructField, ...] = ()
    partition_columns: tuple[str, ...] = ()
    clustering_columns: tuple[str, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    description: str = ""
    if_not_exists: bool = False
    replace: bool = False
    must_exist: bool = False


def create_table(spark: SparkSession, wanted: Wanted) -> Handle:
    """The table that was asked for, made, replaced, or as it is already.

    Raises:
        NothingNamedError: it has neither name nor place.
        NameTakenError, NameUnknownError: there is one, or there is none to replace.
    """
    path = path_in(wanted.name) or ("" if wanted.name else wanted.location)
    if path:
        return _at(spark, wanted, path)
    if not wanted.name:
        what = "Table name or location has to be specified."
        raise NothingNamedError(what, "Give one of them.", field="location")
    known = find_table(spark, wanted.name)
    if known is None:
        return _named(spark, wanted)
    if known.is_view or not (wanted.if_not_exists or wanted.replace):
        raise NameTakenError(wanted.name)
    return _at(spark, wanted, known.location, known)


def _named(spark: SparkSession, wanted: Wanted) -> Handle:
    if wanted.must_exist:
        raise NameUnknownError(wanted.name)
    if uses_delta_spark(spark) and not wanted.location:
        spark.sql(_command(spark, wanted).statement())
        found = find_table(spark, wanted.name)
        place = found.location if found else default_location(spark, wanted.name)
        return _at(spark, wanted, place, found, exists=True)
    register_name(spark, wanted.name, wanted.location, StructType(wanted.columns))
    place = wanted.location or default_location(spark, wanted.name)
    try:
        handle = _at(spark, wanted, place, find_table(spark, wanted.name))
    except Exception:
        spark.sql(f"DROP TABLE IF EXISTS {wanted.name}")
        raise
    return handle


def register_name(
    spark: SparkSession, name: str, location: str = "", schema: StructType | None = None
) -> None:
    """Have the session's catalogue know a name; without a location it chooses the place.

    Spark's own catalogue is told the columns as they are now, for people; nobody reads by them.
    """
    columns = ""
    if not uses_delta_spark(spark):
        register_for_names(spark)
        shown = [f"{quoted(f.name)} {to_spark_type(f.type).simpleString()}" for f in schema or ()]
        columns = f" ({', '.join(shown)})" if shown else ""
    place = f" LOCATION {quote_string(location)}" if location else ""
    spark.sql(f"CREATE TABLE {name}{columns} USING delta{place}")


def _at(
    spark: SparkSession,
    wanted: Wanted,
    place: str,
    known: CataloguedTable | None = None,
    *,
    exists: bool = False,
) -> Handle:
    store = open_store(place)
    table, shown = DeltaTable(store), wanted.name or f"`delta`.`{place}`"
    handle = Handle(spark, table, name=known.name if known else "")
    if exists:
        return handle
    if wanted.must_exist and not list_log_files(store):
        raise NameUnknownError(shown)
    try:
        handle.run(_command(spark, wanted))
    except TableExistsError as error:
        raise NameTakenError(shown) from error
    return handle


def _command(spark: SparkSession, wanted: Wanted) -> Create:
    return Create(
        table=wanted.name if not path_in(wanted.name) else "",
        schema=StructType(wanted.columns),
        partition_columns=wanted.partition_columns,
        clustering_columns=wanted.clustering_columns,
        properties={**session_defaults(spark), **wanted.properties},
        if_not_exists=wanted.if_not_exists,
        replace=wanted.replace,
        description=wanted.description,
    )


def session_defaults(spark: SparkSession) -> dict[str, str]:
    """The properties that a session's settings give every new table."""
    found: dict[str, str] = {}
    for key, property_key in _PROTOCOL.items():
        if value := spark.conf.get(key, None):
            found[property_key] = value
    if found:
        found["delta.enableDeletionVectors"] = "false"  # an old protocol has none
    settings = spark.conf.getAll
    for key, value in settings.items():
        if key.startswith(_DEFAULTS):
            found[f"delta.{key.removeprefix(_DEFAULTS)}"] = value
    return found
