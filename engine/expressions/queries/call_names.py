"""Check of function names before parentheses, from tokens alone, before tables are known.

The grammar refuses unlisted calls, but needs the columns of all tables. Requests are checked here
without them, by the same lists, so an unlisted call is refused on request and not only at run time.
"""

from engine.errors import ExpressionError
from engine.expressions.cursor import Cursor
from engine.expressions.functions import FOLDED, find_callable, remedy_for
from engine.expressions.keyword_calls import KEYWORD_CALLS
from engine.expressions.lexer import Token
from engine.expressions.queries.functions import find_window_function

_BEFORE_A_VALUE = frozenset(
    (
        *("AND", "OR", "NOT", "IN", "BETWEEN", "LIKE", "ILIKE", "RLIKE", "REGEXP", "DIV", "EXISTS"),
        *("CASE", "WHEN", "THEN", "ELSE", "CAST", "TRY_CAST"),
        *("OVER", "BY", "FILTER", "WHERE", "DISTINCT", "FROM", "FOR", "ANY", "SOME", "ALL"),
    )
)
"""Grammar words that may precede a parenthesis. FROM is that of IS DISTINCT FROM."""


def refuse_other_calls(cursor: Cursor, start: int) -> None:
    """Refuse an unlisted call at the parenthesis ahead; `start` is the expression's beginning.

    Quotes, case, comments and qualified names make no difference: functions are plain words.

    Raises:
        ExpressionError: with the position of the name.
    """
    before = cursor.token(-1) if cursor.index > start else None
    if cursor.peek() != "(" or before is None:
        return
    if before.kind == "symbol" and before.value not in {")", "]"}:
        return
    if before.kind == "word" and _may_precede(before, cursor, start):
        return
    named = before.kind in {"word", "name"}
    shown = f"The function {before.text[:100]}" if named else f"Calling {before.text[:60]!r}"
    plain = ": names are plain here" if named and _is_function(before.value.lower()) else ""
    what = f"{shown} at {before.position} is not allowed in an expression{plain}."
    raise ExpressionError(what, remedy_for(before.value), position=before.position)


def _may_precede(word: Token, cursor: Cursor, start: int) -> bool:
    earlier = cursor.peek(-2) if cursor.index - 1 > start else ""
    if earlier == ".":
        return False
    is_type = earlier in {"AS", "::"} or word.value in {"DECIMAL", "DEC", "NUMERIC"}
    return is_type or word.value in _BEFORE_A_VALUE or _is_function(word.value.lower())


def _is_function(name: str) -> bool:
    is_plain = name in FOLDED or name in KEYWORD_CALLS
    return is_plain or bool(find_callable(name) or find_window_function(name))
