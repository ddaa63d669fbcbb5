"""The first commit of a table: the actions of version 0, and the rules for its definition.

The rules are pure functions, checked before anything is written.
"""

import json
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence

from engine.actions.codec import Action
from engine.actions.table import DomainMetadata, Metadata
from engine.errors import InvalidPropertyError, InvalidSchemaError, UnknownColumnError
from engine.expressions.parse import parse_condition, parse_expression
from engine.expressions.traits import columns_of, has_subquery, is_deterministic
from engine.expressions.tree import Expression
from engine.protocol.clustering import CLUSTERING_DOMAIN
from engine.protocol.features import list_legacy_features, lowest_protocol
from engine.protocol.indexed_columns import has_bounds
from engine.protocol.properties import (
    STATS_COLUMNS,
    TableProperties,
    constraint_name,
    validate_properties,
)
from engine.schema.column_mapping import (
    ICEBERG_COMPAT_KEY,
    MODE_KEY,
    column_mapping_mode,
    map_columns,
    physical_path,
)
from engine.schema.column_paths import (
    ColumnPath,
    column_path,
    parse_column_paths,
    render_column_path,
)
from engine.schema.types import (
    LONG,
    ArrayType,
    DataType,
    MapType,
    PrimitiveType,
    StructField,
    StructType,
    iter_nested,
    parse_schema,
)
from engine.schema.write_errors import RepeatedColumnError, TwoLayoutsError

CHANGE_FEED_COLUMNS = ("_change_type", "_commit_version", "_commit_timestamp")
_GENERATION, _DEFAULT = "delta.generationExpression", "CURRENT_DEFAULT"
_IDENTITY, _IDENTITY_STEP = "delta.identity.start", "delta.identity.step"
_SOME_DAY_MS = 10**12
_MOST_CLUSTERING_COLUMNS = 4


class PartitionStatisticsError(
    InvalidPropertyError, code="DELTA_COLUMN_DATA_SKIPPING_NOT_SUPPORTED_PARTITIONED_COLUMN"
):
    """Statistics are requested for a partition column."""


class StatisticsTypeError(
    InvalidPropertyError, code="DELTA_COLUMN_DATA_SKIPPING_NOT_SUPPORTED_TYPE"
):
    """Statistics are requested for a column of a type without statistics."""


class RepeatedStatisticsError(InvalidPropertyError, code="DELTA_DUPLICATE_DATA_SKIPPING_COLUMNS"):
    """A column is listed for statistics twice."""


class ClusteringTypeError(
    InvalidSchemaError, code="DELTA_CLUSTERING_COLUMNS_DATATYPE_NOT_SUPPORTED"
):
    """A clustering column has a type without statistics."""


def check_rules(
    schema: StructType, configuration: Mapping[str, str], partition_columns: Sequence[str]
) -> None:
    """Refuse columns and constraints with unenforceable rules.

    Raises:
        InvalidSchemaError: an identity column is invalid, or an expression is not deterministic or
            reads more than its row.
        ExpressionError: an expression does not parse, or names an unknown column.
    """
    for column in schema:
        if _IDENTITY in column.metadata:
            _check_identity(column, partition_columns)
        if _DEFAULT in column.metadata:
            check_default(column, str(column.metadata[_DEFAULT]))
        if _GENERATION in column.metadata:
            _check_generated(column, schema)
    check_constraints(schema, configuration)


def check_constraints(schema: StructType, configuration: Mapping[str, str]) -> None:
    """Refuse constraints not determined by a row.

    Raises:
        InvalidSchemaError: one is not deterministic, or reads a table.
        ExpressionError: one does not parse, or names an unknown column.
    """
    for key, text in configuration.items():
        if (name := constraint_name(key)) is not None:
            _check_of_row(parse_condition(text, schema), f"The constraint {name}", text)


def check_default(column: StructField, text: str) -> Expression:
    """Parse a column default; it may not read columns or tables.

    Raises:
        InvalidSchemaError: it reads another table.
        ExpressionError: it does not parse, or names a column.
    """
    tree = parse_expression(text, StructType())
    if has_subquery(tree):
        msg = f"The default of {column.name} ({text}) reads a table."
        raise InvalidSchemaError(msg, "Give a value.", field="schema")
    return tree


def check_change_feed(schema: StructType, configuration: Mapping[str, str]) -> None:
    """Refuse columns with the change feed's reserved names, if the feed is on.

    Raises:
        InvalidSchemaError: a column has such a name.
    """
    taken = [column.name for column in schema if column.name.lower() in CHANGE_FEED_COLUMNS]
    if taken and TableProperties.parse(configuration).enable_change_data_feed:
        msg = f"{taken[0]} is a reserved column of the change data feed."
        raise InvalidSchemaError(msg, "Give the column another name.", field="schema")


def check_statistics_columns(
    schema: StructType, configuration: Mapping[str, str], partition_columns: Sequence[str]
) -> None:
    """Refuse an invalid list of statistics columns.

    Raises:
        InvalidPropertyError: it is not a list of columns, or names an unknown column.
        PartitionStatisticsError: it names a partition column.
        StatisticsTypeError: it names a column whose type has no minimum and maximum.
        RepeatedStatisticsError: it names a column twice.
    """
    text = configuration.get(STATS_COLUMNS, "")
    try:
        paths = parse_column_paths(text)
    except ValueError as error:
        msg = f"{STATS_COLUMNS} cannot be {text[:200]!r}."
        remedy = "Separate the columns by commas. Put names with other characters in backticks."
        raise InvalidPropertyError(msg, remedy, field=STATS_COLUMNS) from error
    leaves = [
        leaf for path in paths for leaf in _statistics_leaves(schema, path, partition_columns)
    ]
    if len(set(leaves)) < len(leaves):
        twice = next(leaf for leaf in leaves if leaves.count(leaf) > 1)
        msg = f"{STATS_COLUMNS} names {'.'.join(twice)} twice."
        raise RepeatedStatisticsError(msg, "List each column once.", field=STATS_COLUMNS)


def _statistics_leaves(
    schema: StructType, path: ColumnPath, partition_columns: Sequence[str]
) -> Iterator[ColumnPath]:
    """Yield the leaves of a column listed for statistics, in lower case."""
    name = ".".join(path)
    column, inside = None, schema
    for part in path:
        column = inside.get(part)
        if column is None:
            msg = f"{STATS_COLUMNS} lists {name}, which is not a column."
            remedy = f"The columns are {', '.join(schema.names[:20])}."
            raise InvalidPropertyError(msg, remedy, field=STATS_COLUMNS)
        inside = column.type if isinstance(column.type, StructType) else StructType()
    if path[0].lower() in {partition.lower() for partition in partition_columns}:
        msg = f"{STATS_COLUMNS} lists {name}, which is a partition column."
        remedy = "Remove it: partition values are exact without statistics."
        raise PartitionStatisticsError(msg, remedy, field=STATS_COLUMNS)
    if column is not None and isinstance(column.type, StructType):
        nested = iter_nested(column.type.fields, path)
        leaves = [leaf for leaf, field in nested if not isinstance(field.type, StructType)]
    elif column is not None and len(path) == 1 and not has_bounds(column.type):
        msg = f"{STATS_COLUMNS} lists {name}, whose type has no minimum and maximum."
        raise StatisticsTypeError(msg, "Leave it out.", field=STATS_COLUMNS)
    else:
        leaves = [path]
    yield from (tuple(part.lower() for part in leaf) for leaf in leaves)


def check_clustering(schema: StructType, paths: Sequence[tuple[str, ...]]) -> None:
    """Refuse invalid clustering columns.

    Raises:
        InvalidSchemaError: too many columns, a repeated one, or a nested one.
        ClusteringTypeError: a column's type has no statistics.
    """
    if len(paths) > _MOST_CLUSTERING_COLUMNS or len(set(paths)) < len(paths):
        msg = (
            f"A table can have at most {_MOST_CLUSTERING_COLUMNS} clustering columns, each "
            "listed once."
        )
        raise InvalidSchemaError(msg, "List fewer columns, each once.", field="clustering_columns")
    for path in paths:
        kind: DataType = schema
        for part in path:
            field = kind.get(part) if isinstance(kind, StructType) else None
            kind = field.type if field else kind
        if isinstance(kind, StructType | ArrayType | MapType):
            msg = f"{'.'.join(path)} cannot be a clustering column: it is nested."
            raise InvalidSchemaError(
                msg, "Cluster by a field that is not nested.", field="clustering_columns"
            )
        if not has_bounds(kind):
            msg = (
                f"{'.'.join(path)} cannot be a clustering column, because its type has no "
                "minimum and maximum."
            )
            raise ClusteringTypeError(msg, "Choose another column.", field="clustering_columns")


def _check_identity(column: StructField, partition_columns: Sequence[str]) -> None:
    partitions = {name.lower() for name in partition_columns}
    wrong = [
        why
        for why, holds in (
            (
                f"its type is {getattr(column.type, 'name', 'nested')}, not BIGINT",
                column.type != LONG,
            ),
            ("its step is 0", int(column.metadata.get(_IDENTITY_STEP, 1)) == 0),
            ("it is a partition column", column.name.lower() in partitions),
            ("it has another rule as well", {_DEFAULT, _GENERATION} & column.metadata.keys()),
        )
        if holds
    ]
    if wrong:
        msg = f"{column.name} cannot be an identity column: {wrong[0]}."
        kind = IdentityTypeError if column.type != LONG else InvalidSchemaError
        raise kind(msg, "Change its definition.", field="schema")


def _check_generated(column: StructField, schema: StructType) -> None:
    text = str(column.metadata[_GENERATION])
    tree = parse_expression(text, schema, now_ms=_SOME_DAY_MS)
    what = f"The generated column {column.name}"
    _check_of_row(tree, what, text)
    if tree != parse_expression(text, schema, now_ms=0):
        msg = f"{what} ({text}) depends on when the row is written."
        raise InvalidSchemaError(msg, "Give the column a default instead.", field="schema")
    made = {f.name.lower() for f in schema if {_GENERATION, _IDENTITY} & f.metadata.keys()}
    if any(path[0].lower() in made for path in columns_of(tree)):
        msg = f"{what} ({text}) uses a column that the table itself computes."
        raise InvalidSchemaError(msg, "Use only columns that writers provide.", field="schema")


def _check_of_row(tree: Expression, what: str, text: str) -> None:
    if not is_deterministic(tree) or has_subquery(tree):
        msg = f"{what} ({text}) does not depend only on the row."
        raise GeneratedExpressionError(msg, "Remove rand and subqueries.", field="schema")


_FEATURE_PREFIX = "delta.feature."
READER_VERSION, WRITER_VERSION = "delta.minReaderVersion", "delta.minWriterVersion"
_FORBIDDEN_CHARACTERS = frozenset(" ,;{}()\n\t=")


class GeneratedExpressionError(
    InvalidSchemaError, code="UNSUPPORTED_EXPRESSION_GENERATED_COLUMN", sqlstate="42621"
):
    """The expression of a generated column depends on more than the row."""


class IdentityTypeError(
    InvalidSchemaError, code="DELTA_IDENTITY_COLUMNS_UNSUPPORTED_DATA_TYPE", sqlstate="428H2"
):
    """An identity column is not a BIGINT."""


class ColumnNameError(InvalidSchemaError, code="DELTA_INVALID_CHARACTERS_IN_COLUMN_NAMES"):
    """A column's name needs column mapping."""


class PartitionColumnMissingError(UnknownColumnError, code="DELTA_PARTITION_COLUMN_NOT_FOUND"):
    """The schema lacks a partition column."""


class EveryColumnPartitionsError(
    InvalidSchemaError, code="DELTA_CANNOT_USE_ALL_COLUMNS_FOR_PARTITION"
):
    """No column is left for the files."""


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
    return tuple(field.name for field in schema.find(path))


def check_names(schema: StructType, mode: str) -> None:
    """Refuse invalid column names.

    Raises:
        InvalidSchemaError: a name occurs twice (ignoring case), or needs column mapping because of
            characters Parquet does not allow.
    """
    seen: set[str] = set()
    for column in schema:
        if not column.name or column.name.lower() in seen:
            msg = f"The schema has two columns called {column.name!r}, or a column without a name."
            raise RepeatedColumnError(msg, "Give each column a unique name.", field="schema")
        seen.add(column.name.lower())
        if mode == "none" and _FORBIDDEN_CHARACTERS & set(column.name):
            msg = f"The column name {column.name!r} has characters that Parquet does not allow."
            raise ColumnNameError(
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
        msg = "A table cannot be both partitioned and clustered."
        raise TwoLayoutsError(msg, "Choose one of them.", field="clustering_columns")
    for name in partitions:
        field = schema.get(name)
        if field is None:
            msg = f"The schema has no column {name} to partition by."
            raise PartitionColumnMissingError(
                msg, f"It has {', '.join(schema.names[:20])}.", field="partition_columns"
            )
        if isinstance(field.type, StructType | ArrayType | MapType) or field.type == PrimitiveType(
            "variant"
        ):
            msg = f"{name} cannot be a partition column: it is nested."
            raise InvalidSchemaError(
                msg, "Partition by a column that is not nested.", field="partition_columns"
            )
    if partitions and len(set(partitions)) == len(schema):
        msg = "Every column is a partition column, so the files would have no columns."
        raise EveryColumnPartitionsError(
            msg, "Leave at least one column out.", field="partition_columns"
        )
    for name in clustering:
        resolve_column(schema, name)


def _resolve_spelling(schema: StructType, name: str) -> str:
    """Return a top-level column's name in the schema's spelling, without backticks around it."""
    column = schema.get(name) or schema.get(".".join(column_path(name)))
    return name if column is None else column.name


def _property_text(value: object) -> str:
    """Convert a property to text; Python's booleans become Delta's."""
    return str(value).lower() if isinstance(value, bool) else str(value)
