"""Tables read by a text, found without schemas, to check rights on them."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

from engine.expressions.cursor import Cursor
from engine.expressions.lexer import tokenize
from engine.expressions.queries.from_clause import BEGINNINGS
from engine.expressions.queries.reader import read_query
from engine.expressions.queries.syntax import (
    BodySyntax,
    DerivedTable,
    FromSyntax,
    JoinSyntax,
    QuerySyntax,
    SelectSyntax,
    SetSyntax,
    TableName,
    Tokens,
    ValuesSyntax,
)


@dataclass(frozen=True, slots=True)
class _TableScope:
    """The surroundings of a part: names of common table expressions, and the nesting depth."""

    common: frozenset[str] = frozenset()
    depth: int = 0


def tables_in_query(query: QuerySyntax) -> tuple[str, ...]:
    """Return the tables a query names, including subqueries, without common table expressions."""
    return tuple(dict.fromkeys(_iter_query_tables(query, _TableScope())))


@lru_cache(maxsize=256)
def tables_in_condition(text: str) -> tuple[str, ...]:
    """Return the tables named by subqueries of an expression; a text is read once.

    Raises:
        ExpressionError: a subquery does not parse.
    """
    return tuple(dict.fromkeys(_iter_token_tables(tuple(tokenize(text)), _TableScope())))


def _iter_query_tables(query: QuerySyntax, around: _TableScope) -> Iterator[str]:
    for table in query.common:
        yield from _iter_query_tables(table.query, around)
        around = replace(around, common=around.common | {table.name.lower()})
    yield from _iter_body_tables(query.body, around)
    for key in query.order:
        yield from _iter_token_tables(key.tokens, around)


def _iter_body_tables(body: BodySyntax, around: _TableScope) -> Iterator[str]:
    match body:
        case SelectSyntax():
            yield from _iter_select_tables(body, around)
        case SetSyntax():
            yield from _iter_body_tables(body.left, around)
            yield from _iter_body_tables(body.right, around)
        case ValuesSyntax():
            for tokens in (cell for row in body.rows for cell in row):
                yield from _iter_token_tables(tokens, around)
        case QuerySyntax():
            yield from _iter_query_tables(body, around)


def _iter_select_tables(select: SelectSyntax, around: _TableScope) -> Iterator[str]:
    if select.source is not None:
        yield from _iter_source_tables(select.source, around)
    items = (item.tokens for item in select.items)
    for tokens in (*items, select.where, *select.group_by, select.having, select.qualify):
        yield from _iter_token_tables(tokens, around)


def _iter_source_tables(source: FromSyntax, around: _TableScope) -> Iterator[str]:
    match source:
        case TableName(name=name):
            if name.lower() not in around.common:
                yield name
        case DerivedTable(query=query):
            yield from _iter_query_tables(query, around)
        case JoinSyntax():
            yield from _iter_source_tables(source.left, around)
            yield from _iter_source_tables(source.right, around)
            yield from _iter_token_tables(source.on, around)


def _iter_token_tables(tokens: Tokens, around: _TableScope) -> Iterator[str]:
    cursor, below = Cursor(list(tokens)), replace(around, depth=around.depth + 1)
    while not cursor.at_end:
        if cursor.peek() == "(" and cursor.peek(1) in BEGINNINGS:
            cursor.index += 1
            yield from _iter_query_tables(read_query(cursor, around.depth), below)
        else:
            cursor.index += 1
