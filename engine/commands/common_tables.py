"""WITH … before INSERT, MERGE, UPDATE and DELETE, added to each query that uses its names."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from engine.commands.command import Command
from engine.commands.merge import Merge
from engine.commands.sources import QuerySource, Source, TableSource
from engine.commands.statement_cursor import StatementCursor
from engine.commands.stream import Stream
from engine.commands.writes import Append, Delete, Overwrite, Update
from engine.errors import StatementError
from engine.expressions.cursor import Cursor
from engine.expressions.lexer import tokenize
from engine.expressions.parse import Given
from engine.expressions.queries.from_clause import BEGINNINGS
from engine.expressions.queries.reader import read_common


def change_expressions(command: Command, change: Callable[[Any], Any]) -> Command:
    """Return a command with `change` of each of its conditions and values of rows; None stays.

    REPLACE ON stays as it is: it is text that becomes part of a condition (`render_match`).
    """

    def all_values(values: Mapping[str, Given]) -> dict[str, Given]:
        return {column: change_if_given(value) for column, value in values.items()}

    def change_if_given(value: Any) -> Any:  # noqa: ANN401 - text or an expression of the program
        return change(value) if value else value

    match command:
        case Overwrite():
            return replace(command, replace_where=change_if_given(command.replace_where))
        case Merge():
            clauses = tuple(
                replace(
                    clause,
                    condition=change_if_given(clause.condition),
                    assignments=all_values(clause.assignments),
                )
                for clause in command.clauses
            )
            return replace(command, on=change_if_given(command.on), clauses=clauses)
        case Update():
            where, values = change_if_given(command.where), all_values(command.assignments)
            return replace(command, where=where, assignments=values)
        case Delete():
            return replace(command, where=change_if_given(command.where))
        case _:
            return command


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
        if isinstance(command, Stream):
            what = "A stream reads a table. It cannot read a query that WITH defines."
            raise StatementError(what, "Name a table, without WITH.", position=0)
        changed = change_expressions(command, self._condition)
        if isinstance(changed, Overwrite):
            changed = replace(changed, replace_on=self._condition(changed.replace_on))
        if isinstance(changed, Append | Overwrite | Merge):
            return replace(changed, source=self._source(changed.source))
        return changed

    def _source(self, source: Source) -> Source:
        match source:
            case TableSource() if source.table.lower() in self.names:
                return QuerySource(self._prepend_head(source.sql()), (), source.by_position)
            case QuerySource() if self._is_named(source.query):
                return replace(source, query=self._prepend_head(source.query))
            case _:
                return source

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
