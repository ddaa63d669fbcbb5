"""Subqueries in conditions of commands: IN, EXISTS and scalar ones.

With the tables' schemas they are bound like any query; without, only their syntax and tables are
read, and they have no type yet.
"""

from engine.errors import ExpressionError
from engine.expressions.operands import Nested, Operands
from engine.expressions.queries.binder import QueryBinder
from engine.expressions.queries.binding import NOWHERE, QueryPlace, Tables, subquery
from engine.expressions.queries.reader import read_query
from engine.expressions.queries.syntax import QuerySyntax
from engine.expressions.queries.tables import tables_in_query
from engine.expressions.tree import Expression


def bind_subqueries(tables: Tables) -> Nested:
    """Return the `nested` argument of `parse_condition` for subqueries over these tables."""
    binders: list[QueryBinder] = []

    def parse(grammar: Operands, kind: str) -> Expression:
        if not binders:
            binders.append(QueryBinder(tables, grammar.moments))
        position, syntax = _read(grammar)
        query = binders[0].query(syntax, QueryPlace(NOWHERE.common, grammar.scope))
        return subquery(kind, syntax, query, position)

    return parse


def parse_unbound(grammar: Operands, kind: str) -> Expression:
    """Parse a subquery without schemas: syntax and tables are known, columns are not."""
    position, syntax = _read(grammar)
    return subquery(kind, syntax, None, position)


def _read(grammar: Operands) -> tuple[int, QuerySyntax]:
    position = grammar.position
    syntax = read_query(grammar)
    if not tables_in_query(syntax):
        what = f"The subquery at {position} reads no table."
        raise ExpressionError(what, "Write its value as a literal.", position=position)
    return position, syntax
