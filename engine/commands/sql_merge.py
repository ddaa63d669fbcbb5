"""MERGE: from tokens to the command."""

from dataclasses import replace

from engine.commands.analysed_merge import (
    BY_SOURCE,
    DELETE,
    INSERT,
    INSERT_ALL,
    MATCHED,
    NOT_MATCHED,
    UPDATE,
    UPDATE_ALL,
)
from engine.commands.follow_ups import OPTION
from engine.commands.merge import Merge, MergeClause
from engine.commands.sources import RowsSource, Source, TableSource
from engine.commands.sql_sources import files, items, rows_of_values, source
from engine.commands.sql_writes import ENDS, assignments, compaction
from engine.commands.statement_cursor import StatementCursor
from engine.errors import StatementError
from engine.schema.write_errors import InsertedTwiceError, ValueCountError


def merge(cursor: StatementCursor) -> Merge:
    """MERGE [WITH SCHEMA EVOLUTION] INTO t [AS a] USING s [AS b] ON c WHEN …."""
    cursor.need("MERGE")
    evolution = cursor.take("WITH", "SCHEMA", "EVOLUTION")
    cursor.need("INTO")
    table = cursor.table()
    target_alias = cursor.alias("USING") or table.rpartition(".")[2].rpartition("/")[2]
    cursor.need("USING")
    rows, source_alias = _parse_using(cursor)
    cursor.need("ON")
    on = cursor.take_until("WHEN")
    clauses = []
    while cursor.take("WHEN"):
        clauses.append(_clause(cursor))
    return Merge(
        rows,
        on,
        tuple(clauses),
        target_alias,
        source_alias,
        evolution,
        compaction(cursor, cursor.options(OPTION)),
        table=table,
    )


def _parse_using(cursor: StatementCursor) -> tuple[Source, str]:
    position = cursor.position
    if cursor.take("("):
        rows = rows_of_values(cursor) or source(cursor)
        cursor.need(")")
        fallback = ""
    elif cursor.peek() == "READ_FILES":
        rows, fallback = files(cursor, (), by_position=False), ""
    else:
        rows = TableSource(cursor.table())
        fallback = rows.table.rpartition(".")[2].rpartition("/")[2]
    alias = cursor.alias("ON") or fallback
    if isinstance(rows, RowsSource) and cursor.peek() == "(":
        rows = replace(rows, columns=cursor.columns())
    if not alias:
        what = "The source has no alias."
        raise StatementError(what, "Give it one with AS.", position=position)
    return rows, alias


def _clause(cursor: StatementCursor) -> MergeClause:
    when = _parse_when(cursor)
    condition = cursor.take_until("THEN") if cursor.take("AND") else None
    cursor.need("THEN")
    if cursor.take("DELETE"):
        return MergeClause(when, DELETE, condition)
    if cursor.take("UPDATE"):
        cursor.need("SET")
        if cursor.take("*"):
            return MergeClause(when, UPDATE_ALL, condition)
        return MergeClause(when, UPDATE, condition, assignments(cursor, "WHEN", *ENDS))
    cursor.need("INSERT")
    if cursor.take("*"):
        return MergeClause(when, INSERT_ALL, condition)
    return MergeClause(when, INSERT, condition, _parse_insert_values(cursor))


def _parse_when(cursor: StatementCursor) -> str:
    if cursor.take("MATCHED"):
        return MATCHED
    cursor.need("NOT", "MATCHED")
    if cursor.take("BY", "SOURCE"):
        return BY_SOURCE
    cursor.take("BY", "TARGET")
    return NOT_MATCHED


def _parse_insert_values(cursor: StatementCursor) -> dict[str, str]:
    position, columns = cursor.position, cursor.columns()
    cursor.need("VALUES", "(")
    values = items(cursor, ")")
    cursor.need(")")
    lowered = [column.lower() for column in columns]
    twice = next((name for name in columns if lowered.count(name.lower()) > 1), None)
    if twice is not None:
        what = f"INSERT names {twice} twice."
        raise InsertedTwiceError(what, "Name it once.", position=position)
    if len(columns) != len(values):
        what = f"INSERT names {len(columns)} columns and gives {len(values)} values."
        raise ValueCountError(what, "Give each column one value.", position=position)
    return dict(zip(columns, values, strict=True))
