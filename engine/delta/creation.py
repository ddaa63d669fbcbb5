"""Creation of a table at a location, and under a name of the session's catalog.

The log is the engine's, whoever else reads the table. If delta-spark serves the catalog, names are
created by its statements; otherwise Spark's own catalog holds name and location, under the provider
`delta`.

A table that is already at the location keeps its rows: a matching definition is registered, another
is refused with delta-spark's codes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import types as spark_types

from engine.catalog.catalog import Catalog, CatalogTableName
from engine.catalog.managed_store import build_properties, stage_store
from engine.commands.model import Clone, Create
from engine.commands.sources import DataFrameSource, Source
from engine.delta.handle import Handle
from engine.delta.names import (
    PROVIDERS,
    NameTakenError,
    NameUnknownError,
    OtherFormatError,
    default_location,
    open_table,
    parts_in,
    path_in,
    reachable_roots,
    storage_options,
    uses_delta_spark,
)
from engine.errors import RequestError, TableExistsError
from engine.expressions.render import quote_string
from engine.log.segment import list_log_files
from engine.operations.result import OperationResult
from engine.schema.column_mapping import ID_KEY, MAX_ID_KEY, MODE_KEY, PHYSICAL_NAME_KEY
from engine.schema.evolution import TYPE_CHANGES
from engine.schema.types import StructField, StructType, type_to_json
from engine.snapshot.new_table import is_same_layout
from engine.snapshot.snapshot import Snapshot
from engine.spark.columns import from_spark_schema, quote_column, to_spark_type
from engine.spark.data_source import register_for_names
from engine.spark.session import plain_sql
from engine.spark.session_catalog import SessionTable, find_catalog, find_table
from engine.storage.uri import normalize_uri, open_store, real_place
from engine.table import DeltaTable

IDENTITY_MARK = "delta.identity.highWaterMark"
ROW_HISTORY = (
    "delta.rowTracking.materialized",
    "delta.inCommitTimestampEnablement",
    "delta.requireCheckpointProtection",
)
"""Prefixes of the properties that describe a table's own rows and log."""
_PROTOCOL_PROPERTIES = ("delta.minReaderVersion", "delta.minWriterVersion", "delta.feature.")
_MAPPING = (MODE_KEY, MAX_ID_KEY)
_INTERNAL_METADATA = {ID_KEY, PHYSICAL_NAME_KEY, TYPE_CHANGES, IDENTITY_MARK}

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
        what = f"There is no Delta table at {place}, and no columns are given to create one."
        super().__init__(what, "Give columns or a query, or correct the location.", field="schema")


class CollationError(RequestError, code="DELTA_UNSUPPORTED_COLLATION"):
    """A new table has a column with a collation, which its log would not keep."""

    def __init__(self, column: str) -> None:
        """Take the first column with a collation."""
        what = (
            f"{column} has a collation, which Delta tables do not support here: strings would "
            "be compared by bytes."
        )
        super().__init__(what, "Cast it to STRING, or collate in the comparison.", field="schema")


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
        raise NothingNamedError(what, "Pass a table name or a location.", field="location")
    existing = find_table(spark, definition.name)
    name = parts_in(spark, definition.name)
    catalog = find_catalog(spark, name[0]) if len(name) == 3 else None
    if catalog is not None:
        return _create_in_catalog(spark, definition, catalog, existing)
    if existing is None:
        return _create_named(spark, definition)
    return _create_over(spark, definition, existing)


def _create_in_catalog(
    spark: SparkSession,
    definition: NewTableDefinition,
    catalog: Catalog,
    existing: SessionTable | None,
) -> tuple[Handle, OperationResult]:
    """Create a managed table, with its rows, at the location that its catalog chooses."""
    if definition.location:
        what = f"The catalog chooses the location of {definition.name}."
        raise RequestError(what, "Leave LOCATION out.", field="location")
    if existing is not None and definition.if_not_exists:
        return Handle(spark, open_table(spark, existing.location), name=existing.name), (
            OperationResult()
        )
    if existing is not None and not definition.replace:
        raise NameTakenError(definition.name)
    if definition.must_exist and existing is None:
        raise NameUnknownError(definition.name)
    if existing is not None or definition.clone:
        what = f"A table of a catalog cannot be replaced or cloned into: {definition.name}."
        raise RequestError(what, "Drop and create it, then insert the rows.", field="sql")
    name = str(CatalogTableName(*parts_in(spark, definition.name)))
    try:
        store, options = stage_store(catalog, name, {}, None)
        command = _command(spark, replace(definition, replace=False))
        properties = build_properties(store.table, command.properties)
        handle = Handle(spark, DeltaTable(store, storage_options=options), name=name, retries=0)
        return handle, handle.run(replace(command, properties=properties))
    except TableExistsError as error:
        raise NameTakenError(definition.name) from error


def _create_over(
    spark: SparkSession, definition: NewTableDefinition, existing: SessionTable
) -> tuple[Handle, OperationResult]:
    """Replace the table of a name, or keep it, as requested."""
    if existing.is_view or not (definition.if_not_exists or definition.replace):
        raise NameTakenError(definition.name)
    if definition.if_not_exists and existing.provider.lower() not in PROVIDERS:
        return Handle(spark, DeltaTable(open_store(existing.location))), OperationResult()
    if existing.provider.lower() not in PROVIDERS:
        raise OtherFormatError(definition.name)
    check_location(definition.name, definition.location, existing)
    return _create_at(spark, definition, existing.location, existing)


def check_location(name: str, location: str, existing: SessionTable) -> None:
    """Refuse to replace an existing table at another location; "" is any.

    Raises:
        LocationMismatchError: the table lies elsewhere.
    """
    if location and real_place(location) != real_place(existing.location):
        raise LocationMismatchError(name, location, existing.location)


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
    register_name(spark, definition.name, location, columns, definition.description)
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
    description = snapshot.metadata.description or ""
    register_name(spark, definition.name, definition.location, snapshot.schema, description)
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

    A replacement by the rows of a query leaves files of other formats where they are.
    """
    uri = normalize_uri(definition.location)
    store = open_store(uri, storage_options(spark, uri, {}))
    replaces = definition.replace and definition.clone is None
    if (
        not (replaces and (has_log or definition.source))
        and next(iter(store.list_all()), None) is not None
    ):
        raise OccupiedLocationError(definition.name, definition.location)
    if not columns.fields:
        raise WithoutColumnsError(definition.location)


def _check_collations(schema: spark_types.StructType) -> None:
    """Refuse columns with a collation, which would be lost."""
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
    uri = normalize_uri(place)
    return bool(list_log_files(open_store(uri, storage_options(spark, uri, {}))))


def register_name(
    spark: SparkSession,
    name: str,
    location: str = "",
    schema: StructType | None = None,
    description: str = "",
) -> None:
    """Register a name in the session's catalog; without a location it chooses one.

    Spark's own catalog is given the present columns and the description, for people; nobody reads
    by them.
    """
    columns = ""
    if not uses_delta_spark(spark):
        register_for_names(spark)
        shown = [
            f"{quote_column(f.name)} {to_spark_type(f.type).simpleString()}" for f in schema or ()
        ]
        columns = f" ({', '.join(shown)})" if shown else ""
    place = f" LOCATION {quote_string(location)}" if location else ""
    comment = f" COMMENT {quote_string(description)}" if description else ""
    plain_sql(spark, f"CREATE TABLE {name}{columns} USING delta{place}{comment}")


def _create_at(
    spark: SparkSession,
    definition: NewTableDefinition,
    place: str,
    existing: SessionTable | None = None,
    *,
    exists: bool = False,
) -> tuple[Handle, OperationResult]:
    uri = normalize_uri(place)
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


class LocationSchemaError(RequestError, code="DELTA_CREATE_TABLE_SCHEME_MISMATCH"):
    """The columns of a definition are not those of the table at its location."""


class LocationPartitioningError(
    RequestError, code="DELTA_CREATE_TABLE_WITH_DIFFERENT_PARTITIONING"
):
    """The partition columns of a definition are not those of the table at its location."""


class LocationClusteringError(RequestError, code="DELTA_CREATE_TABLE_WITH_DIFFERENT_CLUSTERING"):
    """The clustering columns of a definition are not those of the table at its location."""


class LocationPropertiesError(RequestError, code="DELTA_CREATE_TABLE_WITH_DIFFERENT_PROPERTY"):
    """The properties of a definition are not those of the table at its location."""


class LocationMismatchError(RequestError, code="DELTA_TABLE_LOCATION_MISMATCH"):
    """A statement gives an existing table another location."""

    def __init__(self, name: str, location: str, existing: str) -> None:
        """Take the table's name, and both locations."""
        super().__init__(
            f"The location of {name} is {existing}, not {location}.",
            "Leave the location out, or drop the table first.",
            field="location",
        )


class OccupiedLocationError(RequestError, code="DELTA_CREATE_TABLE_WITH_NON_EMPTY_LOCATION"):
    """A table is to be created where there is a table, or other files."""

    def __init__(self, name: str, location: str) -> None:
        """Take the location, and the table's name as the caller gave it."""
        super().__init__(
            f"{name} cannot be created: {location} is not empty.",
            "Choose an empty location, write to the existing table, or replace it with"
            " CREATE OR REPLACE TABLE … AS SELECT.",
            field="location",
        )


class SchemaMissingError(RequestError, code="DELTA_SCHEMA_NOT_PROVIDED"):
    """REPLACE, or CREATE OR REPLACE, without columns and without a query."""

    def __init__(self) -> None:
        """Build the error; it has no facts of its own."""
        super().__init__(
            "REPLACE TABLE needs the columns of the new table, or a query.",
            "List the columns, or use CREATE TABLE to register the existing table.",
            field="schema",
        )


def check_definition(
    location: str,
    snapshot: Snapshot,
    columns: StructType,
    partition_columns: Sequence[str],
    clustering_columns: Sequence[str],
    properties: Mapping[str, str],
) -> None:
    """Refuse a definition that differs from the existing table.

    Without columns the layout is not compared, and without properties they are not.

    Raises:
        LocationSchemaError, LocationPartitioningError, LocationClusteringError: the columns or the
            layout differ. The order of the columns does not count.
        LocationPropertiesError: the properties differ.
    """
    if len(columns):
        differences = _list_differences(columns, snapshot.schema)
        if differences:
            what = f"The columns do not match those of the table at {location}: {differences[0]}."
            raise LocationSchemaError(what, _remedy("the same columns"), field="schema")
        _check_layout(
            LocationPartitioningError,
            "partition",
            partition_columns,
            snapshot.partition_columns,
            snapshot.schema,
        )
        _check_layout(
            LocationClusteringError,
            "clustering",
            clustering_columns,
            snapshot.clustering_columns,
            snapshot.schema,
        )
    own, existing = _own_properties(properties), _own_properties(snapshot.metadata.configuration)
    if properties and own != existing:
        what = f"The properties do not match those of the table at {location}."
        raise LocationPropertiesError(what, _remedy("no properties"), field="properties")


def _check_layout(
    error: type[RequestError],
    kind: str,
    specified: Sequence[str],
    existing: Sequence[str],
    schema: StructType,
) -> None:
    if not is_same_layout(schema, specified, existing):
        what = (
            f"The {kind} columns ({', '.join(specified) or 'none'}) do not match those of the table"
            f" at that location ({', '.join(existing) or 'none'})."
        )
        raise error(what, _remedy(f"the same {kind} columns"), field=f"{kind}_columns")


def _remedy(same: str) -> str:
    return (
        f"Give {same}, or leave them out to register the existing table. To replace its rows, use"
        " CREATE OR REPLACE TABLE … AS SELECT."
    )


def _list_differences(specified: StructType, existing: StructType) -> list[str]:
    left, right = _comparable_fields(specified), _comparable_fields(existing)
    return [
        *(f"{name} is missing" for name in right if name not in left),
        *(f"{name} is not in the table" for name in left if name not in right),
        *(f"{name} differs" for name in left if name in right and left[name] != right[name]),
    ]


def _comparable_fields(schema: StructType) -> dict[str, Any]:
    return {field["name"]: field for field in _comparable(type_to_json(schema))["fields"]}


def _comparable(value: Any) -> Any:  # noqa: ANN401 - JSON
    """Return a type's JSON reduced to facts of a definition; fields of structs in any order."""
    if isinstance(value, list):
        parts = [_comparable(part) for part in value]
        named = all(isinstance(part, dict) and "name" in part for part in parts)
        return sorted(parts, key=lambda part: str(part["name"])) if named else parts
    if isinstance(value, dict):
        return {
            key: _user_metadata(inner) if key == "metadata" else _comparable(inner)
            for key, inner in value.items()
        }
    return value


def _user_metadata(metadata: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in metadata.items() if key not in _INTERNAL_METADATA}


def _own_properties(properties: Mapping[str, str]) -> dict[str, str]:
    left_out = (*ROW_HISTORY, *_PROTOCOL_PROPERTIES, *_MAPPING)
    return {key: value for key, value in properties.items() if not key.startswith(left_out)}
