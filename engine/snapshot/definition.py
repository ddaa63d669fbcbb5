"""Rules for table definitions, checked before version 0 is written (pure)."""

from collections.abc import Iterator, Mapping, Sequence

from engine.errors import InvalidPropertyError, InvalidSchemaError
from engine.expressions.parse import parse_condition, parse_expression
from engine.expressions.traits import columns_of, has_subquery, is_deterministic
from engine.expressions.tree import Expression
from engine.protocol.indexed_columns import has_bounds
from engine.protocol.properties import STATS_COLUMNS, TableProperties, constraint_name
from engine.schema.column_paths import ColumnPath, parse_column_paths
from engine.schema.types import (
    LONG,
    ArrayType,
    DataType,
    MapType,
    StructField,
    StructType,
    iter_nested,
)

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
        msg = f"{taken[0]} is a column of the change data feed itself."
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
        raise RepeatedStatisticsError(msg, "Name each column once.", field=STATS_COLUMNS)


def _statistics_leaves(
    schema: StructType, path: ColumnPath, partition_columns: Sequence[str]
) -> Iterator[ColumnPath]:
    """Yield the leaves of a column listed for statistics, in lower case."""
    name = ".".join(path)
    column, inside = None, schema
    for part in path:
        column = inside.get(part)
        if column is None:
            msg = f"{STATS_COLUMNS} names {name}, which is no column."
            remedy = f"The columns are {', '.join(schema.names[:20])}."
            raise InvalidPropertyError(msg, remedy, field=STATS_COLUMNS)
        inside = column.type if isinstance(column.type, StructType) else StructType()
    if path[0].lower() in {partition.lower() for partition in partition_columns}:
        msg = f"{STATS_COLUMNS} names {name}, which is a partition column."
        remedy = "Leave it out: partition values are exact without statistics."
        raise PartitionStatisticsError(msg, remedy, field=STATS_COLUMNS)
    if column is not None and isinstance(column.type, StructType):
        nested = iter_nested(column.type.fields, path)
        leaves = [leaf for leaf, field in nested if not isinstance(field.type, StructType)]
    elif column is not None and len(path) == 1 and not has_bounds(column.type):
        msg = f"{STATS_COLUMNS} names {name}: values of its type have no minimum and maximum."
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
            f"A table is clustered by at most {_MOST_CLUSTERING_COLUMNS} columns, each named once."
        )
        raise InvalidSchemaError(msg, "Name fewer.", field="clustering_columns")
    for path in paths:
        kind: DataType = schema
        for part in path:
            field = kind.get(part) if isinstance(kind, StructType) else None
            kind = field.type if field else kind
        if isinstance(kind, StructType | ArrayType | MapType):
            msg = f"{'.'.join(path)} cannot be a clustering column: it is nested."
            raise InvalidSchemaError(msg, "Cluster by a plain field.", field="clustering_columns")
        if not has_bounds(kind):
            msg = (
                f"{'.'.join(path)} cannot be a clustering column:"
                " values of its type have no minimum and maximum."
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
            ("it has another rule too", {_DEFAULT, _GENERATION} & column.metadata.keys()),
        )
        if holds
    ]
    if wrong:
        msg = f"{column.name} cannot be an identity column: {wrong[0]}."
        raise InvalidSchemaError(msg, "Define it otherwise.", field="schema")


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
        msg = f"{what} ({text}) is computed from a column that is itself made by the table."
        raise InvalidSchemaError(msg, "Use columns that writes give.", field="schema")


def _check_of_row(tree: Expression, what: str, text: str) -> None:
    if not is_deterministic(tree) or has_subquery(tree):
        msg = f"{what} ({text}) does not follow from the row alone."
        raise InvalidSchemaError(msg, "Leave out rand and subqueries.", field="schema")
