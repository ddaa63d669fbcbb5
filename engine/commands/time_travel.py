"""A version of a table as named in commands: by number, or by a time."""

from engine.errors import RequestError
from engine.expressions.literals import parse_timestamp
from engine.expressions.render import quote_string


def check_point(version: int | None, timestamp: str | None, command: str) -> None:
    """Refuse an invalid version or time; neither of both is allowed and means the latest.

    Raises:
        RequestError: both are given, the version is negative, or the text is not a time.
    """
    if version is not None and timestamp is not None:
        what = f"{command} takes either a version or a time."
        raise RequestError(what, "Give one of them.", field="version")
    if version is not None and version < 0:
        what = f"{command} cannot go to version {version}."
        raise RequestError(what, "Versions begin at 0.", field="version")
    if timestamp is not None and parse_timestamp(timestamp) is None:
        what = f"{timestamp[:100]!r} is not a time."
        raise RequestError(what, "Write it as 2026-11-02 12:00:00.", field="timestamp")


def point_sql(version: int | None, timestamp: str | None) -> str:
    """Render `VERSION AS OF n` or `TIMESTAMP AS OF 'time'`; "" for the latest."""
    if timestamp is not None:
        return f"TIMESTAMP AS OF {quote_string(timestamp)}"
    return "" if version is None else f"VERSION AS OF {version}"
