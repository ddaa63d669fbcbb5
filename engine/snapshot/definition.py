"""What a table cannot be defined as: found before version 0 is written, not at its first row (pure)."""

from collections.abc import Iterator, Mapping, Sequence

from engine.errors import InvalidPropertyError, InvalidSchemaError
from engine.expressions.parse import parse_condition, parse_expression
from engine.expressions.traits import columns_of, has_subquery, is_deterministic
from engine.expressions.tree import Expression
from engine.protocol.properties import (
    CONSTRAINT_PREFIX,
    STATS_COLUMNS,
    TableProperties,
    split_column_list,
)
from engine.schema.types import (
    LONG,
    ArrayType,
    DataType,
    MapType,
    StructField,
    StructType,
)

CHANGE_FEED_COLUMNS = ("_change_type", "_commit_version", "_commit_timestamp")
_GENERATION, _DEFAULT = "delta.generationExpression", "CURRENT_DEFAULT"
_IDENTITY, _IDENTITY_STEP = "delta.identity.start", "delta.identity.step"
_SOME_DAY_MS = 10**12
_MOST_CLUSTERING_COLUMNS = 4


def check_rules(
    schema: StructType, configuration: Mapping[str, str], partition_columns: Sequence[str]
) -> None:
    """Refuse columns and constraints whose rule no row could be held to.

    Raises:
        InvalidSchemaError: an identity column that cannot be one, or an expression that differs from
            time to time, or reads more than the row.
        ExpressionError: an expression that does not parse, or names a column there is not.
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
    """Refuse constraints that do not follow from a row.

    Raises:
        InvalidSchemaError: one differs from time to time, or reads a table.
        ExpressionError: one does not parse, or names a column there is not.
    """
    for key, text in configuration.items():
        if key.startswith(CONSTRAINT_PREFIX):
            condition = parse_condition(text, schema)
            _check_of_row(condition, f"The constraint {key.removeprefix(CONSTRAINT_PREFIX)}", text)


def check_default(column: StructField, text: str) -> Expression:
    """The tree of a default, which no column of the row has a part in.

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
    """Refuse names that a change feed keeps for itself, where there is one.

    Raises:
        InvalidSchemaError: a column has such a name.
    """
    taken = [column.name for column in schema if column.name.lower() in CHANGE_FEED_COLUMNS]
    if taken and TableProperties.parse(configuration).enable_change_data_feed:
        msg = f"{taken[0]} is a column of the change data feed itself."
        raise InvalidSchemaError(msg, "Give the column another name.", field="schema")


def check_statistics_columns(schema: StructType, configuration: Mapping[str, str]) -> None:
    """Refuse statistics of columns there are not.

    Raises:
        InvalidPropertyError: the property names such a column.
    """
    for name in split_column_list(configuration.get(STATS_COLUMNS, "")):
        if not _is_there(schema, name):
            msg = f"{STATS_COLUMNS} names {name}, which is no column."
            remedy = f"The columns are {', '.join(schema.names[:20])}."
            raise InvalidPropertyError(msg, remedy, field=STATS_COLUMNS)


def check_clustering(schema: StructType, paths: Sequence[tuple[str, ...]]) -> None:
    """Refuse columns that rows cannot be laid out by.

    Raises:
        InvalidSchemaError: too many, one twice, or one that is nested.
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


def _is_there(schema: StructType, name: str) -> bool:
    """Whether a name, of a column or of a field by its dotted path, is in the schema."""
    return any(path.lower() == name.lower() for path in _paths(schema))


def _paths(schema: StructType, prefix: str = "") -> Iterator[str]:
    for column in schema:
        yield f"{prefix}{column.name}"
        if isinstance(column.type, StructType):
            yield from _paths(column.type, f"{prefix}{column.name}.")
