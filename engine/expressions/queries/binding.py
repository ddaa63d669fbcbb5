"""Binding of a parsed query to a plan: names become columns, expressions get types.

The result holds no text: tables are names for a resolver to open, functions come from the
allow-lists, and every column belongs to a table.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

from engine.errors import ExpressionError
from engine.expressions.lexer import Token
from engine.expressions.operands import Moments, Nested, Operands
from engine.expressions.queries.grammar import Calls, QueryGrammar
from engine.expressions.queries.plan import Plan, Project, Query, Scan
from engine.expressions.queries.reader import read_query
from engine.expressions.queries.scope import QueryScope
from engine.expressions.queries.subquery_places import refuse_names_around
from engine.expressions.queries.syntax import CommonTable, QuerySyntax, Tokens
from engine.expressions.queries.tables import tables_in_query
from engine.expressions.scope import Relation, Scope
from engine.expressions.tree import VOID, Expression, Subquery
from engine.expressions.types import common_type, sql_name
from engine.schema.types import BOOLEAN, DataType, StructField, StructType

Tables: TypeAlias = Callable[[str, int | str | None], StructType]
"""Returns the schema of a table by its name or URI as written, at a version or time if requested.
Raises an `EngineError` if there is none.
"""
MAX_RELATIONS = 64
PLANNED = "__lake_q"
"""The prefix of the plan's own column names."""


@dataclass(frozen=True)
class QueryPlace:
    """The surroundings of a query: available common tables, and the enclosing query."""

    common: Mapping[str, tuple[CommonTable, "QueryPlace"]]
    outer: Scope | None = None

    def detach_outer(self) -> "QueryPlace":
        """Return the place of a query in FROM, which cannot see the outer query."""
        return replace(self, outer=None)


NOWHERE = QueryPlace({})


class Binder(ABC):
    """Binds the parts of a query; columns get unique names of the plan."""

    def __init__(self, tables: Tables, moments: Moments) -> None:
        self.tables, self.moments = tables, moments
        self._relations = 0
        self._sides = 0

    def side(self) -> str:
        """Return an unused prefix for the plan."""
        self._sides += 1
        return f"{PLANNED}{self._sides}"

    @abstractmethod
    def query(self, syntax: QuerySyntax, place: QueryPlace = NOWHERE) -> Query:
        """Bind a query.

        Raises:
            UnknownColumnError: no table has a column.
            ExpressionError: anything else is invalid; with its position.
            EngineError: the resolver does not have a table.
        """

    def grammar(  # noqa: PLR0913 - the context of an expression
        self,
        tokens: Tokens,
        scope: QueryScope,
        place: QueryPlace,
        *,
        calls: Calls | None = None,
        where: str = "here",
        aliases: Mapping[str, Expression] | None = None,
        aliases_first: bool = False,
    ) -> QueryGrammar:
        """Build the parser of one expression of a query."""
        return QueryGrammar(
            list(tokens),
            scope,
            self.moments,
            self.bind_nested(place),
            calls=calls,
            place=where,
            aliases=aliases,
            aliases_first=aliases_first,
        )

    def condition(
        self, tokens: Tokens, scope: QueryScope, place: QueryPlace, where: str
    ) -> Expression:
        """Parse a condition over the rows of FROM."""
        return boolean(self.grammar(tokens, scope, place, where=where).whole(), tokens)

    def bind_nested(self, place: QueryPlace) -> Nested:
        """Return the function for binding subqueries in an expression."""

        def parse(grammar: Operands, kind: str) -> Expression:
            position = grammar.position
            syntax = read_query(grammar)
            query = self.query(syntax, replace(place, outer=grammar.scope))
            return subquery(kind, syntax, query, position)

        return parse

    def relation(self, schema: StructType, names: tuple[str, ...], position: int) -> Relation:
        """Add another table of a FROM; raise `ExpressionError` if there are too many."""
        self._relations += 1
        if self._relations > MAX_RELATIONS:
            what = f"The query reads more than {MAX_RELATIONS} tables."
            raise ExpressionError(
                what, "Compute a part of it into another table first.", position=position
            )
        return Relation(schema, self.side(), names)

    def scan(
        self, name: str, version: int | str | None, names: tuple[str, ...], position: int
    ) -> tuple[Scan, Relation]:
        """Bind a table by its name or URI."""
        schema = self.tables(name, version)
        relation = self.relation(schema, names, position)
        return Scan(name, version, relation.side, schema), relation

    def name_columns(
        self, query: Query, columns: tuple[str, ...], position: int
    ) -> tuple[StructType, tuple[Expression, ...]]:
        """Name the columns of a query in FROM; return its schema and the plan's columns.

        Raises:
            ExpressionError: two columns have one name, or the number of names is wrong.
        """
        names = list(columns) or query.names
        if len(names) != len(query.columns):
            what = f"{len(names)} names are given for {len(query.columns)} columns."
            raise ExpressionError(what, "Give one name for each column.", position=position)
        seen: set[str] = set()
        for name in names:
            if name.lower() in seen:
                what = f"A query in FROM has two columns called {name}."
                raise ExpressionError(what, "Rename one of them with AS.", position=position)
            seen.add(name.lower())
        trees = tuple(column for _, column in query.columns)
        fields = (StructField(n, c.type) for n, c in zip(names, trees, strict=True))
        return StructType(tuple(fields)), trees


def rename_columns(plan: Plan, relation: Relation, trees: tuple[Expression, ...]) -> Plan:
    """Rename a plan's columns to the relation's names."""
    names = (f"{relation.side}.{name}" for name in relation.schema.names)
    return Project(plan, tuple(zip(names, trees, strict=True)))


def subquery(kind: str, syntax: QuerySyntax, query: Query | None, position: int) -> Subquery:
    """Build the node of a subquery.

    Raises:
        ExpressionError: a scalar one has several columns, or it names columns of the outer query in
            an unsupported place.
    """
    if query is not None:
        refuse_names_around(query, position)
    data_type: DataType = BOOLEAN if kind == "exists" else VOID
    if query is not None and kind != "exists":
        if len(query.columns) != 1:
            what = f"A scalar subquery has {len(query.columns)} columns."
            raise ExpressionError(what, "Select one.", position=position)
        data_type = query.columns[0][1].type
    return Subquery(kind, syntax.text, tables_in_query(syntax), data_type, query)


def boolean(tree: Expression, tokens: Tokens) -> Expression:
    """Return the tree; raise `ExpressionError` if it is not a condition."""
    if tree.type not in {BOOLEAN, VOID}:
        first: Token = tokens[0]
        what = f"The condition at {first.position} is neither true nor false."
        raise ExpressionError(
            what, "Write a comparison, such as amount > 10.", position=first.position
        )
    return tree


def common_types(rows: list[list[DataType]], position: int) -> list[DataType]:
    """Return the common types of the columns of all rows.

    Raises:
        ExpressionError: types are incompatible.
    """
    kinds = []
    for number, column in enumerate(zip(*rows, strict=True), 1):
        kind = common_type(column)
        if kind is None:
            shown = ", ".join(dict.fromkeys(sql_name(type_) for type_ in column))
            what = f"Column {number} has types that cannot be combined: {shown}."
            raise ExpressionError(what, "Cast one type to the other.", position=position)
        kinds.append(kind)
    return kinds
