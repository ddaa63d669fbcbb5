"""A table's rules for its rows: missing values are filled in, violations are refused.

Rules are SQL text in the table's log, which is no more trusted than a person's: they go through the
engine's own parser, and a table with a rule that the parser refuses is not written.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from engine.actions.table import Metadata
from engine.errors import (
    ExpressionError,
    RequestError,
    UnsupportedFeatureError,
)
from engine.expressions.parse import parse_condition, parse_expression
from engine.expressions.traits import columns_of
from engine.expressions.tree import TRUE, Call, Expression
from engine.protocol.properties import constraint_name
from engine.schema.text_lengths import has_limits, limit_of, read_declared_type
from engine.schema.types import BOOLEAN, DataType, StructField, StructType
from engine.spark.columns import column, quote_column, to_column, to_spark_type
from engine.spark.nested_rules import fit_text_lengths, is_bounded, keeps, type_shown
from engine.spark.own_columns import resolve_in_session
from engine.spark.row_checks import describe_row, refuse_violations

GENERATED = "delta.generationExpression"
DEFAULT = "CURRENT_DEFAULT"
INVARIANT = "delta.invariants"
IDENTITY = "delta.identity.start"


@dataclass(frozen=True, slots=True)
class RowRule:
    """A rule for every row: its name for people, and its condition.

    Instead of a condition, `not_null` names a path; with `held`, a column with values of that type
    inside.
    """

    name: str
    condition: Expression | None = None
    not_null: tuple[str, ...] = ()
    held: DataType | None = None


def table_rules(
    table: str, schema: StructType, metadata: Metadata, *, by_session: bool = False
) -> list[RowRule]:
    """Return NOT NULL columns, limits of CHAR and VARCHAR, CHECK constraints, column invariants.

    `by_session` as in `parse_condition`.

    Raises:
        UnsupportedFeatureError: this engine cannot check a rule.
        InvalidSchemaError: a column's CHAR or VARCHAR is not a type.
    """
    rules = list(_iter_not_null_rules(table, schema))
    for key, text in metadata.configuration.items():
        if (name := constraint_name(key)) is not None:
            condition = _parse_rule(table, schema, text, f"constraint {name}", by_session)
            rules.append(RowRule(f"the constraint {name} ({text})", _true(condition)))
    for field in schema:
        declared = read_declared_type(field)
        kind, length = limit_of(declared)
        if length:
            fits = _parse_rule(
                table, schema, f"length({quote_column(field.name)}) <= {length}", field.name
            )
            rules.append(RowRule(f"the length of {field.name} ({kind}({length}))", fits))
        elif is_bounded(declared):
            name = f"the type of {field.name} ({type_shown(declared)})"
            rules.append(RowRule(name, not_null=(field.name,), held=declared))
    for path, field in _every_field(schema):
        text = _invariant(field)
        if text:
            name = ".".join(path)
            condition = _parse_rule(table, schema, text, f"invariant of {name}", by_session)
            rules.append(RowRule(f"the invariant of {name} ({text})", _true(condition)))
    return rules


def complete(
    frame: DataFrame, session: SparkSession, table: str, schema: StructType, now_ms: int
) -> DataFrame:
    """Return the table's columns in order; missing ones are generated, a default, or null.

    Expressions mean what the settings of `session` say.

    Raises:
        UnsupportedFeatureError: the engine does not support an expression.
        RequestError: an identity column, which only the table's own engine may fill.
    """
    if frame.columns == schema.names:
        return fit_to_schema(frame, schema)

    def fill(frame: DataFrame) -> DataFrame:
        have = set(frame.columns)
        missing = [field for field in schema if field.name not in have]
        for field in (field for field in missing if GENERATED not in field.metadata):
            frame = frame.withColumn(field.name, _default(table, field, now_ms))
        frame = fit_to_schema(frame, schema)
        for field in (field for field in missing if GENERATED in field.metadata):
            frame = frame.withColumn(field.name, compute_generated(table, schema, field))
        return frame.select(*[column(name) for name in schema.names])

    return resolve_in_session(frame, session, fill)


def enforce(
    frame: DataFrame, session: SparkSession, table: str, schema: StructType, metadata: Metadata
) -> DataFrame:
    """Return the rows; the job fails at the first violation of a rule of the table.

    Rules mean what the settings of `session` say.

    Raises:
        UnsupportedFeatureError: this engine cannot check a rule.
    """
    return resolve_in_session(
        frame, session, lambda rows: _enforce_rules(rows, table, schema, metadata)
    )


def _enforce_rules(
    frame: DataFrame, table: str, schema: StructType, metadata: Metadata
) -> DataFrame:
    frame = fit_to_schema(frame, schema)
    for rule in table_rules(table, schema, metadata, by_session=True):
        if rule.held is not None:
            holds, names = keeps(column(rule.not_null[0]), rule.held), [rule.not_null[0]]
        elif rule.condition is None:
            holds, names = _field_column(rule.not_null).isNotNull(), [rule.not_null[0]]
        else:
            holds = to_column(rule.condition)
            names = sorted({path[0] for path in columns_of(rule.condition)})
        frame = refuse_violations(frame, holds, rule.name, describe_row(names))
    for field in schema:
        if GENERATED in field.metadata:
            expected = compute_generated(table, schema, field)
            rule_name = f"the generation of {field.name} ({field.metadata[GENERATED]})"
            matches = column(field.name).eqNullSafe(expected)
            frame = refuse_violations(frame, matches, rule_name, describe_row([field.name]))
    return frame


def compute_generated(table: str, schema: StructType, field: StructField) -> Column:
    """Return the value of a generated column, computed from the other columns.

    It means what the settings of the session say whose frame takes the column.
    """
    text = str(field.metadata[GENERATED])
    try:
        value = to_column(parse_expression(text, schema, by_session=True))
    except ExpressionError as error:
        raise _not_understood(table, f"generated column {field.name} ({text})") from error
    return value.cast(to_spark_type(field.type))


def fit_to_schema(frame: DataFrame, schema: StructType) -> DataFrame:
    """Fit texts as Spark stores them: cut spaces beyond a limit, pad CHAR with spaces.

    This comes before generated columns and the change feed. Missing columns stay missing.
    """
    for field in schema:
        declared = read_declared_type(field)
        if has_limits(declared) and field.name in frame.columns:
            frame = frame.withColumn(field.name, fit_text_lengths(column(field.name), declared))
    return frame


def _default(table: str, field: StructField, now_ms: int) -> Column:
    if IDENTITY in field.metadata:
        msg = (
            f"{field.name} is an identity column: the engine that made the table numbers its rows."
        )
        raise RequestError(msg, "Write with that engine, or give the values.", field="source")
    text = field.metadata.get(DEFAULT)
    if text is None:
        return F.lit(None).cast(to_spark_type(field.type))
    try:
        default = parse_expression(str(text), StructType(), now_ms=now_ms, by_session=True)
    except ExpressionError as error:
        raise _not_understood(table, f"default of {field.name} ({text})") from error
    return to_column(default).cast(to_spark_type(field.type))


def _true(condition: Expression) -> Expression:
    """Null is not enough (protocol: CHECK Constraints, Column Invariants)."""
    return Call("<=>", (condition, TRUE), BOOLEAN)


def _parse_rule(
    table: str, schema: StructType, text: str, what: str, by_session: bool = False
) -> Expression:
    try:
        return parse_condition(text, schema, by_session=by_session)
    except ExpressionError as error:
        raise _not_understood(table, f"{what} ({text})") from error


def _not_understood(table: str, what: str) -> UnsupportedFeatureError:
    return UnsupportedFeatureError(table, [what[:300]], "write")


def _iter_not_null_rules(table: str, schema: StructType) -> Iterator[RowRule]:
    """Yield NOT NULL rules at any depth of structs; a null struct may have null fields."""
    for path, always in _not_null(schema):
        name = f"NOT NULL of {'.'.join(path)}"
        if always:
            yield RowRule(name, not_null=path)
        else:
            parent, column_ = (".".join(map(quote_column, parts)) for parts in (path[:-1], path))
            yield RowRule(
                name, _parse_rule(table, schema, f"{parent} IS NULL OR {column_} IS NOT NULL", name)
            )


def _not_null(
    schema: StructType, prefix: tuple[str, ...] = (), *, always: bool = True
) -> Iterator[tuple[tuple[str, ...], bool]]:
    """Yield paths of NOT NULL columns, and whether all structs around them are NOT NULL too."""
    for field in schema:
        path = (*prefix, field.name)
        if not field.nullable:
            yield path, always
        if isinstance(field.type, StructType):
            yield from _not_null(field.type, path, always=always and not field.nullable)


def _every_field(
    schema: StructType, prefix: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], StructField]]:
    """Yield columns and the fields of structs, by their paths."""
    for field in schema:
        path = (*prefix, field.name)
        yield path, field
        if isinstance(field.type, StructType):
            yield from _every_field(field.type, path)


def _invariant(field: StructField) -> str:
    text = field.metadata.get(INVARIANT)
    try:
        return str(json.loads(text)["expression"]["expression"]) if text else ""
    except (ValueError, KeyError, TypeError):
        return str(text)


def _field_column(path: tuple[str, ...]) -> Column:
    value = column(path[0])
    for name in path[1:]:
        value = value.getField(name)
    return value
