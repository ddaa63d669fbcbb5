"""Names and literals in statements, in a form the statement parser reads back."""

import re
from collections.abc import Iterable, Mapping

from engine.expressions.operands import KEYWORDS, RESERVED
from engine.expressions.parse import Given
from engine.expressions.render import quote_string
from engine.schema.column_paths import column_path

ANY_TABLE = "t"
"""A statement's name for the table of its run or job."""
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_STATEMENT_WORDS = frozenset(
    (
        *("TABLE", "WITH", "WHEN", "THEN", "ON", "SET", "VALUES", "RETAIN", "LITE", "FULL", "DRY"),
        *("ZORDER", "APPLY", "AS", "PARTITION", "TO", "DELTA", "IF", "BY", "REPLACE", "SELECT"),
    )
)


def table_sql(table: str) -> str:
    """Render a table's name, or delta.`uri` for a URI; "t" if the job names the table."""
    if not table:
        return ANY_TABLE
    if is_location(table):
        return f"delta.{quote_name(table)}"
    return ".".join(name_sql(part) for part in table.split("."))


def is_location(table: str) -> bool:
    """Return whether a table is named by its place: a path or a URI, and no plain name."""
    return "/" in table or ":" in table


def name_sql(name: str) -> str:
    """Render one name, in backticks if it needs them."""
    plain = _PLAIN.match(name) and name.upper() not in KEYWORDS | RESERVED | _STATEMENT_WORDS
    return name if plain else quote_name(name)


def quote_name(name: str) -> str:
    """Quote a name in backticks."""
    return f"`{name.replace('`', '``')}`"


def column_list(columns: tuple[str, ...]) -> str:
    """Render columns in brackets, spelt as given."""
    return f"({', '.join(columns)})"


def properties_sql(properties: Mapping[str, str]) -> str:
    """Render properties as `('key' = 'value', …)`."""
    pairs = (f"{quote_string(key)} = {quote_string(value)}" for key, value in properties.items())
    return f"({', '.join(pairs)})"


def options_sql(options: Mapping[str, str | bool | int | None]) -> str:
    """Render ` WITH ('option' = 'value')` for the options set, else nothing."""
    given = {
        key: str(value).lower() if isinstance(value, bool) else str(value)
        for key, value in options.items()
        if value not in (None, False, "")
    }
    return f" WITH {properties_sql(given)}" if given else ""


def render_where(where: Given | None) -> str:
    """Render ` WHERE condition`, or nothing."""
    return f" WHERE {where}" if where else ""


def plain_names(columns: Iterable[str]) -> list[str]:
    """Return the names of columns, without backticks."""
    return [".".join(column_path(name)) if "`" in name else name for name in columns]
