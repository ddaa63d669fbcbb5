"""Where in a statement a fault of one of its parts is."""

import re

from engine.errors import StatementError


def note_part(error: StatementError, part: str) -> None:
    """Note of which part of a statement the error's position is an offset; the innermost comes first."""
    error.part = error.part or part


def place_in(error: StatementError, statement: str) -> int | None:
    """The offset of the fault in the statement, None where its part is not in there word for word."""
    if error.position is None or not error.part:
        return error.position
    part = re.search(rf"(?<!\w){re.escape(error.part)}(?!\w)", statement)
    return None if part is None else part.start() + error.position
