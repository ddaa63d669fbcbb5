"""What can be said of an expression without evaluating it."""

from collections.abc import Iterable

from engine.expressions.functions import find
from engine.expressions.tree import (
    TRUE,
    Call,
    Column,
    Expression,
    Subquery,
    walk,
)
from engine.expressions.types import is_complex
from engine.schema.types import BOOLEAN


def is_deterministic(expression: Expression) -> bool:
    """Whether the same row gives the same value each time. Others count as TRUE in conflicts."""
    return all(_call_is_deterministic(each) for each in walk(expression) if isinstance(each, Call))


def _call_is_deterministic(call: Call) -> bool:
    known = find(call.function)
    return call.function in {"cast", "try_cast"} or (known is not None and known.deterministic)


def has_subquery(expression: Expression) -> bool:
    """Whether it reads another relation."""
    return any(isinstance(each, Subquery) for each in walk(expression))


def subquery_tables(expression: Expression) -> set[str]:
    """The tables its subqueries read, as written."""
    return {name for each in walk(expression) if isinstance(each, Subquery) for name in each.tables}


def uses_complex_types(expression: Expression) -> bool:
    """Whether a struct, array or map, or a field inside one, has a part in it."""
    return any(
        len(each.path) > 1 or is_complex(each.type)
        for each in walk(expression)
        if isinstance(each, Column)
    )


def columns_of(expression: Expression) -> set[tuple[str, ...]]:
    """The paths of the columns it needs, whatever their relation."""
    return {each.path for each in walk(expression) if isinstance(each, Column)}


def relations_of(expression: Expression) -> set[str]:
    """The sides its columns come from."""
    return {each.relation for each in walk(expression) if isinstance(each, Column)}


def without_relation(expression: Expression) -> Expression:
    """The same over one table alone: its columns say no side."""
    match expression:
        case Column(path, data_type):
            return Column(path, data_type)
        case Call(function, arguments, data_type):
            return Call(function, tuple(without_relation(each) for each in arguments), data_type)
        case _:
            return expression


def split_conjuncts(expression: Expression) -> tuple[Expression, ...]:
    """The parts that top-level ANDs join."""
    if isinstance(expression, Call) and expression.function == "and":
        return tuple(part for each in expression.arguments for part in split_conjuncts(each))
    return (expression,)


def conjunction(parts: Iterable[Expression]) -> Expression:
    """All of them; TRUE of none."""
    return _joined("and", parts)


def disjunction(parts: Iterable[Expression]) -> Expression:
    """Any of them; of none, TRUE: an empty list of predicates reads everything."""
    return _joined("or", parts)


def _joined(operator: str, parts: Iterable[Expression]) -> Expression:
    flat: list[Expression] = []
    for each in parts:
        same = isinstance(each, Call) and each.function == operator
        flat.extend(each.arguments if isinstance(each, Call) and same else (each,))
    if not flat:
        return TRUE
    return flat[0] if len(flat) == 1 else Call(operator, tuple(flat), BOOLEAN)
