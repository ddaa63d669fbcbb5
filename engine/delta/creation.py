"""Creation of a table at a location, and under a name of the session's catalog.

The log is the engine's, whoever else reads the table. If delta-spark serves the catalog, names are
created by its statements; otherwise Spark's own catalog holds name and location, under the provider
`delta`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from pyspark.sql import SparkSession
from pyspark.sql import types as spark_types

from engine.commands.model import Clone, Create
from engine.commands.sources import DataFrameSource, Source
from engine.delta.definition_check import (
    OccupiedLocationError,
    SchemaMissingError,
    check_definition,
)
from engine.delta.handle import Handle
from engine.delta.names import (
    PROVIDERS,
    NameTakenError,
    NameUnknownError,
    NotADeltaTableError,
    default_location,
    parts_in,
    path_in,
    uses_delta_spark,
)
from engine.delta.table_access import open_table, reachable_roots, storage_options
from engine.errors import RequestError, TableExistsError
from engine.expressions.render import quote_string
from engine.log.segment import list_log_files
from engine.operations.result import OperationResult
from engine.schema.types import StructField, StructType
from engine.snapshot.snapshot import Snapshot
from engine.spark.catalogue import CataloguedTable, find_table
from engine.spark.columns import from_spark_schema, quote_column, to_spark_type
from engine.spark.data_source import register_for_names
from engine.spark.plain_sql import plain_sql
from engine.storage.uri import normalise_uri, open_store
from engine.table import DeltaTable

_DEFAULTS = "spark.databricks.delta.properties.defaults."
_PROTOCOL = {
    "spark.databricks.delta.minReaderVersion": "delta.minReaderVersion",
    "spark.databricks.delta.minWriterVersion": "delta.minWriterVersion",
}


class NothingNamedError(RequestError, code="DELTA_CREATE_TABLE_MISSING_TABLE_NAME_OR_LOCATION"):
    """Neither a name nor a place was given."""


class WithoutColumnsError(RequestError, code="DELTA_CREATE_EXTERNAL_TABLE_WITHOUT_SCHEMA"):
    """A name is given to a location without a table, and no columns are given for a new one."""

    def __init__(self, place: str) -> None:
        """Take the location without a table."""
        what = f"There is no Delta table at {place}, and no columns are given for a new one."
        super().__init__(what, "Give columns or a query, or correct the location.", field="schema")


class CollationError(RequestError, code="DELTA_UNSUPPORTED_COLLATION"):
    """A new table has a column with a collation, which its log would not keep."""

    def __init__(self, column: str) -> None:
        """Take the first column with a collation."""
        what = (
            f"{column} has a collation, and a Delta table here has none: it would compare by bytes."
        )
        super().__init__(what, "Cast it to STRING, or collate where you compare.", field="schema")


@dataclass(frozen=True)
class NewTableDefinition:
    """The definition of a new table, from a builder or a statement.

    `options` are those of a `Handle`.
    """

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
    source: Source | None = None
    clone: Clone | None = None
    retries: int | None = None
    options: Mapping[str, str] = field(default_factory=dict)

    @property
    def rows(self) -> bool:
        """Whether the table starts with rows."""
        return self.source is not None or self.clone is not None


def create_table(spark: SparkSession, definition: NewTableDefinition) -> Handle:
    """Create or replace a table, or keep the existing one, as requested.

    Raises:
        NothingNamedError: it has neither name nor location.
        NameTakenError, NameUnknownError: the name exists, or there is no table to replace.
    """
    return make_table(spark, definition)[0]


def make_table(
    spark: SparkSession, definition: NewTableDefinition
) -> tuple[Handle, OperationResult]:
    """Create or replace a table; return its handle and the engine's result."""
    if isinstance(definition.source, DataFrameSource):
        _check_collations(definition.source.frame.schema)
    path = path_in(definition.name) or ("" if definition.name else definition.location)
    if path:
        return _create_at(spark, definition, path)
    if not definition.name:
        what = "Table name or location has to be specified."
        raise NothingNamedError(what, "Give one of them.", field="location")
    existing = find_table(spark, definition.name)
    if existing is None:
        return _create_named(spark, definition)
    if existing.is_view or not (definition.if_not_exists or definition.replace):
        raise NameTakenError(definition.name)
    if definition.if_not_exists and existing.provider.lower() not in PROVIDERS:
        return Handle(spark, DeltaTable(open_store(existing.location))), OperationResult()
    if existing.provider.lower() not in PROVIDERS:
        raise NotADeltaTableError(definition.name)
    return _create_at(spark, definition, existing.location, existing)


def _create_named(
    spark: SparkSession, definition: NewTableDefinition
) -> tuple[Handle, OperationResult]:
    """Create a table under a new name of the catalog, or register the table at its location."""
    if definition.must_exist:
        raise NameUnknownError(definition.name)
    location = definition.location
    if uses_delta_spark(spark) and not (location or definition.rows):
        own = replace(definition, name=".".join(parts_in(spark, definition.name)))
        plain_sql(spark, _command(spark, own).statement())
        existing = find_table(spark, definition.name)
        place = existing.location if existing else default_location(spark, definition.name)
        return _create_at(spark, definition, place, existing, exists=True)
    has_log = bool(location) and has_table(spark, location)
    if has_log and not definition.rows:
        return _register_existing(spark, definition)
    columns = _columns(spark, definition)
    if location:
        _check_location(spark, definition, columns, has_log=has_log)
    register_name(spark, definition.name, location, columns)
    existing = find_table(spark, definition.name)
    chosen = location or (existing.location if existing else "")
    place = chosen or default_location(spark, definition.name)
    if uses_delta_spark(spark):  # it has created the table without columns
        definition = replace(definition, replace=True)
    try:
        return _create_at(spark, definition, place, existing)
    except Exception:
        if has_log or not has_table(spark, place):  # otherwise another writer created one there
            plain_sql(spark, f"DROP TABLE IF EXISTS {definition.name}")
        raise


def _register_existing(
    spark: SparkSession, definition: NewTableDefinition
) -> tuple[Handle, OperationResult]:
    """Name the table at the location as it is, with its rows; its definition must agree."""
    table = open_table(spark, definition.location)
    snapshot = table.snapshot()
    _check_agrees(definition, definition.location, snapshot)
    register_name(spark, definition.name, definition.location, snapshot.schema)
    existing = find_table(spark, definition.name)
    return Handle(spark, table, name=existing.name if existing else ""), OperationResult()


def _check_agrees(definition: NewTableDefinition, location: str, snapshot: Snapshot) -> None:
    """Refuse a definition that differs from the existing table.

    Raises:
        SchemaMissingError: a replacement without columns.
        RequestError: columns, layout or properties differ.
    """
    if definition.replace and not definition.columns:
        raise SchemaMissingError
    check_definition(
        location,
        snapshot,
        StructType(definition.columns),
        definition.partition_columns,
        definition.clustering_columns,
        definition.properties,
    )


def _check_location(
    spark: SparkSession, definition: NewTableDefinition, columns: StructType, *, has_log: bool
) -> None:
    """Refuse to create a table among existing files, or one without columns.

    Raises:
        OccupiedLocationError: there is a file, or a table not to be replaced.
        WithoutColumnsError: neither columns nor a query are given.
    """
    uri = normalise_uri(definition.location)
    store = open_store(uri, storage_options(spark, uri, {}))
    replaces = has_log and definition.replace
    if not replaces and next(iter(store.list_all()), None) is not None:
        raise OccupiedLocationError(definition.name, definition.location)
    if not columns.fields:
        raise WithoutColumnsError(definition.location)


def _check_collations(schema: spark_types.StructType) -> None:
    """Refuse columns with a collation, which would be lost.

    Raises:
        CollationError: a column has one.
    """
    for column in schema:
        if _is_collated(column.dataType):
            raise CollationError(column.name)


def _columns(spark: SparkSession, definition: NewTableDefinition) -> StructType:
    """Return the initial columns of a new table."""
    if isinstance(definition.source, DataFrameSource):
        return from_spark_schema(definition.source.frame.schema)
    if definition.clone is not None:
        return open_table(spark, definition.clone.source_table).snapshot().schema
    return StructType(definition.columns)


def _is_collated(kind: spark_types.DataType) -> bool:
    match kind:
        case spark_types.StringType():
            return not kind.isUTF8BinaryCollation()
        case spark_types.ArrayType():
            return _is_collated(kind.elementType)
        case spark_types.MapType():
            return _is_collated(kind.keyType) or _is_collated(kind.valueType)
        case spark_types.StructType():
            return any(_is_collated(inner.dataType) for inner in kind)
        case _:
            return False


def has_table(spark: SparkSession, place: str) -> bool:
    """Whether a Delta table exists at the location."""
    uri = normalise_uri(place)
    return bool(list_log_files(open_store(uri, storage_options(spark, uri, {}))))


def register_name(
    spark: SparkSession, name: str, location: str = "", schema: StructType | None = None
) -> None:
    """Register a name in the session's catalog; without a location it chooses one.

    Spark's own catalog is given the present columns, for people; nobody reads by them.
    """
    columns = ""
    if not uses_delta_spark(spark):
        register_for_names(spark)
        shown = [
            f"{quote_column(f.name)} {to_spark_type(f.type).simpleString()}" for f in schema or ()
        ]
        columns = f" ({', '.join(shown)})" if shown else ""
    place = f" LOCATION {quote_string(location)}" if location else ""
    plain_sql(spark, f"CREATE TABLE {name}{columns} USING delta{place}")


def _create_at(
    spark: SparkSession,
    definition: NewTableDefinition,
    place: str,
    existing: CataloguedTable | None = None,
    *,
    exists: bool = False,
) -> tuple[Handle, OperationResult]:
    uri = normalise_uri(place)
    options = storage_options(spark, uri, {})
    store = open_store(uri, options)
    table = DeltaTable(store, storage_options=options, allowed_roots=reachable_roots(uri))
    shown = definition.name or f"`delta`.`{place}`"
    name = existing.name if existing else ""
    handle = Handle(spark, table, name=name, retries=definition.retries, options=definition.options)
    if exists:
        return handle, OperationResult()
    replaces_place = not existing and definition.replace and not definition.rows
    has_log = (replaces_place or definition.must_exist) and bool(list_log_files(store))
    if replaces_place and has_log:
        if not definition.must_exist:
            _check_agrees(definition, place, table.snapshot())
            return handle, OperationResult()
        if not definition.columns:
            raise SchemaMissingError
    if definition.must_exist and not has_log:
        raise NameUnknownError(shown)
    try:
        return handle, handle.run(definition.clone or _command(spark, definition))
    except TableExistsError as error:
        raise NameTakenError(shown) from error


def _command(spark: SparkSession, definition: NewTableDefinition) -> Create:
    return Create(
        table=definition.name if not path_in(definition.name) else "",
        schema=StructType(definition.columns)
        if definition.columns or not definition.source
        else None,
        source=definition.source,
        partition_columns=definition.partition_columns,
        clustering_columns=definition.clustering_columns,
        properties={**session_defaults(spark), **definition.properties},
        if_not_exists=definition.if_not_exists,
        replace=definition.replace,
        description=definition.description,
    )


def session_defaults(spark: SparkSession) -> dict[str, str]:
    """Return the properties of every new table by the session's settings."""
    properties: dict[str, str] = {}
    for key, property_key in _PROTOCOL.items():
        if value := spark.conf.get(key, None):
            properties[property_key] = value
    settings = spark.conf.getAll
    for key, value in settings.items():
        if key.startswith(_DEFAULTS):
            properties[f"delta.{key.removeprefix(_DEFAULTS)}"] = value
    return properties
