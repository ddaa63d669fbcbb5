"""The first commit of a table: the actions of version 0."""

import json
import uuid
from collections.abc import Iterable, Mapping, Sequence

from engine.actions.codec import Action
from engine.actions.table import DomainMetadata, Metadata
from engine.errors import InvalidSchemaError, UnknownColumnError
from engine.protocol.clustering import CLUSTERING_DOMAIN
from engine.protocol.features import list_legacy_features, lowest_protocol
from engine.protocol.properties import TableProperties, validate_properties
from engine.schema.column_mapping import (
    ICEBERG_COMPAT_KEY,
    MODE_KEY,
    column_mapping_mode,
    map_columns,
    physical_path,
)
from engine.schema.column_paths import ColumnPath, column_path, render_column_path
from engine.schema.types import (
    ArrayType,
    DataType,
    MapType,
    PrimitiveType,
    StructType,
    parse_schema,
)
from engine.snapshot.definition import (
    check_change_feed,
    check_clustering,
    check_rules,
    check_statistics_columns,
)

_FEATURE_PREFIX = "delta.feature."
READER_VERSION, WRITER_VERSION = "delta.minReaderVersion", "delta.minWriterVersion"
_FORBIDDEN_CHARACTERS = frozenset(" ,;{}()\n\t=")


def first_actions(
    schema: StructType | str,
    partition_columns: Sequence[str],
    clustering_columns: Sequence[str],
    properties: Mapping[str, str],
    *,
    now_ms: int,
) -> list[Action]:
    """Build the protocol, metadata and, for a clustered table, the clustering domain.

    Raises:
        InvalidSchemaError: the schema is invalid, repeats a name, or its partition columns are
            invalid.
        UnknownColumnError: the schema lacks a partition or clustering column.
        InvalidPropertyError: a property does not exist or has an invalid value.
        UnsupportedFeatureError: this engine cannot write a requested feature.
    """
    parsed = parse_schema(schema, keeps_foreign=False)
    configuration = {key: _property_text(value) for key, value in properties.items()}
    validate_properties(configuration)
    configuration = add_defaults(configuration, partition_columns, clustering_columns)
    parsed, configuration = map_columns(parsed, configuration)
    check_names(parsed, column_mapping_mode(configuration))
    partition_columns = [_resolve_spelling(parsed, name) for name in partition_columns]
    _check_layout(parsed, partition_columns, clustering_columns)
    check_rules(parsed, configuration, partition_columns)
    check_change_feed(parsed, configuration)
    check_statistics_columns(parsed, configuration, partition_columns)
    asked = TableProperties.parse(configuration)
    features = set(list_legacy_features(asked.asked_reader_version, asked.asked_writer_version))
    features |= {"clustering"} if clustering_columns else set()
    protocol = lowest_protocol(parsed, configuration, features)
    kept = {k: v for k, v in configuration.items() if not speaks_of_protocol(k)}
    metadata = Metadata(
        id=str(uuid.uuid4()),
        schema_string=parsed.to_json(),
        partition_columns=partition_columns,
        configuration=kept,
        created_time=now_ms,
    )
    actions: list[Action] = [protocol, metadata]
    if clustering_columns:
        actions.append(
            build_clustering_domain(parsed, clustering_columns, column_mapping_mode(configuration))
        )
    return actions


def speaks_of_protocol(key: str) -> bool:
    """Return whether a property only requests a protocol and is not stored."""
    return key.startswith(_FEATURE_PREFIX) or key in {READER_VERSION, WRITER_VERSION}


def add_defaults(
    configuration: Mapping[str, str],
    partition_columns: Sequence[str],
    clustering_columns: Sequence[str],
) -> dict[str, str]:
    """Add defaults to a new table's configuration: deletion vectors and row tracking.

    A table for Iceberg clients gets column mapping and no deletion vectors. If a protocol without
    table features is requested, deletion vectors stay off.
    """
    defaults: dict[str, str] = {}
    if configuration.get(ICEBERG_COMPAT_KEY, "").lower() == "true":
        defaults[MODE_KEY] = "name"
    elif not partition_columns and not _is_old_protocol(configuration):
        defaults["delta.enableDeletionVectors"] = "true"
    if clustering_columns:
        defaults["delta.enableRowTracking"] = "true"
    chosen = {**defaults, **configuration}
    if chosen.get("delta.enableRowTracking", "").lower() == "true":
        prefix = "delta.rowTracking.materialized"
        chosen.setdefault(f"{prefix}RowIdColumnName", f"_row-id-col-{uuid.uuid4()}")
        chosen.setdefault(
            f"{prefix}RowCommitVersionColumnName", f"_row-commit-version-col-{uuid.uuid4()}"
        )
    return chosen


def _is_old_protocol(configuration: Mapping[str, str]) -> bool:
    """Return whether a protocol without deletion vectors is requested."""
    return (
        configuration.get(READER_VERSION, "3") < "3" or configuration.get(WRITER_VERSION, "7") < "7"
    )


def build_clustering_domain(
    schema: StructType, columns: Sequence[str], mode: str
) -> DomainMetadata:
    """Build the metadata domain with the physical names of the clustering columns.

    Raises:
        UnknownColumnError: the schema lacks a column.
        InvalidSchemaError: the clustering columns are invalid.
    """
    resolved = [resolve_column(schema, name) for name in columns]
    check_clustering(schema, resolved)
    paths = [list(physical_path(schema, path, mode)) for path in resolved]
    configuration = json.dumps({"clusteringColumns": paths, "domainName": CLUSTERING_DOMAIN})
    return DomainMetadata(domain=CLUSTERING_DOMAIN, configuration=configuration, removed=False)


def resolve_column(schema: StructType, name: str) -> tuple[str, ...]:
    """Return the path of a column, in the schema's spelling.

    Dots lead into structs, and a name with dots needs backticks; if no such path exists, the text
    is tried as a single name.

    Raises:
        UnknownColumnError: the schema lacks it.
    """
    path = _find_column(schema, column_path(name)) or _find_column(schema, (name,))
    if not path:
        msg = f"The schema has no column {name}."
        raise UnknownColumnError(msg, f"It has {', '.join(schema.names[:20])}.", field="columns")
    return path


def layout_parameters(
    actions: Iterable[Action], clustering_columns: Sequence[str]
) -> dict[str, list[str]]:
    """Return the layout parameters of the commit creating a table, from its `first_actions`."""
    metadata = next(action for action in actions if isinstance(action, Metadata))
    schema = parse_schema(metadata.schema_string)
    paths = [resolve_column(schema, name) for name in clustering_columns]
    return {
        "partitionBy": list(metadata.partition_columns),
        "clusterBy": [render_column_path(path) for path in paths],
    }


def is_same_layout(schema: StructType, first: Sequence[str], second: Sequence[str]) -> bool:
    """Return whether two lists name the same columns of a schema in the same order."""
    try:
        paths = [[resolve_column(schema, name) for name in names] for names in (first, second)]
    except UnknownColumnError:
        return False
    return paths[0] == paths[1]


def _find_column(schema: StructType, path: ColumnPath) -> ColumnPath:
    """Return a path in the schema's spelling; empty if it leads nowhere."""
    names: list[str] = []
    inside: DataType = schema
    for part in path:
        field = inside.get(part) if isinstance(inside, StructType) else None
        if field is None:
            return ()
        names.append(field.name)
        inside = field.type
    return tuple(names)


def check_names(schema: StructType, mode: str) -> None:
    """Refuse invalid column names.

    Raises:
        InvalidSchemaError: a name occurs twice (ignoring case), or needs column mapping because of
            characters Parquet does not allow.
    """
    seen: set[str] = set()
    for column in schema:
        if not column.name or column.name.lower() in seen:
            msg = f"The schema has the column {column.name!r} twice, or without a name."
            raise InvalidSchemaError(msg, "Give each column a name of its own.", field="schema")
        seen.add(column.name.lower())
        if mode == "none" and _FORBIDDEN_CHARACTERS & set(column.name):
            msg = f"The column name {column.name!r} has characters that Parquet does not allow."
            raise InvalidSchemaError(
                msg, "Rename it, or set delta.columnMapping.mode to 'name'.", field="schema"
            )
        _check_nested_names(column.type, mode)


def _check_nested_names(data_type: DataType, mode: str) -> None:
    match data_type:
        case StructType():
            check_names(data_type, mode)
        case ArrayType(element, _):
            _check_nested_names(element, mode)
        case MapType(key, value, _):
            _check_nested_names(key, mode)
            _check_nested_names(value, mode)
        case _:
            return


def _check_layout(schema: StructType, partitions: Sequence[str], clustering: Sequence[str]) -> None:
    if partitions and clustering:
        msg = "A table is partitioned or clustered, not both."
        raise InvalidSchemaError(msg, "Choose one of them.", field="clustering_columns")
    for name in partitions:
        field = schema.get(name)
        if field is None:
            msg = f"The schema has no column {name} to partition by."
            raise UnknownColumnError(
                msg, f"It has {', '.join(schema.names[:20])}.", field="partition_columns"
            )
        if isinstance(field.type, StructType | ArrayType | MapType) or field.type == PrimitiveType(
            "variant"
        ):
            msg = f"{name} cannot be a partition column: it is nested."
            raise InvalidSchemaError(msg, "Partition by a plain column.", field="partition_columns")
    if partitions and len(set(partitions)) == len(schema):
        msg = "Every column is a partition column: the files would have none."
        raise InvalidSchemaError(msg, "Leave at least one column out.", field="partition_columns")
    for name in clustering:
        resolve_column(schema, name)


def _resolve_spelling(schema: StructType, name: str) -> str:
    """Return a top-level column's name in the schema's spelling, without backticks around it."""
    column = schema.get(name) or schema.get(".".join(column_path(name)))
    return name if column is None else column.name


def _property_text(value: object) -> str:
    """Convert a property to text; Python's booleans become Delta's."""
    return str(value).lower() if isinstance(value, bool) else str(value)
