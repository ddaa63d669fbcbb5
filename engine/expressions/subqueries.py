"""Subqueries, where a command allows them: IN (SELECT …) and [NOT] EXISTS (SELECT …).

One table, columns, a condition that may name the statement's own table too. Nothing else of SELECT
is known.
"""

from collections.abc import Callable
from typing import TypeAlias

from engine.errors import ExpressionError
from engine.expressions.operands import Nested, Operands
from engine.expressions.scope import Relation, Scope
from engine.expressions.traits import has_subquery
from engine.expressions.tree import TRUE, Expression, Subquery
from engine.schema.types import BOOLEAN, StructType

Tables: TypeAlias = Callable[[str], StructType]
"""The schema of a table by its name or URI as written; raises an `EngineError` where there is none."""

INNER = "subquery"


def nested_in(tables: Tables) -> Nested:
    """What `parse_condition` takes as `nested`: subqueries over these tables."""

    def parse(grammar: Operands, kind: str) -> Expression:
        if kind == "scalar":
            what = "A subquery can only be the operand of IN or EXISTS."
            raise ExpressionError(what, "Use EXISTS, or MERGE.", position=grammar.position)
        outer = grammar.scope
        if any(each.side == INNER for each in outer.relations):
            what = "A subquery inside a subquery is not allowed."
            raise ExpressionError(what, "Use a MERGE.", position=grammar.position)
        grammar.need("SELECT")
        start = grammar.index
        table, alias = _from(grammar)
        after, grammar.index = grammar.index, start
        relation = Relation(tables(table), INNER, (alias, table.rpartition(".")[2]))
        grammar.scope = Scope((relation,), outer)
        columns = _columns(grammar, kind)
        grammar.index = after
        where = grammar.expression() if grammar.take("WHERE") else None
        _check(where, grammar)
        grammar.scope = outer
        return Subquery(
            kind, table, columns, where, BOOLEAN if kind == "exists" else columns[0].type
        )

    return parse


def _from(grammar: Operands) -> tuple[str, str]:
    """Skip to FROM and read the table and its alias."""
    depth = 0
    while not grammar.at_end and (depth or grammar.peek() != "FROM"):
        depth += {"(": 1, ")": -1}.get(grammar.peek(), 0)
        if depth < 0:
            break
        grammar.index += 1
    grammar.need("FROM")
    table = _table(grammar)
    token = grammar.token()
    if grammar.take("AS") or (token and token.kind in {"word", "name"} and token.value != "WHERE"):
        return table, grammar.name()
    return table, ""


def _table(grammar: Operands) -> str:
    uri = grammar.token(2)
    if grammar.peek() == "DELTA" and grammar.peek(1) == "." and uri and uri.kind == "name":
        grammar.index += 3
        return uri.value
    parts = [grammar.name()]
    while grammar.take("."):
        parts.append(grammar.name())
    return ".".join(parts)


def _columns(grammar: Operands, kind: str) -> tuple[Expression, ...]:
    if kind == "exists" and grammar.take("*"):
        found: tuple[Expression, ...] = (TRUE,)
    else:
        found = (grammar.expression(),)
    if grammar.peek() != "FROM":
        grammar.refuse("one column and FROM were expected")
    return found


def _check(where: Expression | None, grammar: Operands) -> None:
    if where is not None and (where.type != BOOLEAN or has_subquery(where)):
        grammar.refuse("the subquery's WHERE must be a condition without subqueries")
