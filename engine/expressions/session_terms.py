"""Session independence: whether an expression is the same under any time zone and ANSI mode.

This depends on the whole tree and its types: an implicit cast, between the branches of a CASE or
the operands of a comparison, depends on the session as much as an explicit one. Expressions not
known to be independent are left to the session's own Spark.
"""

from collections.abc import Callable, Sequence
from typing import TypeAlias

from engine.expressions.functions import COMPARISONS
from engine.expressions.traits import conjunction, split_conjuncts
from engine.expressions.tree import (
    VOID,
    Call,
    Column,
    Expression,
    Literal,
    SparkExpression,
    Subquery,
    walk,
)
from engine.expressions.types import INTEGRALS, common_type, is_numeric
from engine.schema.types import BINARY, BOOLEAN, FLOAT, STRING, DataType, DecimalType, MapType

_Types: TypeAlias = Sequence[DataType]


def is_alike_everywhere(expression: Expression) -> bool:
    """Return whether an expression has the engine's value in every session."""
    return all(map(_node_is_alike, walk(expression)))


def alike_conjuncts(condition: Expression | None) -> Expression | None:
    """Return the conjuncts of a condition that have the engine's value in every session.

    None if there are none: rows and files are then chosen by the session's own Spark alone.
    """
    parts = () if condition is None else split_conjuncts(condition)
    alike = [part for part in parts if is_alike_everywhere(part)]
    return conjunction(alike) if alike else None


def _node_is_alike(node: Expression) -> bool:
    match node:
        case Column() | Literal() | SparkExpression():
            return True
        case Subquery(query=query):
            return query is not None
        case Call(function="cast", arguments=(operand,), type=target):
            return _is_plain_cast(operand.type, target)
        case Call(function=name, arguments=arguments):
            alike = _ALIKE.get(name)
            return alike is not None and alike([argument.type for argument in arguments])
        case _:
            return False


def _is_plain_cast(source: DataType, target: DataType) -> bool:
    if target == STRING:
        return source in INTEGRALS or source == BOOLEAN
    is_wider = source in INTEGRALS and target in INTEGRALS
    return is_wider and INTEGRALS.index(source) <= INTEGRALS.index(target)


def _any(_: _Types) -> bool:
    return True


def _same(types: _Types) -> bool:
    """Return whether values of these types combine without a cast dependent on settings.

    Next to other numbers, only ANSI mode widens a FLOAT to a DOUBLE, and decimals of too many
    digits are rounded.
    """
    typed = {type_ for type_ in types if type_ != VOID}
    if len(typed) <= 1:
        return True
    if FLOAT in typed or not all(map(is_numeric, typed)):
        return False
    common = common_type(typed)
    return not (isinstance(common, DecimalType) and common.precision >= 38)


def _all_of(*allowed: DataType) -> Callable[[_Types], bool]:
    return lambda types: {*types} <= {*allowed, VOID}


def _part_of_text(types: _Types) -> bool:
    return types[0] == STRING and {*types[1:]} <= {*INTEGRALS[:3]}


def _branches(types: _Types) -> bool:
    """Check types of CASE: conditions and values by turns, then perhaps the value of ELSE."""
    pairs = len(types) // 2 * 2
    conditions, values = types[0:pairs:2], [*types[1:pairs:2], *types[pairs:]]
    return {*conditions} <= {BOOLEAN, VOID} and _same(values)


def _choice(types: _Types) -> bool:
    return types[0] in {BOOLEAN, VOID} and _same(types[1:])


def _entry(types: _Types) -> bool:
    """Return whether it is a map entry; ANSI mode refuses missing array elements."""
    return isinstance(types[0], MapType) and types[0].key == types[1]


_ALIKE: dict[str, Callable[[_Types], bool]] = {
    **dict.fromkeys(("and", "or", "not"), _all_of(BOOLEAN)),
    **dict.fromkeys(("isnull", "isnotnull", "field"), _any),
    **dict.fromkeys((*COMPARISONS, "in", "coalesce"), _same),
    "case": _branches,
    "if": _choice,
    **dict.fromkeys(("like", "ilike", "lower", "upper", "trim", "ltrim", "rtrim"), _all_of(STRING)),
    **dict.fromkeys(("concat", "startswith", "endswith", "contains"), _all_of(STRING)),
    "length": _all_of(STRING, BINARY),
    "substring": _part_of_text,
    "get": _entry,
}
"""Requirements on a call's argument types for the same result in every session."""
