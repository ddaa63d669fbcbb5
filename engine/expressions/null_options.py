"""IN over floating point with a NULL among its options, as Spark is to compute it.

Of more than ten constants Spark makes a set, and then forgets for NaN that NULL is among them: it says
FALSE where SQL has NULL, so `DELETE … WHERE x NOT IN (…, NULL)` would delete the rows whose `x` is NaN.
"""

from dataclasses import replace

from engine.expressions.tree import Call, Expression, Literal
from engine.expressions.types import FLOATS, common_type
from engine.schema.types import BOOLEAN


def membership_for_spark(call: Call) -> Call:
    """An IN without NULL among its options, and what NULL means there beside it."""
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
