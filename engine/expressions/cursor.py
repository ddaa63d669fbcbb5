"""Cursor over tokens, for parsing conditions and statements and locating their faults."""

import re
from typing import NoReturn

from engine.errors import ExpressionError, StatementError
from engine.expressions.lexer import Token


class Cursor:
    """Moves forward over tokens; every error names the position.

    Attributes:
        text: the source of the tokens.
        error: the class of the errors.
        help: the remedy in each error.
    """

    error: type[StatementError] = ExpressionError
    help = "Use columns, literals, operators and the functions in docs/sql.md."

    def __init__(self, tokens: list[Token], text: str = "") -> None:
        self.tokens, self.text = tokens, text
        self.index = 0

    def peek(self, offset: int = 0) -> str:
        """Return the word or symbol ahead; "" for anything else and at the end."""
        token = self.token(offset)
        return token.value if token and token.kind in {"word", "symbol"} else ""

    def token(self, offset: int = 0) -> Token | None:
        """Return the token ahead, None at the end."""
        index = self.index + offset
        return self.tokens[index] if index < len(self.tokens) else None

    def take(self, *expected: str) -> bool:
        """Move past these words or symbols if they are next."""
        if all(self.peek(offset) == token for offset, token in enumerate(expected)):
            self.index += len(expected)
            return True
        return False

    def need(self, *expected: str) -> None:
        """Move past these words or symbols; raise `StatementError` if something else is next."""
        for token in expected:
            if not self.take(token):
                self.refuse(f"{token if token.isalnum() else repr(token)} was expected")

    def refuse(self, why: str = "this cannot be part of an expression") -> NoReturn:
        """Refuse the token ahead.

        Raises:
            StatementError: always.
        """
        token = self.token()
        if token is None:
            end = self.tokens[-1].end if self.tokens else 0
            what = f"Unexpected end of the text: {why}."
            raise self.error(what, self.help, position=end)
        what = f"Unexpected {token.text[:60]!r} at {token.position}: {why}."
        raise self.error(what, self.help, position=token.position)

    @property
    def at_end(self) -> bool:
        """Whether all tokens are read."""
        return self.index >= len(self.tokens)

    @property
    def position(self) -> int:
        """The start of the token ahead."""
        token = self.token() or (self.tokens[-1] if self.tokens else None)
        return token.position if token else 0

    def string(self, what: str = "a string") -> str:
        """Take the string ahead; raise `StatementError` if the next token is something else."""
        token = self.token()
        if token is None or token.kind != "string":
            self.refuse(f"{what} in quotes was expected")
        self.index += 1
        return token.value


def note_part(error: StatementError, part: str) -> None:
    """Record the part of a statement the error's position refers to; the innermost part wins."""
    error.part = error.part or part


def place_in(error: StatementError, statement: str) -> int | None:
    """Return the error's offset in the statement; None unless its part occurs verbatim."""
    if error.position is None or not error.part:
        return error.position
    part = re.search(rf"(?<!\w){re.escape(error.part)}(?!\w)", statement)
    return None if part is None else part.start() + error.position
