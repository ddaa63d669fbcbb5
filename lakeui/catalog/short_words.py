"""Short words for narrow lines and columns."""

import re

from engine.commands.names import name_sql

_NOT_TYPED = re.compile(
    r"('(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.)*\")|`([A-Za-z_]\w*)`|(?<=\w)#\d{1,12}L?\b"
)
"""Texts, which stay; backticks around plain names and Spark's column numbers, which are removed."""
_WORD = re.compile(r"\s*(?:'(?:[^'\\]|\\.|'')*'|`(?:[^`]|``)*`|[^\s'`]+)+")
_SHORTEST = 8
_LONGEST = 1000
_SHORT_REASONS = {
    "partitioned": "partitioned",
    "identity": "identity",
    "eletionVectors": "DVs off",
    "eletion vectors off": "DVs off",
}


def short_reason(reason: str) -> str:
    """Shorten the reason why a table has no row-level concurrency."""
    short = (text for sign, text in _SHORT_REASONS.items() if sign in reason)
    return next(short, reason[:24] or "no")


def short_vectors(reason: str) -> str:
    """Shorten a reason: DVs for deletion vectors."""
    return reason.replace("deletion vectors", "DVs")


def short_operation(name: str) -> str:
    """Shorten an operation's name for a narrow column."""
    return name.replace("OPTIMIZE ZORDER BY", "ZORDER BY")


def check_head(operation: str) -> str:
    """Shorten an operation for the head of a narrow column of checks: the first word is enough."""
    first, _, rest = operation.partition(" ")
    return operation if len(operation) <= 9 or not rest else first


def plain_condition(text: str) -> str:
    """Return a condition as people write it, without Spark's backticks and numbers around names.

    Backticks stay around a name that needs them: one of other letters, or a word of SQL.
    """
    return _NOT_TYPED.sub(_restore_name, text)


def short_condition(text: str, length: int) -> str:
    """Return the start of a condition, cut between its words and never inside a text."""
    return short_text(plain_condition(text), length)


def short_text(text: str, length: int) -> str:
    """Return the start of a text with statements, cut as `short_condition` cuts."""
    if len(text) <= length:
        return text
    end = 0
    for match in _WORD.finditer(text):
        if match.end() > length - 2 and end >= _SHORTEST:
            break
        end = match.end()
    end = min(end, max(length, _LONGEST))  # a literal may be of any size
    return text if end >= len(text) else f"{text[:end]} …"


def _restore_name(match: re.Match[str]) -> str:
    if match[1]:
        return match[1]
    return name_sql(match[2]) if match[2] else ""
