"""Where IN with a subquery may stand: where null counts as false.

Spark computes it right in conditions alone, and there only if NOT stands right before it.
"""

from collections.abc import Iterator

from engine.errors import ExpressionError
from engine.expressions.traits import has_subquery
from engine.expressions.tree import Call, Expression, Subquery
from engine.schema.types import BOOLEAN


def with_not_pushed(tree: Expression, *, negated: bool = False) -> Expression:
    """The same truth with each NOT beside what it negates, so that Spark sees NOT IN as such."""
    match tree:
        case Call("not", (inner,)) if has_subquery(tree):
            return with_not_pushed(inner, negated=not negated)
        case Call("and" | "or" as operator, arguments) if has_subquery(tree):
            other = {"and": "or", "or": "and"}[operator] if negated else operator
            return Call(
                other, tuple(with_not_pushed(each, negated=negated) for each in arguments), BOOLEAN
            )
        case _:
            _check_place(tree)
            return Call("not", (tree,), BOOLEAN) if negated else tree


def _check_place(tree: Expression) -> None:
    for part in tree.arguments if _is_in(tree) and isinstance(tree, Call) else (tree,):
        refuse_in(part)


def refuse_in(tree: Expression) -> None:
    """IN with a subquery may be null, which Spark tells apart from false in conditions alone."""
    if any(_is_in(each) for each in _outside_queries(tree)):
        what = "IN (SELECT …) can only be joined by AND, OR and NOT, in a condition."
        raise ExpressionError(what, "Use EXISTS, or a join.")


def _is_in(tree: Expression) -> bool:
    return (
        isinstance(tree, Call) and tree.function == "in" and isinstance(tree.arguments[1], Subquery)
    )


def _outside_queries(tree: Expression) -> Iterator[Expression]:
    """Every node that is not inside a subquery."""
    yield tree
    if isinstance(tree, Call):
        for each in tree.arguments:
            yield from _outside_queries(each)
