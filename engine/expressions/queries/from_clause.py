"""Parsing of the FROM of a query, which decides where an expression ends.

The names of functions are checked here from tokens alone. The grammar refuses unlisted calls, but
needs the columns of all tables, which are unknown when a request arrives: by this check an unlisted
call is refused on request and not only at run time.
"""

from abc import ABC, abstractmethod

from engine.errors import ExpressionError
from engine.expressions.cursor import Cursor
from engine.expressions.functions import FOLDED, find_callable, remedy_for
from engine.expressions.keyword_calls import KEYWORD_CALLS
from engine.expressions.lexer import Token
from engine.expressions.literals import is_whole, parse_timestamp
from engine.expressions.queries.functions import find_window_function
from engine.expressions.queries.syntax import (
    DerivedTable,
    FromSyntax,
    JoinSyntax,
    QuerySyntax,
    TableName,
    Tokens,
)

_JOINS: tuple[tuple[tuple[str, ...], str], ...] = (
    (("JOIN",), "inner"),
    (("INNER", "JOIN"), "inner"),
    (("CROSS", "JOIN"), "cross"),
    (("LEFT", "OUTER", "JOIN"), "left"),
    (("LEFT", "JOIN"), "left"),
    (("LEFT", "SEMI", "JOIN"), "left_semi"),
    (("SEMI", "JOIN"), "left_semi"),
    (("LEFT", "ANTI", "JOIN"), "left_anti"),
    (("ANTI", "JOIN"), "left_anti"),
    (("RIGHT", "OUTER", "JOIN"), "right"),
    (("RIGHT", "JOIN"), "right"),
    (("FULL", "OUTER", "JOIN"), "full"),
    (("FULL", "JOIN"), "full"),
)
_ENDS = frozenset(
    (
        *("FROM", "WHERE", "HAVING", "QUALIFY", "LIMIT", "OFFSET", "UNION", "EXCEPT", "MINUS"),
        *("INTERSECT", "WINDOW", "ON", "USING", "NATURAL", "LATERAL"),
    )
)
_PAIRS = (("GROUP", "BY"), ("ORDER", "BY"), ("DRY", "RUN"))
_OTHER = frozenset(
    (
        *("INNER", "CROSS", "LEFT", "RIGHT", "FULL", "SEMI", "ANTI", "JOIN", "GROUP", "ORDER"),
        *("DRY", "WHEN", "SET"),
    )
)
BEGINNINGS = frozenset({"SELECT", "WITH", "VALUES"})
RESERVED = _ENDS | _OTHER
"""Words that are no alias without backticks."""
MAX_COMBINED = 200
_UNKNOWN = frozenset({"NATURAL", "LATERAL", "PIVOT", "UNPIVOT", "TABLESAMPLE", "WINDOW"})

_BEFORE_A_VALUE = frozenset(
    (
        *("AND", "OR", "NOT", "IN", "BETWEEN", "LIKE", "ILIKE", "RLIKE", "REGEXP", "DIV", "EXISTS"),
        *("CASE", "WHEN", "THEN", "ELSE", "CAST", "TRY_CAST"),
        *("OVER", "BY", "FILTER", "WHERE", "DISTINCT", "FROM", "FOR", "ANY", "SOME", "ALL"),
    )
)
"""Grammar words that may precede a parenthesis. FROM is that of IS DISTINCT FROM."""


class FromReader(Cursor, ABC):
    """Reads tables and joins."""

    help = "docs/sql.md lists the supported queries."
    depth = 0
    combined = 0

    @abstractmethod
    def query(self) -> QuerySyntax:
        """Parse the query ahead."""

    def source(self) -> FromSyntax:
        """Parse tables with joins and commas between them."""
        left = self._parse_joins()
        while self.take(","):
            self.combine()
            left = JoinSyntax(left, self._parse_joins(), "cross", (), (), self.position)
        if self.peek() in _UNKNOWN:
            self.refuse("this is not supported in a query")
        return left

    def combine(self) -> None:
        """Count a join or a set operation: each lies around those before it."""
        self.combined += 1
        if self.combined > MAX_COMBINED:
            self.refuse(f"the query has more than {MAX_COMBINED} joins and set operations")

    def _parse_joins(self) -> FromSyntax:
        left = self._table()
        while (join := self._join_ahead()) is not None:
            position = self.position
            self.combine()
            words, how = join
            self.index += len(words)
            right = self._table()
            using = self.names() if how != "cross" and self.take("USING") else ()
            on = (
                self.expression_tokens() if how != "cross" and not using and self.take("ON") else ()
            )
            if how != "cross" and not using and not on:
                self.refuse("ON or USING was expected")
            left = JoinSyntax(left, right, how, on, using, position)
        return left

    def _join_ahead(self) -> tuple[tuple[str, ...], str] | None:
        for words, how in _JOINS:
            if all(self.peek(offset) == word for offset, word in enumerate(words)):
                return words, how
        return None

    def _table(self) -> FromSyntax:
        position = self.position
        if self.peek() == "(" and self.peek(1) not in BEGINNINGS | {"("}:
            self.index += 1
            source = self.source()
            self.need(")")
            return source
        bracket = self.take("(")
        if bracket or self.peek() == "VALUES":
            return self._parse_derived_table(position, bracket=bracket)
        if self.peek(1) == "(":
            self.refuse("a function cannot be read as a table in a query")
        name = self._table_name()
        version: int | str | None = None
        if self.take("VERSION", "AS", "OF"):
            version = self._version()
        elif self.take("TIMESTAMP", "AS", "OF"):
            version = self._time()
        alias, columns = self._alias()
        return TableName(name, version, alias, columns, position)

    def _parse_derived_table(self, position: int, *, bracket: bool) -> DerivedTable:
        query = self.query()
        if bracket:
            self.need(")")
        alias, columns = self._alias()
        return DerivedTable(query, alias, columns, position)

    def _table_name(self) -> str:
        uri = self.token(2)
        if self.peek() == "DELTA" and self.peek(1) == "." and uri and uri.kind == "name":
            self.index += 3
            return uri.value
        parts = [self.alias_name()]
        while self.take("."):
            parts.append(self.alias_name())
        return ".".join(parts)

    def _version(self) -> int:
        token = self.token()
        if token is None or not is_whole(token.value) or len(token.value) > 18:
            self.refuse("a version was expected")
        self.index += 1
        return int(token.value)

    def _time(self) -> str:
        token = self.token()
        if token is None or token.kind != "string" or parse_timestamp(token.value) is None:
            self.refuse("a time was expected, such as '2026-11-02 12:00:00'")
        self.index += 1
        return token.value

    def _alias(self) -> tuple[str, tuple[str, ...]]:
        explicit = self.take("AS")
        token = self.token()
        plain = token is not None and (
            token.kind == "name" or (token.kind == "word" and not self._ends_here())
        )
        if not explicit and (not plain or (token is not None and token.value in _UNKNOWN)):
            return "", ()
        name = self.alias_name()
        return name, self.names() if self.peek() == "(" else ()

    def alias_name(self) -> str:
        """Parse one name, without its backticks.

        Raises:
            ExpressionError: something else is next.
        """
        token = self.token()
        if token is None or token.kind not in {"word", "name"}:
            self.refuse("a name was expected")
        if token.kind == "word" and token.value in RESERVED:
            self.refuse("a name was expected; this one needs backticks")
        self.index += 1
        return token.value if token.kind == "name" else token.text

    def names(self) -> tuple[str, ...]:
        """Parse names in brackets."""
        self.need("(")
        names = [self.alias_name()]
        while self.take(","):
            names.append(self.alias_name())
        self.need(")")
        return tuple(names)

    def expression_tokens(self) -> Tokens:
        """Take the tokens of one expression, up to a comma, a clause or a closing bracket.

        Raises:
            ExpressionError: there is none, or a parenthesis is not closed.
        """
        start, depth = self.index, 0
        while not self.at_end:
            ahead = self.peek()
            if depth == 0 and (ahead in {",", ")", "]", ";"} or self._ends_here()):
                break
            if not self.take_subquery(start):
                depth += {"(": 1, "[": 1, ")": -1, "]": -1}.get(ahead, 0)
                self.index += 1
        if depth or self.index == start:
            self.refuse("a parenthesis is not closed" if depth else "an expression was expected")
        return tuple(self.tokens[start : self.index])

    def take_subquery(self, start: int) -> bool:
        """Skip a query in parentheses, if one is next in the expression beginning at `start`.

        Raises:
            ExpressionError: it does not parse, or the parenthesis follows an unlisted function.
        """
        refuse_other_calls(self, start)
        if self.peek() != "(" or self.peek(1) not in BEGINNINGS:
            return False
        self.index += 1
        self.query()
        self.need(")")
        return True

    def _ends_here(self) -> bool:
        ahead = self.peek()
        if ahead == "FROM" and self._is_word(self.token(-1), "DISTINCT") and self.index:
            return not self._is_word(self.token(-2), "IS", "NOT")
        if ahead in _ENDS:
            return True
        if any((ahead, self.peek(1)) == pair for pair in _PAIRS):
            return True
        return self._join_ahead() is not None

    @staticmethod
    def _is_word(token: Token | None, *words: str) -> bool:
        return token is not None and token.kind == "word" and token.value in words


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
    plain = (
        ": write its name without a qualifier or quotes"
        if named and _is_function(before.value.lower())
        else ""
    )
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
