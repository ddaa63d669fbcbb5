"""Column definitions: fields of a schema as SQL, including their metadata."""

from typing import Any

from engine.commands.names import name_sql
from engine.expressions.render import quote_string
from engine.expressions.types import sql_name
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
