"""Which tables a text reads, told without their schemas: what rights must be asked for."""

from collections.abc import Iterator

from engine.expressions.cursor import Cursor
from engine.expressions.lexer import tokenize
from engine.expressions.queries.reader import BEGINNINGS, read_query
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


def tables_in_query(query: QuerySyntax) -> tuple[str, ...]:
    """The tables a query names, each once, subqueries' too, common table expressions left out."""
    return tuple(dict.fromkeys(_of_query(query, frozenset())))


def tables_in_condition(text: str) -> tuple[str, ...]:
    """The tables that the subqueries of an expression name.

    Raises:
        ExpressionError: a subquery is not understood.
    """
    return tuple(dict.fromkeys(_of_tokens(tuple(tokenize(text)), frozenset())))


def _of_query(query: QuerySyntax, known: frozenset[str]) -> Iterator[str]:
    for each in query.common:
        yield from _of_query(each.query, known)
        known |= {each.name.lower()}
    yield from _of_body(query.body, known)
    for key in query.order:
        yield from _of_tokens(key.tokens, known)


def _of_body(body: BodySyntax, known: frozenset[str]) -> Iterator[str]:
    match body:
        case SelectSyntax():
            yield from _of_select(body, known)
        case SetSyntax():
            yield from _of_body(body.left, known)
            yield from _of_body(body.right, known)
        case ValuesSyntax():
            for tokens in (each for row in body.rows for each in row):
                yield from _of_tokens(tokens, known)
        case QuerySyntax():
            yield from _of_query(body, known)


def _of_select(select: SelectSyntax, known: frozenset[str]) -> Iterator[str]:
    if select.source is not None:
        yield from _of_source(select.source, known)
    items = (each.tokens for each in select.items)
    for tokens in (*items, select.where, *select.group_by, select.having, select.qualify):
        yield from _of_tokens(tokens, known)


def _of_source(source: FromSyntax, known: frozenset[str]) -> Iterator[str]:
    match source:
        case TableName(name=name):
            if name.lower() not in known:
                yield name
        case DerivedTable(query=query):
            yield from _of_query(query, known)
        case JoinSyntax():
            yield from _of_source(source.left, known)
            yield from _of_source(source.right, known)
            yield from _of_tokens(source.on, known)


def _of_tokens(tokens: Tokens, known: frozenset[str]) -> Iterator[str]:
    cursor = Cursor(list(tokens))
    while not cursor.at_end:
        if cursor.peek() == "(" and cursor.peek(1) in BEGINNINGS:
            cursor.index += 1
            yield from _of_query(read_query(cursor), known)
        else:
            cursor.index += 1
