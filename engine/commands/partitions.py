"""PARTITION (p = 1, q): constants for partition columns, and the partitions to overwrite."""

from collections.abc import Mapping

from engine.commands.names import name_sql
from engine.commands.sources import QuerySource, RowsSource, Source
from engine.errors import RequestError
from engine.expressions import build
from engine.expressions.parse import parse_expression
from engine.expressions.queries.reader import check_calls
from engine.expressions.scope import Scope
from engine.expressions.traits import conjunction
from engine.expressions.tree import VOID, Column, Expression, Literal
from engine.expressions.types import is_cast_by_zone
from engine.schema.column_paths import column_path
from engine.schema.types import StructType


def partition_sql(partition: Mapping[str, str]) -> str:
    """Render ` PARTITION (p = 1, q)`, or nothing."""
    parts = (f"{column} = {value}" if value else column for column, value in partition.items())
    return f" PARTITION ({', '.join(parts)})" if partition else ""


def static_values(partition: Mapping[str, str], schema: StructType) -> dict[str, Expression]:
    """Return the constants by column name, in the columns' types.

    Raises:
        RequestError: a column does not exist.
        ExpressionError: a column cannot hold its value.
    """
    values: dict[str, Expression] = {}
    for name, text in partition.items():
        column = Scope.from_schema(schema).resolve(column_path(name))
        if text:
            value = _literal(name, text)
            same = value.type == column.type
            values[column.path[0]] = (
                value if same else build.cast(value, column.type, lenient=False)
            )
    return values


def check_times(partition: Mapping[str, str], schema: StructType) -> None:
    """Refuse constants that another time zone than UTC makes other values.

    Raises:
        RequestError: names the column.
    """
    for name, text in partition.items():
        column = Scope.from_schema(schema).resolve(column_path(name))
        value = parse_expression(text or "NULL", StructType(), by_session=True)
        if not isinstance(value, Literal) or is_cast_by_zone(value.type, column.type):
            what = f"{name} = {text[:100]} in PARTITION depends on the session's time zone."
            remedy = "Write a TIMESTAMP with its zone, such as TIMESTAMP '2026-01-31 12:00:00Z'."
            raise RequestError(what, remedy, field="partition")


def partition_condition(partition: Mapping[str, str], schema: StructType) -> Expression | None:
    """Return the condition for the partitions an overwrite replaces; None for all."""
    values = static_values(partition, schema)
    if not values:
        return None
    return conjunction(
        build.call("<=>", (Column((name,), value.type), value)) for name, value in values.items()
    )


def check_partition(partition: Mapping[str, str], source: Source) -> None:
    """Refuse values other than constants, and repeated columns.

    Raises:
        RequestError: names the column.
        ExpressionError: a value does not parse.
    """
    lowered = [name_sql(column_path(name)[-1]).lower() for name in partition]
    if len(set(lowered)) < len(lowered):
        what = f"A column comes twice in PARTITION ({', '.join(partition)})."
        raise RequestError(what, "Name each once.", field="partition")
    for name, text in partition.items():
        if text:
            check_calls(text)
            _literal(name, text)
    named = source.columns if isinstance(source, RowsSource | QuerySource) else ()
    taken = {column.lower() for column in named}
    both = [name for name, text in partition.items() if text and name.lower() in taken]
    if both:
        what = f"{both[0]} has a value in PARTITION and is among the columns too."
        raise RequestError(what, "Leave it out of the columns.", field="partition")


def _literal(name: str, text: str) -> Expression:
    if text.strip().upper() == "DEFAULT":
        what = f"{name} cannot be DEFAULT in PARTITION."
        raise RequestError(what, "Write the value out, or leave the column out.", field="partition")
    value = parse_expression(text, StructType())
    if isinstance(value, Literal) or value.type == VOID:
        return value
    what = f"{name} = {text[:100]} in PARTITION is no constant."
    raise RequestError(what, "Write the value out.", field="partition")
