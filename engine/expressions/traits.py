"""Properties of an expression, found without evaluating it."""

from collections.abc import Callable, Iterable

from engine.expressions.functions import find
from engine.expressions.tree import (
    TRUE,
    Call,
    Column,
    Expression,
    SparkExpression,
    Subquery,
    walk,
)
from engine.expressions.types import is_complex
from engine.schema.types import BOOLEAN


def is_deterministic(expression: Expression) -> bool:
    """Return whether the same row always gives the same value. Others count as TRUE in conflicts."""
    return all(_node_is_deterministic(node) for node in walk(expression))


def _node_is_deterministic(node: Expression) -> bool:
    match node:
        case Call(function="cast" | "try_cast"):
            return True
        case Call(function=name):
            function = find(name)
            return function is not None and function.deterministic
        case SparkExpression():
            return node.is_deterministic
        case _:
            return True


def spark_expressions(expression: Expression) -> tuple[SparkExpression, ...]:
    """Return the parts only Spark can evaluate."""
    return tuple(node for node in walk(expression) if isinstance(node, SparkExpression))


def is_asked_once(expression: Expression) -> bool:
    """Return whether an expression must be evaluated only once: it reads a relation or needs Spark."""
    return has_subquery(expression) or bool(spark_expressions(expression))


def has_subquery(expression: Expression) -> bool:
    """Return whether an expression reads another relation."""
    return any(isinstance(node, Subquery) for node in walk(expression))


def uses_complex_types(expression: Expression) -> bool:
    """Return whether an expression uses a struct, array or map, or a field inside one."""
    return any(
        len(node.path) > 1 or is_complex(node.type)
        for node in walk(expression)
        if isinstance(node, Column)
    )


def columns_of(expression: Expression) -> set[tuple[str, ...]]:
    """Return the paths of the columns it needs, of any relation."""
    return {node.path for node in walk(expression) if isinstance(node, Column)}


def relations_of(expression: Expression) -> set[str]:
    """Return the sides its columns come from."""
    relations = {node.relation for node in walk(expression) if isinstance(node, Column)}
    return relations.union(*(node.sides for node in spark_expressions(expression)))


def replace_leaves(
    expression: Expression, change: Callable[[Expression], Expression]
) -> Expression:
    """Replace every leaf of the expression by `change(leaf)`."""
    if isinstance(expression, Call):
        arguments = tuple(replace_leaves(argument, change) for argument in expression.arguments)
        return Call(expression.function, arguments, expression.type)
    return change(expression)


def drop_relations(expression: Expression) -> Expression:
    """Remove the sides of a join from an expression's columns."""
    return replace_leaves(
        expression, lambda leaf: Column(leaf.path, leaf.type) if isinstance(leaf, Column) else leaf
    )


def split_conjuncts(expression: Expression) -> tuple[Expression, ...]:
    """Split an expression into its top-level conjuncts."""
    if isinstance(expression, Call) and expression.function == "and":
        return tuple(
            part for argument in expression.arguments for part in split_conjuncts(argument)
        )
    return (expression,)


def conjunction(parts: Iterable[Expression]) -> Expression:
    """Join conditions with AND; TRUE for none."""
    return _combine_parts("and", parts)


def disjunction(parts: Iterable[Expression]) -> Expression:
    """Join conditions with OR; TRUE for none: an empty list of predicates reads everything."""
    return _combine_parts("or", parts)


def _combine_parts(operator: str, parts: Iterable[Expression]) -> Expression:
    flat: list[Expression] = []
    for part in parts:
        same = isinstance(part, Call) and part.function == operator
        flat.extend(part.arguments if isinstance(part, Call) and same else (part,))
    if not flat:
        return TRUE
    return flat[0] if len(flat) == 1 else Call(operator, tuple(flat), BOOLEAN)
