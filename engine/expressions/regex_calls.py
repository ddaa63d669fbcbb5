"""Regular expression functions: their accepted arguments, and their form for Spark."""

import re
from collections.abc import Sequence
from dataclasses import replace

from engine.errors import ExpressionError
from engine.expressions.regex import MAX_TEXT, limit_pattern
from engine.expressions.tree import Call, Expression, Literal, walk
from engine.schema.types import BOOLEAN, INTEGER, STRING

REGEX = frozenset(
    {"regexp_like", "regexp_replace", "regexp_extract", "regexp_substr", "regexp_count"}
)
_MAX_REPLACEMENT = 100
_REFERENCE = re.compile(r"\\|\$(?:(\d+))?")


def check_regex(name: str, arguments: Sequence[Expression], position: int | None) -> None:
    """Refuse patterns that may take long, and references to missing groups.

    Raises:
        ExpressionError: names the fault.
    """
    value, pattern = arguments[:2]
    if any(isinstance(node, Call) and node.function in REGEX for node in walk(value)):
        what = f"{name} stands over another regular expression."
        raise ExpressionError(what, "Compute the inner one first.", position=position)
    if not isinstance(pattern, Literal):
        what = f"The pattern of {name} is no literal."
        raise ExpressionError(what, "Write it out, or use LIKE.", position=position)
    if not isinstance(pattern.value, str):
        return
    groups = limit_pattern(pattern.value, position).groups
    last = arguments[2] if len(arguments) > 2 else None
    if name == "regexp_extract":
        _check_group(last, groups, position)
    if name == "regexp_replace":
        _check_replacement(last, groups, position)


def _check_group(group: Expression | None, groups: int, position: int | None) -> None:
    number = group.value if isinstance(group, Literal) else None if group else 1
    if not isinstance(number, int) or not 0 <= number <= groups:
        what = f"regexp_extract takes a group from 0 to {groups} of its pattern, as a literal."
        raise ExpressionError(what, "Write 0 for the whole match.", position=position)


def _check_replacement(text: Expression | None, groups: int, position: int | None) -> None:
    if not isinstance(text, Literal) or not isinstance(text.value, str):
        what = "What regexp_replace puts in is no literal text."
        raise ExpressionError(what, "Write it out.", position=position)
    if len(text.value) > _MAX_REPLACEMENT:
        what = f"A text in regexp_replace is longer than {_MAX_REPLACEMENT} characters."
        raise ExpressionError(what, "Use a shorter one.", position=position)
    for reference in _REFERENCE.finditer(text.value):
        number = reference[1]
        if number is None or len(number) > 1 or int(number) > groups:
            what = f"{reference[0]!r} in what regexp_replace puts in is no group of its pattern."
            remedy = f"Use $0 to ${groups}, one digit each, and no backslash."
            raise ExpressionError(what, remedy, position=position)


def regex_for_spark(call: Call) -> Call:
    """Rewrite the call with bounded texts and a pattern without backtracking."""
    value, pattern, *rest = call.arguments
    if _is_guarded(value) or not isinstance(pattern, Literal) or not isinstance(pattern.value, str):
        return call
    safe = Literal(limit_pattern(pattern.value).java, STRING)
    guarded = replace(call, arguments=(_guard_length(value), safe, *rest))
    return replace(guarded, function="rlike") if call.function == "regexp_like" else guarded


def _guard_length(value: Expression) -> Expression:
    message = (
        f"A text that a regular expression is matched with has more than {MAX_TEXT} characters."
    )
    error = Call("raise_error", (Literal(message, STRING),), STRING)
    length = Call("length", (value,), INTEGER)
    is_long = Call(">", (length, Literal(MAX_TEXT, INTEGER)), BOOLEAN)
    return Call("case", (is_long, Call("cast", (error,), STRING), value), STRING)


def _is_guarded(value: Expression) -> bool:
    return isinstance(value, Call) and any(
        isinstance(node, Call) and node.function == "raise_error" for node in walk(value)
    )
