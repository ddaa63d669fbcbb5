"""Column definitions as SQL, and the values that DEFAULT stands for in a statement."""

from collections.abc import Sequence
from typing import Any

from engine.commands.names import name_sql
from engine.errors import ExpressionError
from engine.expressions.parse import Given, GivenExpression, parse_expression
from engine.expressions.queries.binder import read_query_text
from engine.expressions.queries.syntax import SelectSyntax
from engine.expressions.render import quote_string
from engine.expressions.tree import VOID, Expression
from engine.expressions.types import is_complex, sql_name
from engine.schema.text_lengths import read_declared_type
from engine.schema.types import ArrayType, DataType, MapType, StructField, StructType

GENERATION = "delta.generationExpression"
DEFAULT = "CURRENT_DEFAULT"
COMMENT = "comment"
IDENTITY_START = "delta.identity.start"
IDENTITY_STEP = "delta.identity.step"
IDENTITY_EXPLICIT = "delta.identity.allowExplicitInsert"


def columns_sql(schema: StructType) -> str:
    """Render the columns of a CREATE TABLE."""
    return ", ".join(column_sql(column) for column in schema)


def column_sql(field: StructField) -> str:
    """Render one column: name, type and options."""
    parts = [name_sql(field.name), type_sql(read_declared_type(field))]
    if not field.nullable:
        parts.append("NOT NULL")
    parts.extend(_render_metadata(field.metadata))
    return " ".join(parts)


def type_sql(data_type: DataType) -> str:
    """Render a type with the nullability and comments of its fields."""
    match data_type:
        case StructType(fields):
            return f"STRUCT<{', '.join(_render_nested_field(field) for field in fields)}>"
        case ArrayType(element):
            return f"ARRAY<{type_sql(element)}>"
        case MapType(key, value):
            return f"MAP<{type_sql(key)}, {type_sql(value)}>"
        case _:
            return sql_name(data_type)


def _render_nested_field(field: StructField) -> str:
    null = "" if field.nullable else " NOT NULL"
    comment = field.metadata.get(COMMENT)
    shown = f" COMMENT {quote_string(str(comment))}" if comment else ""
    return f"{name_sql(field.name)}: {type_sql(field.type)}{null}{shown}"


def _render_metadata(metadata: Any) -> list[str]:  # noqa: ANN401 - a field's metadata
    parts = []
    if GENERATION in metadata:
        parts.append(f"GENERATED ALWAYS AS ({metadata[GENERATION]})")
    if IDENTITY_START in metadata:
        kind = "BY DEFAULT" if metadata.get(IDENTITY_EXPLICIT) else "ALWAYS"
        start, step = metadata[IDENTITY_START], metadata.get(IDENTITY_STEP, 1)
        parts.append(f"GENERATED {kind} AS IDENTITY (START WITH {start} INCREMENT BY {step})")
    if DEFAULT in metadata:
        parts.append(f"DEFAULT {metadata[DEFAULT]}")
    if metadata.get(COMMENT):
        parts.append(f"COMMENT {quote_string(str(metadata[COMMENT]))}")
    return parts


def is_default(given: Given) -> bool:
    """Return whether a value is the word DEFAULT."""
    text = given if isinstance(given, str) else given.statement_text
    return text.strip().upper() == "DEFAULT"


def or_default(given: Given, schema: StructType, path: Sequence[str]) -> Given:
    """Return a value unchanged, or for DEFAULT the text of the column's default.

    Raises:
        ExpressionError: the column is nested, or computed by the table.
    """
    if not is_default(given):
        return given
    own = path if schema.get(path[0]) is not None else path[1:]  # after the table's name or alias
    field = schema.get(own[0]) if len(own) == 1 else None
    if field is None:
        what = f"{'.'.join(path)} cannot be set to DEFAULT."
        raise ExpressionError(
            what, "Only top-level columns have defaults. Write the value.", position=0
        )
    if GENERATION in field.metadata or IDENTITY_START in field.metadata:
        what = f"{field.name} cannot be set to DEFAULT, because the table computes its values."
        raise ExpressionError(what, "Leave it out.", position=0)
    default = str(field.metadata.get(DEFAULT, "NULL"))
    tree = parse_expression(default, StructType())
    if tree.type not in {field.type, VOID} and not is_complex(field.type):
        default = f"CAST({default} AS {sql_name(field.type)})"
    return given.restate(default) if isinstance(given, GivenExpression) else default


def default_tree(
    schema: StructType | None, name: str, *, now_ms: int, by_session: bool = False
) -> Expression:
    """Return the tree of a column's default. Errors as in `or_default`."""
    text = or_default("DEFAULT", schema or StructType(), (name,))
    return parse_expression(str(text), StructType(), now_ms=now_ms, by_session=by_session)


def values_with_defaults(texts: Sequence[str], schema: StructType) -> tuple[str, ...]:
    """Replace DEFAULT in expressions for a table's columns in order. Errors as `or_default`."""
    named = zip(texts, (*schema.names, *[""] * len(texts)), strict=False)
    return tuple(str(or_default(text, schema, (name,))) if name else text for text, name in named)


def query_with_defaults(query: str, schema: StructType, columns: Sequence[str]) -> str:
    """Replace DEFAULT items of a query by the defaults of the target columns.

    Raises:
        ExpressionError: as in `or_default`, or the query does not parse.
    """
    if "DEFAULT" not in query.upper():
        return query
    body = read_query_text(query).body
    if not isinstance(body, SelectSyntax) or any(item.star for item in body.items):
        return query
    for item, name in reversed(list(zip(body.items, columns, strict=False))):
        first = item.tokens[0]
        if len(item.tokens) == 1 and first.kind == "word" and first.value == "DEFAULT":
            value = f"({or_default('DEFAULT', schema, (name,))})"
            query = query[: first.position] + value + query[first.end :]
    return query
