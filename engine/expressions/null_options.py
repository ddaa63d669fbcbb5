"""IN over floating point with NULL among its options, rewritten for Spark.

Spark converts more than ten constants to a set, and then ignores the NULL for NaN: it returns FALSE
where SQL has NULL, so `DELETE … WHERE x NOT IN (…, NULL)` would delete the rows whose `x` is NaN.
"""

from dataclasses import replace

from engine.expressions.tree import Call, Expression, Literal
from engine.expressions.types import FLOATS, common_type
from engine.schema.types import BOOLEAN


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
