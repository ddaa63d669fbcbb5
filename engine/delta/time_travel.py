"""Points in time at the end of a name: `t@v1`, `/path@v1`, `@yyyyMMddHHmmssSSS`."""

import re
from datetime import datetime

from engine.errors import StatementError
from engine.expressions.lexer import Token, tokenize

_VERSION = re.compile(r"[vV](\d{1,18})\Z", re.ASCII)
_MOMENT = re.compile(r"\d{17}\Z", re.ASCII)
_AT_END = re.compile(r"(.+)@([vV]\d{1,18}|\d{17})\Z", re.DOTALL | re.ASCII)


def split_point(text: str) -> tuple[str, str | None, str | None]:
    """Split a point in time from a name; return the name, the version and the time.

    The time is in the session's time zone. Version and time are None if the text ends in none.
    """
    match = _AT_END.match(text)
    if match is None:
        return text, None, None
    version, moment = _point(match[2])
    return (match[1], version, moment) if version or moment else (text, None, None)


def expand_time_travel(statement: str) -> str:
    """Replace each `name@point` in a statement by `VERSION AS OF` or `TIMESTAMP AS OF`."""
    try:
        tokens = tokenize(statement, error=StatementError)
    except StatementError:
        return statement  # Spark's parser will say
    parts, at = [], 0
    for before, sign, after in zip(tokens, tokens[1:], tokens[2:], strict=False):
        if not _is_suffix(before, sign, after):
            continue
        version, moment = _point(after.text)
        if version is None and moment is None:
            continue
        words = f" VERSION AS OF {version}" if version else f" TIMESTAMP AS OF '{moment}'"
        parts += [statement[at : sign.position], words]
        at = after.end
    return "".join([*parts, statement[at:]])


def _is_suffix(before: Token, sign: Token, after: Token) -> bool:
    """Whether `@` joins a name and the next token without a gap."""
    joined = before.end == sign.position and sign.end == after.position
    return joined and sign.value == "@" and before.kind in {"word", "name"}


def _point(text: str) -> tuple[str | None, str | None]:
    """Parse a version, or a time as text; both None if it is neither."""
    version = _VERSION.match(text)
    if version is not None:
        return version[1], None
    if not _MOMENT.match(text):
        return None, None
    try:
        moment = datetime.strptime(f"{text}000", "%Y%m%d%H%M%S%f")  # noqa: DTZ007 - of the session
    except ValueError:
        return None, None
    return None, moment.isoformat(sep=" ", timespec="milliseconds")
