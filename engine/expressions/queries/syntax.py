"""A SELECT as it was written: its clauses, each expression still tokens.

Names mean nothing yet; `engine.expressions.queries.binding` gives them their tables and types.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from engine.expressions.lexer import Token

Tokens: TypeAlias = tuple[Token, ...]


@dataclass(frozen=True, slots=True)
class TableName:
    """A table by its name or URI as written, or a common table expression.

    `version` is a number, or the text of a time; None is the latest.
    """

    name: str
    version: int | str | None
    alias: str
    columns: tuple[str, ...]
    position: int


@dataclass(frozen=True, slots=True)
class DerivedTable:
    """A query in brackets, or VALUES, as a table."""

    query: "QuerySyntax"
    alias: str
    columns: tuple[str, ...]
    position: int


@dataclass(frozen=True, slots=True)
class JoinSyntax:
    """Two tables joined. `how` is inner, cross, left, right, full, left_semi or left_anti."""

    left: "FromSyntax"
    right: "FromSyntax"
    how: str
    on: Tokens
    using: tuple[str, ...]
    position: int


FromSyntax: TypeAlias = TableName | DerivedTable | JoinSyntax


@dataclass(frozen=True, slots=True)
class ItemSyntax:
    """One column of a SELECT; with `star` all columns, those of `qualifier` if there is one."""

    tokens: Tokens
    alias: str = ""
    star: bool = False
    qualifier: str = ""
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class OrderSyntax:
    """One key of ORDER BY. `nulls_first` is None if not specified."""

    tokens: Tokens
    descending: bool = False
    nulls_first: bool | None = None


@dataclass(frozen=True, slots=True)
class SelectSyntax:
    """SELECT … FROM … WHERE … GROUP BY … HAVING … QUALIFY …."""

    items: tuple[ItemSyntax, ...]
    distinct: bool
    source: FromSyntax | None
    where: Tokens
    group_by: tuple[Tokens, ...]
    having: Tokens
    qualify: Tokens
    position: int


@dataclass(frozen=True, slots=True)
class ValuesSyntax:
    """VALUES (…), (…)."""

    rows: tuple[tuple[Tokens, ...], ...]
    position: int


@dataclass(frozen=True, slots=True)
class SetSyntax:
    """Two queries joined by union, intersect or except; `every` keeps duplicates."""

    operator: str
    every: bool
    left: "BodySyntax"
    right: "BodySyntax"
    position: int


@dataclass(frozen=True, slots=True)
class CommonTable:
    """name [(columns)] AS (query)."""

    name: str
    columns: tuple[str, ...]
    query: "QuerySyntax"


@dataclass(frozen=True, slots=True)
class QuerySyntax:
    """[WITH …] body [ORDER BY …] [LIMIT n] [OFFSET n]."""

    common: tuple[CommonTable, ...]
    body: "BodySyntax"
    order: tuple[OrderSyntax, ...]
    limit: int | None
    offset: int
    text: str = ""


BodySyntax: TypeAlias = SelectSyntax | SetSyntax | ValuesSyntax | QuerySyntax


def text_of(tokens: Tokens) -> str:
    """Join tokens to text with the original spacing, comments left out."""
    parts: list[str] = []
    end = None
    for token in tokens:
        if end is not None and token.position > end:
            parts.append(" ")
        parts.append(token.text)
        end = token.end
    return "".join(parts)


def selects_of(body: BodySyntax) -> Iterator[SelectSyntax]:
    """Yield every SELECT outside expressions, including nested ones."""
    match body:
        case SelectSyntax():
            yield body
            yield from _selects_from(body.source)
        case SetSyntax():
            yield from selects_of(body.left)
            yield from selects_of(body.right)
        case QuerySyntax():
            for table in body.common:
                yield from selects_of(table.query)
            yield from selects_of(body.body)
        case ValuesSyntax():
            return


def _selects_from(source: FromSyntax | None) -> Iterator[SelectSyntax]:
    match source:
        case DerivedTable():
            yield from selects_of(source.query)
        case JoinSyntax():
            yield from _selects_from(source.left)
            yield from _selects_from(source.right)
        case _:
            return
