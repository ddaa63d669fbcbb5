"""What Spark would compute otherwise of wide numbers, written so that it computes what SQL has.

Spark's analyzer makes a comparison of a whole number with a DECIMAL constant beyond BIGINT a constant,
TRUE or FALSE of every row, and so of NULL as well: `DELETE … WHERE i < 9223372036854775808` would
delete the rows whose `i` is NULL. It does not look behind a cast.

It negates a DECIMAL of more than 34 digits by rounding it to 34.
"""

from dataclasses import replace

from engine.expressions.tree import Call, Expression, Literal
from engine.expressions.types import INTEGRALS
from engine.schema.types import STRING, DecimalType

ORDERED = frozenset({"<", "<=", ">", ">="})
_LOWEST, _HIGHEST = -(2**63), 2**63 - 1


def comparison_for_spark(call: Call) -> Call:
    """A comparison whose constant, where it is one beyond BIGINT, is a cast."""
    left, right = call.arguments
    return replace(
        call, arguments=(_cast_wide_literal(left, right), _cast_wide_literal(right, left))
    )


_MOST_DIGITS = 34


def negation_for_spark(call: Call) -> Call:
    """A negation of a wide DECIMAL by its text: a sign before it, or none where there was one."""
    (value,) = call.arguments
    if not isinstance(value.type, DecimalType) or value.type.precision <= _MOST_DIGITS:
        return call
    minus = Literal("-", STRING)
    text = Call("concat", (minus, Call("cast", (value,), STRING)), STRING)
    without = Call("replace", (text, Literal("--", STRING), Literal("", STRING)), STRING)
    return Call("cast", (without,), call.type)


def _cast_wide_literal(value: Expression, other: Expression) -> Expression:
    is_wide = (
        isinstance(value, Literal)
        and isinstance(value.type, DecimalType)
        and value.value is not None
        and not _LOWEST <= value.value <= _HIGHEST  # type: ignore[operator] # a Decimal
    )
    if is_wide and other.type in INTEGRALS:
        return Call("cast", (value,), value.type)
    return value
