"""WITH … before INSERT, MERGE, UPDATE and DELETE, added to each query that uses its names."""

from dataclasses import dataclass, replace
from typing import Any

from engine.commands.command import Command
from engine.commands.merge import Merge
from engine.commands.sources import QuerySource, Source, TableSource
from engine.commands.statement_cursor import StatementCursor
from engine.commands.stream import Stream
from engine.commands.writes import Append, Delete, Overwrite, Update
from engine.errors import StatementError
from engine.expressions.conditions import Given
from engine.expressions.cursor import Cursor
from engine.expressions.lexer import tokenize
from engine.expressions.queries.from_clause import BEGINNINGS
from engine.expressions.queries.reader import read_common

TAKES_COMMON_TABLES = ("INSERT", "MERGE", "UPDATE", "DELETE")


@dataclass(frozen=True)
class CommonTables:
    """The definitions of WITH: their text, and their names in lower case."""

    text: str
    names: frozenset[str]

    @classmethod
    def ahead(cls, cursor: StatementCursor) -> "CommonTables":
        """Parse the WITH ahead.

        Raises:
            StatementError: a syntax error.
        """
        cursor.need("WITH")
        start = cursor.index
        tables = read_common(cursor)
        return cls(cursor.slice(start), frozenset(table.name.lower() for table in tables))

    def apply_to(self, command: Command) -> Command:
        """Add the definitions to the command's queries that use them.

        Raises:
            StatementError: the command is a stream, which reads a table and no query.
        """
        changes: dict[str, Any] = {}
        match command:
            case Append() | Overwrite():
                changes["source"] = self._source(command.source)
                if isinstance(command, Overwrite):
                    changes["replace_where"] = self._condition(command.replace_where)
                    changes["replace_on"] = self._condition(command.replace_on)
            case Merge():
                clauses = (
                    replace(
                        clause,
                        condition=self._condition(clause.condition),
                        assignments=self._values(clause.assignments),
                    )
                    for clause in command.clauses
                )
                changes = {"source": self._source(command.source), "clauses": tuple(clauses)}
            case Update():
                changes["where"] = self._condition(command.where)
                changes["assignments"] = self._values(command.assignments)
            case Delete():
                changes["where"] = self._condition(command.where)
            case Stream():
                what = "A stream reads a table as it grows, and no WITH."
                raise StatementError(what, "Leave WITH out.", position=0)
            case _:
                pass
        return replace(command, **changes)

    def _source(self, source: Source) -> Source:
        match source:
            case TableSource() if source.table.lower() in self.names:
                return QuerySource(self._prepend_head(source.sql()), (), source.by_position)
            case QuerySource() if self._is_named(source.query):
                return replace(source, query=self._prepend_head(source.query))
            case _:
                return source

    def _values(self, values: Any) -> dict[str, Given]:  # noqa: ANN401 - a mapping of texts
        return {column: self._condition(value) or value for column, value in values.items()}

    def _condition(self, given: Any) -> Any:  # noqa: ANN401 - as it is given
        """Add the definitions to the outermost subqueries of an expression."""
        if not isinstance(given, str) or not self._is_named(given):
            return given
        cursor, parts, at = Cursor(tokenize(given), given), list[str](), 0
        depth, inside = 0, list[int]()
        while not cursor.at_end:
            if cursor.peek() == "(":
                if not inside and cursor.peek(1) in BEGINNINGS:
                    begin = cursor.tokens[cursor.index + 1]
                    parts += [given[at : begin.position], self._head(begin.value)]
                    at = begin.end + 1 if begin.value == "WITH" else begin.position
                    inside.append(depth)
                depth += 1
            elif cursor.peek() == ")":
                depth -= 1
                if inside and inside[-1] == depth:
                    inside.pop()
            cursor.index += 1
        return "".join((*parts, given[at:]))

    def _prepend_head(self, query: str) -> str:
        first = tokenize(query)[0]
        rest = query[first.end :].lstrip() if first.value == "WITH" else query
        return self._head(first.value) + rest

    def _head(self, word: str) -> str:
        """Return the text before a query, joining with a WITH of its own."""
        return f"WITH {self.text}, " if word == "WITH" else f"WITH {self.text} "

    def _is_named(self, text: str) -> bool:
        words = (token for token in tokenize(text) if token.kind in {"word", "name"})
        return any(word.value.lower() in self.names for word in words)
