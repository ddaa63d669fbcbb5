"""CREATE TABLE, a clone among them: from tokens to the command."""

from typing import Any

from engine.commands.clone import Clone
from engine.commands.definition import Create
from engine.commands.sql_columns import column_definitions
from engine.commands.sql_sources import source
from engine.commands.statement_cursor import StatementCursor
from engine.errors import StatementError
from engine.schema.types import StructType


def create(cursor: StatementCursor) -> Create | Clone:
    """CREATE [OR REPLACE] TABLE [IF NOT EXISTS] t …, of columns, a SELECT or another table.

    [(columns)] … [AS SELECT …], or [DEEP | SHALLOW] CLONE source [VERSION | TIMESTAMP AS OF …]; CLONE
    alone is deep. REPLACE TABLE is CREATE OR REPLACE TABLE.
    """
    replace = cursor.take("REPLACE")
    if not replace:
        cursor.need("CREATE")
        replace = cursor.take("OR", "REPLACE")
    if not cursor.take("TABLE"):
        what = f"CREATE {cursor.peek() or 'this'} is not understood: only tables are created here."
        raise StatementError(what, "Use CREATE TABLE.", position=cursor.position)
    guard = cursor.take("IF", "NOT", "EXISTS")
    table = cursor.table()
    if cursor.peek() in {"SHALLOW", "DEEP", "CLONE"}:
        return _clone(cursor, table, {"replace": replace, "if_not_exists": guard})
    found: dict[str, Any] = {"replace": replace, "if_not_exists": guard, "properties": {}}
    if cursor.peek() == "(":
        fields, constraints = column_definitions(cursor)
        found["schema"] = StructType(fields)
        found["properties"].update(constraints)
    while _layout(cursor, found):
        pass
    if cursor.take("AS") or cursor.peek() in {"SELECT", "VALUES", "WITH"}:
        found["source"] = source(cursor)
    return Create(**found, table=table)


def _clone(cursor: StatementCursor, table: str, how: dict[str, bool]) -> Clone:
    shallow = cursor.take("SHALLOW")
    if not shallow:
        cursor.take("DEEP")
    cursor.need("CLONE")
    source_table = cursor.table()
    version, timestamp = cursor.point()
    return Clone(source_table, version, timestamp, deep=not shallow, table=table, **how)


def _layout(cursor: StatementCursor, found: dict[str, Any]) -> bool:
    """Read one clause after the columns; False where there is none."""
    if cursor.take("USING"):
        cursor.need("DELTA")
    elif cursor.take("PARTITIONED", "BY"):
        found["partition_columns"] = cursor.columns()
    elif cursor.take("CLUSTER", "BY"):
        found["clustering_columns"] = cursor.columns()
    elif cursor.take("COMMENT"):
        found["description"] = cursor.string("a comment")
    elif cursor.take("TBLPROPERTIES"):
        found["properties"].update(cursor.properties())
    elif cursor.peek() == "LOCATION":
        what = "LOCATION is not understood: a new table lies under the lake's own root."
        raise StatementError(what, "Leave it out.", position=cursor.position)
    else:
        return False
    return True
