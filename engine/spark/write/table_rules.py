"""A table's rules for its rows (`engine.snapshot.row_rules`), evaluated by Spark."""

from collections.abc import Iterator
from functools import reduce

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from engine.actions.table import Metadata
from engine.expressions.tree import Expression
from engine.schema.text_lengths import drop_limits, has_limits, limit_of, read_declared_type
from engine.schema.types import ArrayType, DataType, MapType, StructField, StructType
from engine.snapshot.row_rules import GENERATED, RowRule, RuleParser, text_columns
from engine.spark.columns import column, to_column, to_spark_type
from engine.spark.own_columns import resolve_in_session
from engine.spark.write.row_checks import describe_row, refuse_violations


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
        parser = RuleParser(table, schema, by_session=True)
        missing = [field for field in schema if field.name not in have]
        for field in (field for field in missing if GENERATED not in field.metadata):
            default = parser.parse_default(field, now_ms)
            value = F.lit(None) if default is None else to_column(default)
            frame = frame.withColumn(field.name, value.cast(to_spark_type(field.type)))
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

    def check(rows: DataFrame) -> DataFrame:
        rows = fit_to_schema(rows, schema)
        parser = RuleParser(table, schema, by_session=True)
        for rule in parser.list_rules(metadata, schema.names):
            holds = _condition(rule)
            rows = refuse_violations(rows, holds, rule.name, describe_row(rule.columns))
        return rows

    return resolve_in_session(frame, session, check)


def compute_generated(table: str, schema: StructType, field: StructField) -> Column:
    """Return the value of a generated column, computed from the other columns.

    It means what the settings of the session say whose frame takes the column.
    """
    value = RuleParser(table, schema, by_session=True).parse_generated(field)
    return _compute_value(value, read_declared_type(field))


def fit_to_schema(frame: DataFrame, schema: StructType) -> DataFrame:
    """Fit texts as Spark stores them: cut spaces beyond a limit, pad CHAR with spaces.

    This comes before generated columns and the change feed. Missing columns stay missing.
    """
    for name, declared in text_columns(schema):
        if name in frame.columns:
            frame = frame.withColumn(name, _fit_text_lengths(column(name), declared))
    return frame


def _condition(rule: RowRule) -> Column:
    if rule.condition is not None:
        return to_column(rule.condition)
    value, declared = column(rule.columns[0]), rule.declared
    if rule.computed is None:
        return _keeps(value, declared)
    return value.eqNullSafe(_compute_value(rule.computed, declared))


def _compute_value(value: Expression, declared: DataType) -> Column:
    kind = to_spark_type(drop_limits(declared))
    return _fit_text_lengths(to_column(value).cast(kind), declared)


def _fit_text_lengths(value: Column, data_type: DataType) -> Column:
    """Fit texts as Spark stores them: cut spaces beyond a limit, pad CHAR with spaces."""
    result = value
    match data_type:
        case _ if not has_limits(data_type):
            pass
        case ArrayType(element):
            result = F.transform(value, lambda item: _fit_text_lengths(item, element))
        case MapType(key, held):
            keys = F.transform_keys(value, lambda item, _: _fit_text_lengths(item, key))
            result = F.transform_values(keys, lambda _, item: _fit_text_lengths(item, held))
        case StructType(fields):
            parts = [
                _fit_text_lengths(value.getField(f.name), f.type).alias(f.name) for f in fields
            ]
            result = F.when(value.isNotNull(), F.struct(*parts))
        case _:
            result = _text(value, *limit_of(data_type))
    return result


def _text(value: Column, kind: str, length: int) -> Column:
    fits = (F.length(value) <= length) | (F.length(F.rtrim(value)) > length)
    cut = F.when(fits, value).otherwise(F.substring(value, 1, length))
    if kind != "char":
        return cut
    return F.when(F.length(cut) < length, F.rpad(cut, length, " ")).otherwise(cut)


def _keeps(value: Column, data_type: DataType, *, inside: bool = False) -> Column:
    """Whether a value is one of the type; null is one. Fields of structs are requested `inside` alone."""
    kind, length = limit_of(data_type)
    holds = (
        [F.length(value) <= length] if kind else list(_iter_rules(value, data_type, inside=inside))
    )
    return value.isNull() | reduce(lambda one, other: one & other, holds, F.lit(True))


def _iter_rules(value: Column, data_type: DataType, *, inside: bool) -> Iterator[Column]:
    match data_type:
        case ArrayType(element, nulls):
            yield _each(value, element, nulls=nulls)
        case MapType(key, held, nulls):
            yield _each(F.map_keys(value), key, nulls=True)
            yield _each(F.map_values(value), held, nulls=nulls)
        case StructType(fields):
            for field in fields:
                part = value.getField(field.name)
                yield _keeps(part, field.type, inside=inside)
                if inside and not field.nullable:
                    yield part.isNotNull()
        case _:
            return


def _each(values: Column, data_type: DataType, *, nulls: bool) -> Column:
    def holds(item: Column) -> Column:
        kept = _keeps(item, data_type, inside=True)
        return kept if nulls else item.isNotNull() & kept

    return F.forall(values, holds)
