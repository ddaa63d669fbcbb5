"""Where in a statement a fault of one of its parts is."""

import re

from engine.errors import StatementError


def note_part(error: StatementError, part: str) -> None:
    """Record the part of a statement the error's position refers to; the innermost part wins."""
    error.part = error.part or part


def place_in(error: StatementError, statement: str) -> int | None:
    """Return the error's offset in the statement; None unless its part occurs verbatim."""
    if error.position is None or not error.part:
        return error.position
    part = re.search(rf"(?<!\w){re.escape(error.part)}(?!\w)", statement)
    return None if part is None else part.start() + error.position
