"""DELETE, UPDATE, MERGE and INSERT of `spark.sql`: from Spark's plan to the engine's commands.

Conditions and values are Catalyst's expressions. They are converted as `DeltaTable`'s Columns are:
an expression with a tree in the engine decides conflicts at row level, one that only Spark knows
counts as reading whole files.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from engine.commands.column_sql import DEFAULT
from engine.commands.command import Command
from engine.commands.model import Append, DataFrameSource, Delete, Overwrite, Update
from engine.delta.handle import AUTO_MERGE, Handle
from engine.delta.merge_builder import DeltaMergeBuilder
from engine.delta.result_frames import count_frame, nothing
from engine.delta.statement_views import StatementNotRoutedError
from engine.errors import SchemaMismatchError, UnknownColumnError
from engine.schema.assignment import plan_storage
from engine.schema.types import STRING, StructType
from engine.schema.write_errors import ColumnCountError, NamedTwiceError, SetTwiceError
from engine.spark.column_trees import GivenColumn
from engine.spark.columns import column, quote_column, to_spark_type
from engine.spark.jvm import column_of, frame_over, iter_seq, scala_seq, sql_package
from engine.spark.statement_plan import (
    Java,
    kind_of,
    map_of,
    optional,
    parse_expression,
    texts_of,
)
from engine.spark.write.shape import INSERT, store_column

_INLINE = "UnresolvedInlineTable"
_REPLACE_WHERE = "InsertReplaceWhere"
ROW_STATEMENTS = frozenset(
    {"DeleteFromTable", "UpdateTable", "MergeIntoTable", "InsertIntoStatement"}
)


class PartitionGuardError(StatementNotRoutedError, code="UNSUPPORTED_FEATURE", sqlstate="0A000"):
    """An INSERT … PARTITION has IF NOT EXISTS."""


class NotPartitionColumnError(
    StatementNotRoutedError, code="NON_PARTITION_COLUMN", sqlstate="42000"
):
    """An INSERT … PARTITION names a column that is not a partition column."""


def target_of(plan: Java) -> tuple[tuple[str, ...], str]:
    """Return the parts of the target table's name in a statement, and its alias."""
    table = plan.targetTable() if kind_of(plan) == "MergeIntoTable" else plan.table()
    alias = ""
    if kind_of(table) == "SubqueryAlias":
        alias, table = str(table.alias()), table.child()
    if kind_of(table) != "UnresolvedRelation":
        return (), alias
    return texts_of(table.multipartIdentifier()), alias


def delete(handle: Handle, plan: Java) -> DataFrame:
    """DELETE FROM t [WHERE c]: num_affected_rows."""
    result = handle.run(Delete(where=_condition(handle, plan.condition()), alias=handle.qualifier))
    return count_frame(handle.spark, result, "numDeletedRows")


def update(handle: Handle, plan: Java) -> DataFrame:
    """UPDATE t SET … [WHERE c]: num_affected_rows."""
    caller = handle.caller()
    values = {
        name: GivenColumn(value, caller)
        for name, value in _assignments(handle, plan.assignments()).items()
    }
    where = _condition(handle, optional(plan.condition()))
    result = handle.run(Update(assignments=values, where=where, alias=handle.qualifier))
    return count_frame(handle.spark, result, "numUpdatedRows")


def merge(handle: Handle, plan: Java) -> DataFrame:
    """MERGE INTO t USING s ON c WHEN …: the four counts of delta-spark."""
    spark = handle.spark
    source = frame_over(plan.sourceTable(), spark)
    builder = DeltaMergeBuilder(handle, source, column_of(plan.mergeCondition(), spark))
    for clauses, when in (
        (plan.matchedActions(), "whenMatched"),
        (plan.notMatchedActions(), "whenNotMatched"),
        (plan.notMatchedBySourceActions(), "whenNotMatchedBySource"),
    ):
        for clause in iter_seq(clauses):
            builder = _add_clause(handle, builder, when, clause)
    if plan.withSchemaEvolution():
        builder = builder.withSchemaEvolution()
    return builder.execute()


def _add_clause(
    handle: Handle,
    builder: DeltaMergeBuilder,
    when: str,
    clause: Java,
) -> DeltaMergeBuilder:
    kind = kind_of(clause)
    clause_condition = optional(clause.condition())
    condition = None if clause_condition is None else column_of(clause_condition, handle.spark)
    action = kind.removesuffix("Action").removesuffix("Star")
    call: Callable[..., DeltaMergeBuilder]
    call = getattr(builder, f"{when}{action}{'All' if 'Star' in kind else ''}")
    if kind in {"UpdateAction", "InsertAction"}:
        return call(condition, _assignments(handle, clause.assignments()))
    return call(condition)


def insert(handle: Handle, plan: Java, query: Java) -> DataFrame:
    """INSERT INTO, OVERWRITE and REPLACE WHERE. `query` has the statement's WITH about it."""
    spark = handle.spark
    with_schema = plan.withSchemaEvolution() or handle.is_set(AUTO_MERGE)
    fixed = {
        str(name): None if value is None else str(value)
        for name, value in (
            (name, optional(text)) for name, text in map_of(spark, plan.partitionSpec()).items()
        )
    }
    snapshot = handle.table.snapshot()
    _check_partitions(plan, fixed, snapshot.partition_columns)
    names = _names(plan, snapshot.schema, fixed)
    frame = frame_over(_values_with_defaults(spark, query, snapshot.schema, names), spark)
    named = frame if plan.byName() else rename_by_position(frame, names)
    handle.run(_insert_command(handle, plan, named, fixed, bool(with_schema)))
    return nothing(spark)


def replaces_matches(plan: Java) -> bool:
    """Whether an INSERT replaces the rows that its new rows match: REPLACE USING or REPLACE ON."""
    criteria = optional(plan.replaceCriteriaOpt())
    return criteria is not None and kind_of(criteria) != _REPLACE_WHERE


def query_in(session: SparkSession, plan: Java, outer: Java) -> Java:
    """Return the query of an INSERT, within the WITH before the statement."""
    query = plan.query()
    if outer is None:
        return query
    return outer.withNewChildren(scala_seq([query], session))


def _insert_command(
    handle: Handle,
    plan: Java,
    frame: DataFrame,
    fixed: Mapping[str, str | None],
    evolves: bool,
) -> Command:
    schema = handle.table.snapshot().schema
    for name, value in fixed.items():
        field = schema.get(name)
        if value is not None and field is not None:
            way = plan_storage(STRING, field.type, field.name)
            frame = frame.withColumn(field.name, store_column(F.lit(value), way, INSERT))
    source = DataFrameSource(frame, is_made_anew=handle.reads_anew)
    criteria = optional(plan.replaceCriteriaOpt())
    if criteria is not None:
        if kind_of(criteria) != _REPLACE_WHERE:
            what = "WITH before INSERT … REPLACE USING and REPLACE ON is not supported."
            raise StatementNotRoutedError(what, "Move the query behind it.", field="sql")
        condition = _condition(handle, criteria.productElement(0))
        return Overwrite(source, replace_where=condition)
    if not plan.overwrite():
        return Append(source, merge_schema=evolves)
    constants = sum(value is not None for value in fixed.values())
    if handle.overwrites_partitions and constants < len(handle.table.snapshot().partition_columns):
        return Overwrite(source, dynamic_partitions=True)
    chosen = _partition_filter(schema, fixed)
    if chosen is None:
        return Overwrite(source)
    return Overwrite(source, replace_where=GivenColumn(chosen, handle.caller()))


def _check_partitions(
    plan: Java, fixed: Mapping[str, str | None], partition_columns: Sequence[str]
) -> None:
    """Refuse a PARTITION clause that cannot be run as written."""
    if plan.ifPartitionNotExists():
        what = "PARTITION … IF NOT EXISTS is not supported."
        raise PartitionGuardError(what, "Use INSERT INTO, or MERGE.", field="sql")
    partition_names = {name.lower() for name in partition_columns}
    other = [name for name in fixed if name.lower() not in partition_names]
    if other:
        what = f"{other[0]} is not a partition column of the table."
        raise NotPartitionColumnError(what, "Name a partition column.", field="sql")


def _names(plan: Java, schema: StructType, fixed: Mapping[str, str | None]) -> tuple[str, ...]:
    """Return the table's columns for the query's columns, in order."""
    constants = {name.lower() for name, value in fixed.items() if value is not None}
    given = texts_of(plan.userSpecifiedCols())
    for name in given:
        if schema.get(name) is None:
            what = f"There is no column {name}."
            raise UnknownColumnError(what, f"The columns are {', '.join(schema.names)}.")
    if len({name.lower() for name in given}) < len(given):
        what = f"INSERT names a column twice: {', '.join(given)}."
        raise NamedTwiceError(what, "Name each column once.")
    return given or tuple(name for name in schema.names if name.lower() not in constants)


def rename_by_position(frame: DataFrame, names: Sequence[str]) -> DataFrame:
    """Rename the frame's columns to the table's, by position.

    Raises:
        ColumnCountError, SchemaMismatchError: there are too few columns, or too many.
    """
    if len(names) != len(frame.columns):
        what = f"The source has {len(frame.columns)} columns, but the table needs {len(names)}."
        kind = ColumnCountError if len(names) > len(frame.columns) else SchemaMismatchError
        raise kind(what, f"Give {', '.join(names)}.", field="source")
    return frame.toDF(*names)


def _partition_filter(schema: StructType, fixed: Mapping[str, str | None]) -> Column | None:
    """Return the condition for rows of INSERT OVERWRITE … PARTITION (column = value)."""
    condition: Column | None = None
    for name, value in fixed.items():
        field = schema.get(name)
        if value is None or field is None:
            continue
        same = column(field.name).eqNullSafe(F.lit(value).cast(to_spark_type(field.type)))
        condition = same if condition is None else condition & same
    return condition


def _condition(handle: Handle, expression: Java) -> GivenColumn | None:
    if expression is None or (kind_of(expression) == "Literal" and str(expression) == "true"):
        return None
    return GivenColumn(column_of(expression, handle.spark), handle.caller())


def _assignments(handle: Handle, sequence: Java) -> dict[str, str | Column]:
    spark, schema = handle.spark, handle.table.snapshot().schema
    values: dict[str, str | Column] = {}
    for assignment in iter_seq(sequence):
        path = texts_of(assignment.key().nameParts())
        value = _value_or_default(spark, assignment.value(), schema, path)
        key = ".".join(map(quote_column, path))
        if key in values:
            what = f"{'.'.join(path)} is set twice."
            raise SetTwiceError(what, "Set it once.")
        values[key] = column_of(value, spark)
    return values


def set_alias(handle: Handle, alias: str) -> Handle:
    """Return the table under the alias in a statement."""
    return replace(handle, alias=alias) if alias else handle


def _value_or_default(
    spark: SparkSession, value: Java, schema: StructType, path: Sequence[str]
) -> Java:
    """Return a value; DEFAULT becomes its column's default in the table, else null."""
    if not _is_default(value):
        return value
    field = schema.get(path[-1]) if len(path) <= 2 else None
    text = None if field is None else field.metadata.get(DEFAULT)
    return parse_expression(spark, "NULL" if text is None else str(text))


def _values_with_defaults(
    spark: SparkSession, query: Java, schema: StructType, names: Sequence[str]
) -> Java:
    """Replace each DEFAULT in the rows of VALUES by its column's default; keep other queries."""
    if kind_of(query) != _INLINE:
        return query
    rows = [list(iter_seq(row)) for row in iter_seq(query.rows())]
    if not any(_is_default(value) for row in rows for value in row):
        return query
    filled = [
        scala_seq(
            [
                _value_or_default(spark, value, schema, [name])
                for value, name in zip(row, names, strict=False)
            ]
            + row[len(names) :],
            spark,
        )
        for row in rows
    ]
    inline = sql_package(spark).catalyst.analysis.UnresolvedInlineTable
    return inline(query.names(), scala_seq(filled, spark))


def _is_default(value: Java) -> bool:
    if kind_of(value) != "UnresolvedAttribute":
        return False
    parts = texts_of(value.nameParts())
    return len(parts) == 1 and parts[0].upper() == "DEFAULT"
