"""Which tables a text reads, told without their schemas: what rights must be requested."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

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
class _Around:
    """What stands around a part: the names that its query gives to others, and how deep it is."""

    common: frozenset[str] = frozenset()
    depth: int = 0


def tables_in_query(query: QuerySyntax) -> tuple[str, ...]:
    """The tables a query names, each once, subqueries' too, common table expressions left out."""
    return tuple(dict.fromkeys(_of_query(query, _Around())))


def tables_in_condition(text: str) -> tuple[str, ...]:
    """The tables that the subqueries of an expression name.

    Raises:
        ExpressionError: a subquery is not understood.
    """
    return tuple(dict.fromkeys(_of_tokens(tuple(tokenize(text)), _Around())))


def _of_query(query: QuerySyntax, around: _Around) -> Iterator[str]:
    for table in query.common:
        yield from _of_query(table.query, around)
        around = replace(around, common=around.common | {table.name.lower()})
    yield from _of_body(query.body, around)
    for key in query.order:
        yield from _of_tokens(key.tokens, around)


def _of_body(body: BodySyntax, around: _Around) -> Iterator[str]:
    match body:
        case SelectSyntax():
            yield from _of_select(body, around)
        case SetSyntax():
            yield from _of_body(body.left, around)
            yield from _of_body(body.right, around)
        case ValuesSyntax():
            for tokens in (cell for row in body.rows for cell in row):
                yield from _of_tokens(tokens, around)
        case QuerySyntax():
            yield from _of_query(body, around)


def _of_select(select: SelectSyntax, around: _Around) -> Iterator[str]:
    if select.source is not None:
        yield from _of_source(select.source, around)
    items = (item.tokens for item in select.items)
    for tokens in (*items, select.where, *select.group_by, select.having, select.qualify):
        yield from _of_tokens(tokens, around)


def _of_source(source: FromSyntax, around: _Around) -> Iterator[str]:
    match source:
        case TableName(name=name):
            if name.lower() not in around.common:
                yield name
        case DerivedTable(query=query):
            yield from _of_query(query, around)
        case JoinSyntax():
            yield from _of_source(source.left, around)
            yield from _of_source(source.right, around)
            yield from _of_tokens(source.on, around)


def _of_tokens(tokens: Tokens, around: _Around) -> Iterator[str]:
    cursor, below = Cursor(list(tokens)), replace(around, depth=around.depth + 1)
    while not cursor.at_end:
        if cursor.peek() == "(" and cursor.peek(1) in BEGINNINGS:
            cursor.index += 1
            yield from _of_query(read_query(cursor, around.depth), below)
        else:
            cursor.index += 1
