"""Rules for subqueries and their places.

IN with a subquery may stand where null counts as false: Spark is correct only in conditions, and
there only with NOT directly before it. A correlated subquery may filter and aggregate: Spark
supports no more from DataFrames.
"""

from collections.abc import Iterator

from engine.errors import ExpressionError
from engine.expressions.queries.plan import (
    Aggregate,
    Distinct,
    Filter,
    Plan,
    Project,
    Query,
    SetOperation,
    columns_of_plan,
    expressions_of,
    inputs,
    steps,
)
from engine.expressions.traits import has_subquery
from engine.expressions.tree import Call, Column, Expression, Subquery
from engine.schema.types import BOOLEAN


def push_not_down(tree: Expression, *, negated: bool = False) -> Expression:
    """Move each NOT next to the operand it negates, so that Spark recognizes NOT IN."""
    match tree:
        case Call("not", (inner,)) if has_subquery(tree):
            return push_not_down(inner, negated=not negated)
        case Call("and" | "or" as operator, arguments) if has_subquery(tree):
            other = {"and": "or", "or": "and"}[operator] if negated else operator
            return Call(
                other,
                tuple(push_not_down(argument, negated=negated) for argument in arguments),
                BOOLEAN,
            )
        case _:
            _check_place(tree)
            return Call("not", (tree,), BOOLEAN) if negated else tree


def _check_place(tree: Expression) -> None:
    for part in tree.arguments if _is_in(tree) and isinstance(tree, Call) else (tree,):
        refuse_in(part)


def refuse_in(tree: Expression) -> None:
    """Refuse IN with a subquery outside conditions: Spark would not distinguish null from false."""
    if any(_is_in(outside_query) for outside_query in _iter_outer_nodes(tree)):
        what = "IN (SELECT …) can only be used in a condition, combined with AND, OR and NOT."
        raise ExpressionError(what, "Use EXISTS, or a join.")


def refuse_names_around(query: Query, position: int) -> None:
    """Refuse a correlated subquery in unsupported clauses.

    Raises:
        ExpressionError: it names an outer column in another clause, or groups or combines rows
            dependent on one.
    """
    for step in steps(query.plan):
        if _names_around(step) and not isinstance(step, Filter | Project):
            what = (
                f"The subquery at {position} uses a column of the outer query where it "
                "cannot: only WHERE, QUALIFY and SELECT "
            )
            what += "can, outside aggregates and window functions."
            remedy = "Compare it in WHERE, or use a join."
            raise ExpressionError(what, remedy, position=position)
        clause = _whole_clause(step)
        if clause and any(_names_around(node) for node in steps(step)):
            what = f"The subquery at {position} has {clause} and uses a column of the outer query."
            remedy = f"Remove {clause}, or join a query with it in FROM."
            raise ExpressionError(what, remedy, position=position)


def _whole_clause(step: Plan) -> str:
    """Return the clause of a step that must not be correlated; "" for other steps."""
    match step:
        case Aggregate(keys=keys) if keys:
            return "GROUP BY"
        case Distinct():
            return "DISTINCT"
        case SetOperation(operator=operator):
            return operator.upper()
        case _:
            return ""


def _names_around(step: Plan) -> bool:
    inner = frozenset[str]().union(*(columns_of_plan(input_) for input_ in inputs(step)))
    return any(
        isinstance(outside_query, Column)
        and (outside_query.relation or outside_query.path[0] not in inner)
        for tree in expressions_of(step)
        for outside_query in _iter_outer_nodes(tree)
    )


def _is_in(tree: Expression) -> bool:
    return (
        isinstance(tree, Call) and tree.function == "in" and isinstance(tree.arguments[1], Subquery)
    )


def _iter_outer_nodes(tree: Expression) -> Iterator[Expression]:
    """Yield every node outside subqueries."""
    yield tree
    if isinstance(tree, Call):
        for argument in tree.arguments:
            yield from _iter_outer_nodes(argument)
