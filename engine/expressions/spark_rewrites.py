"""Expressions rewritten so that Spark computes SQL's result.

Spark converts more than ten constants of an IN to a set, and then ignores a NULL among them for
NaN: it returns FALSE where SQL has NULL, so `DELETE … WHERE x NOT IN (…, NULL)` would delete the
rows whose `x` is NaN.

Spark's analyzer replaces a comparison of a whole number with a DECIMAL constant beyond BIGINT by
TRUE or FALSE for every row, including NULL: `DELETE … WHERE i < 9223372036854775808` would delete
the rows whose `i` is NULL. A cast prevents this. Spark also negates a DECIMAL of more than 34
digits by rounding it to 34.

Patterns are matched without backtracking: see `like` and `regex`.
"""

from dataclasses import replace

from engine.expressions.like import LIKE, translate_like
from engine.expressions.regex import REGEX, regex_for_spark
from engine.expressions.tree import Call, Expression, Literal
from engine.expressions.types import FLOATS, INTEGRALS, common_type
from engine.schema.types import BOOLEAN, STRING, DecimalType

FOR_SPARK = frozenset({"rlike", "regexp_replace", "raise_error"})
"""Spark functions used by `adapt_to_spark` that no text may call."""
ORDERED = frozenset({"<", "<=", ">", ">="})
_LOWEST, _HIGHEST = -(2**63), 2**63 - 1

_MOST_DIGITS = 34


def adapt_to_spark(expression: Expression) -> Expression:
    """Rewrite the parts of an expression Spark would compute differently, or too slowly.

    Applied to its own result, it changes nothing.
    """
    return call_for_spark(expression) if isinstance(expression, Call) else expression


def call_for_spark(call: Call) -> Call:
    """Rewrite a call so that Spark follows SQL and matches patterns without backtracking."""
    made = replace(call, arguments=tuple(adapt_to_spark(argument) for argument in call.arguments))
    if made.function in REGEX and (made.function != "regexp_replace" or len(made.arguments) == 4):
        return regex_for_spark(made)
    if made.function in ORDERED:
        return comparison_for_spark(made)
    if made.function == "negative":
        return negation_for_spark(made)
    if made.function == "in":
        return membership_for_spark(made)
    return translate_like(made) if made.function in LIKE else made


def membership_for_spark(call: Call) -> Call:
    """Rewrite an IN without its NULL options, adding their effect by OR NULL."""
    value, *options = call.arguments
    given = tuple(option for option in options if not _is_null(option))
    if not given or len(given) == len(options):
        return call
    if common_type([part.type for part in call.arguments]) not in FLOATS:
        return call
    within = replace(call, arguments=(value, *given))
    return Call("or", (within, Literal(None, BOOLEAN)), BOOLEAN)


def _is_null(option: Expression) -> bool:
    while isinstance(option, Call) and option.function in {"cast", "try_cast"}:
        option = option.arguments[0]
    return isinstance(option, Literal) and option.value is None


def comparison_for_spark(call: Call) -> Call:
    """Rewrite a comparison with a constant beyond BIGINT by casting the constant."""
    left, right = call.arguments
    return replace(
        call, arguments=(_cast_wide_literal(left, right), _cast_wide_literal(right, left))
    )


def negation_for_spark(call: Call) -> Call:
    """Rewrite the negation of a wide DECIMAL by its text, adding or removing the sign."""
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
