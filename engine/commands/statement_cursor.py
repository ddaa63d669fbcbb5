"""A place in a statement: tables, columns, conditions and options are read here."""

import re

from engine.errors import StatementError
from engine.expressions.cursor import Cursor
from engine.expressions.lexer import Token, tokenize
from engine.expressions.literals import is_whole
from engine.expressions.operands import KEYWORDS, RESERVED
from engine.expressions.queries.from_clause import BEGINNINGS
from engine.expressions.queries.reader import take_expression_part
from engine.protocol.properties import normalize_value

MAX_CHARACTERS = 200_000
_VALUES = frozenset({"NULL", "TRUE", "FALSE", "END"})
_CLOSERS = {"(": ")", "[": "]", "CASE": "END"}


class StatementCursor(Cursor):
    """Reads a statement; conditions are returned as written, with comments blanked.

    A method that takes something raises `StatementError` if something else is next.
    """

    error = StatementError
    help = "docs/sql.md shows how each statement is written."

    @classmethod
    def from_text(cls, text: str) -> "StatementCursor":
        """Start at the beginning of a statement."""
        if len(text) > MAX_CHARACTERS:
            what = f"The statement has {len(text)} characters: {MAX_CHARACTERS} is the limit."
            raise StatementError(what, "Load the rows from a file.")
        tokens = tokenize(text, error=StatementError)
        return cls(tokens, _blank_comments(text, tokens))

    def query_ahead(self) -> bool:
        """Return whether a query in brackets is next."""
        offset = 0
        while self.peek(offset) == "(":
            offset += 1
        return offset > 0 and self.peek(offset) in BEGINNINGS

    def name(self) -> str:
        """Parse one name, without its backticks."""
        token = self.token()
        if token is None or token.kind not in {"word", "name"}:
            self.refuse("a name was expected")
        self.index += 1
        return token.value if token.kind == "name" else token.text

    def table(self) -> str:
        """Take a table's name, its parts joined by dots, or the URI of delta.`uri`."""
        if self.peek() == "DELTA" and self.peek(1) == ".":
            uri = self.token(2)
            if uri is not None and uri.kind == "name":
                self.index += 3
                return uri.value
        start = self.index
        parts = [self.name()]
        while self.take("."):
            parts.append(self.name())
        self._refuse_hyphens(start)
        return ".".join(parts)

    def _refuse_hyphens(self, start: int) -> None:
        """Refuse an unquoted name with hyphens, as in `table-name`."""
        position = self.position
        whole = re.match(r"(?:-\w+)+", self.text[self.tokens[self.index - 1].end :])
        if whole is not None:
            name = self.slice(start) + whole[0]
            what = f"{name} is not a name: the hyphen is read as a minus sign."
            remedy = f"Use backticks: `{name.replace('`', '')}`."
            raise StatementError(what, remedy, position=position)

    def column(self) -> str:
        """Take a column or nested field, as written."""
        start = self.index
        self.name()
        while self.take("."):
            self.name()
        return self.slice(start)

    def columns(self) -> tuple[str, ...]:
        """Parse columns, in brackets or without."""
        bracket = self.take("(")
        columns = [self.column()]
        while self.take(","):
            columns.append(self.column())
        if bracket:
            self.need(")")
        return tuple(columns)

    def slice(self, start: int) -> str:
        """Return the text from the token at an index to the one ahead."""
        return self.text[self.tokens[start].position : self.tokens[self.index - 1].end]

    def take_until(self, *stops: str) -> str:
        """Take the text up to one of these stops outside brackets and CASE, or to the end.

        A stop is a word or symbol, or several separated by blanks.
        """
        start, closers = self.index, list[str]()
        only = self.token()
        if only is not None and only.kind in {"number", "string"} and self.peek(1) in stops:
            self.index += 1  # most literals in VALUES
            return self.slice(start)
        stops_ahead = [stop.split() for stop in stops]
        while not self.at_end and (closers or not any(map(self._ahead, stops_ahead))):
            ahead = self.peek()
            if ahead in _CLOSERS.values() and ahead != "END" and ahead not in closers[-1:]:
                break
            part = take_expression_part(self, start)
            if part in _CLOSERS:
                closers.append(_CLOSERS[part])
            elif part and part in closers[-1:]:
                closers.pop()
        if self.index == start or closers:
            closer = closers[-1] if closers else ""
            why = f"{closer if closer == 'END' else repr(closer)} was expected"
            why = why if closer else "a condition or value was expected"
            self.refuse(why)
        return self.slice(start)

    def _ahead(self, words: list[str]) -> bool:
        if words[0] == "(" and not self._ends_a_value(self.token(-1)):
            return False  # the parenthesis belongs to IN, EXISTS, a call or an operator
        return all(self.peek(offset) == word for offset, word in enumerate(words))

    @staticmethod
    def _ends_a_value(before: Token | None) -> bool:
        if before is None or before.kind == "symbol":
            return before is not None and before.value in {")", "]"}
        return before.kind != "word" or before.value not in KEYWORDS or before.value in _VALUES

    def properties(self) -> dict[str, str]:
        """Parse `('key' = 'value', key.part = 1, …)`.

        Raises:
            StatementError: something else is next, or a key comes twice.
        """
        self.need("(")
        properties: dict[str, str] = {}
        while not self.take(")"):
            position, key = self.position, self.property_key()
            self.take("=")
            if key in properties:
                what = f"{key} is given twice."
                raise StatementError(what, "Give it once.", position=position)
            properties[key] = normalize_value(key, self._property_value())
            if self.peek() != ")":
                self.need(",")
        return properties

    def property_key(self) -> str:
        """Take a property's key: a string, or names with dots."""
        token = self.token()
        if token is not None and token.kind == "string":
            self.index += 1
            return token.value
        parts = [self.name()]
        while self.take("."):
            parts.append(self.name())
        return ".".join(parts)

    def _property_value(self) -> str:
        sign = "-" if self.take("-") else ""
        token = self.token()
        if token is None or token.kind not in {"string", "number", "word"}:
            self.refuse("the value of a property was expected")
        self.index += 1
        if token.kind == "word" and token.value in {"TRUE", "FALSE"}:
            return token.text.lower()
        return token.value if token.kind == "string" else sign + token.text

    def options(self, *names: str) -> dict[str, str]:
        """Take `WITH ('option' = 'value')`, or nothing.

        Raises:
            StatementError: an option is unknown.
        """
        position = self.position
        if self.peek(1) != "(" or not self.take("WITH"):
            return {}
        options = self.properties()
        for option in options:
            if option not in names:
                what = f"The statement has no option {option[:100]}."
                raise StatementError(
                    what, f"The options are {', '.join(names)}.", position=position
                )
        return options

    def integer(self, *, quoted: bool = False) -> int:
        """Take an integer, also in quotes if `quoted`."""
        sign = -1 if self.take("-") else 1
        token = self.token()
        if (
            token is None
            or token.kind not in ({"number", "string"} if quoted else {"number"})
            or not is_whole(token.value)
            or len(token.value) > 18
        ):
            self.refuse("a whole number was expected")
        self.index += 1
        return sign * int(token.value)

    def point(self) -> tuple[int | None, str | None]:
        """Parse `VERSION AS OF n` or `TIMESTAMP AS OF 'time'`; both parts None for neither.

        Raises:
            StatementError: it begins like one and does not go on.
        """
        if self.take("VERSION"):
            self.need("AS", "OF")
            return self.integer(quoted=True), None
        if self.take("TIMESTAMP"):
            self.need("AS", "OF")
            return None, self.string("a time")
        return None, None

    def alias(self, *reserved: str) -> str:
        """Parse `[AS] name`, unless a reserved word or one of these is next; "" for none."""
        token = self.token()
        explicit = self.take("AS")
        if not explicit and (
            token is None
            or token.kind not in {"word", "name"}
            or self.peek() in RESERVED.union(reserved)
        ):
            return ""
        return self.name()

    def end(self) -> None:
        """Require the end of the statement.

        Raises:
            StatementError: something does.
        """
        if self.peek() == ";":
            what = "There is more than one statement."
            raise StatementError(what, "Send one statement at a time.", position=self.position)
        if not self.at_end:
            self.refuse("the end of the statement was expected")


def _blank_comments(text: str, tokens: list[Token]) -> str:
    parts, at = [], 0
    for token in tokens:
        parts.append(_blank(text[at : token.position]))
        parts.append(text[token.position : token.end])
        at = token.end
    return "".join(parts)


def _blank(gap: str) -> str:
    return "".join(character if character.isspace() else " " for character in gap)
