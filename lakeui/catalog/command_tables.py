"""The other tables named by a command, and the people who may read its text.

A command's text reveals every table in it, and so does a worker's output about it: both are for
people who may see all of these tables.
"""

from collections.abc import Mapping
from functools import cached_property
from typing import Any, Protocol

from django.contrib.auth.models import User
from django.db.models import Q

from engine.commands.model import Clone, Command, Script
from engine.commands.sql import parse_request
from engine.errors import EngineError
from lakeui.catalog.access import Person, role_of, visible_tables
from lakeui.catalog.models import Table


class CommandHolder(Protocol):
    """An object with a command: a job, a schedule."""

    kind: Any
    parameters: Any


def list_table_names(command: Command) -> frozenset[str]:
    """Return the other tables that a command reads, and those that a script changes, as written.

    Raises:
        ExpressionError: (`StatementError`) a query that is not understood.
    """
    steps = command.steps if isinstance(command, Script) else (command,)
    cloned = (step.source_table for step in steps if isinstance(step, Clone))
    changed = command.tables_changed() if isinstance(command, Script) else ()
    return frozenset({*command.other_tables_read(), *cloned, *changed}) - {""}


def table_called(text: str) -> Table | None:
    """Return the table of this name, or registered at this location."""
    return Table.objects.filter(Q(name=text) | Q(uri=text)).first()


def reads_itself(command: Command, table: Table) -> bool:
    """Whether a query or condition of a command names its own table; true if uncertain."""
    try:
        read = command.tables_read()
    except EngineError:
        return True
    return any(name in (table.name, table.uri) or command.is_own_name(name) for name in read)


def names_others(asked: CommandHolder) -> bool:
    """Whether a command names other tables than its own, or cannot be parsed."""
    names = _names(asked)
    return names is None or bool(names)


class Reader:
    """A reader of commands. It caches the visible tables: create one for each answer."""

    def __init__(self, user: Person) -> None:
        self._user = user

    @property
    def account(self) -> User | None:
        """None for a visitor who has not signed in."""
        return self._user if isinstance(self._user, User) else None

    @cached_property
    def sees_all(self) -> bool:
        """Whether every table is theirs to see."""
        return role_of(self._user) is not None

    def may_read(self, asked: CommandHolder) -> bool:
        """Whether the person may see every table in the command."""
        if self.sees_all:
            return True
        names = _names(asked)
        return names is not None and names <= self._seen

    def may_read_statement(self, statement: str) -> bool:
        """Whether the person may see every table in an SQL statement, as far as it parses."""
        if self.sees_all:
            return True
        try:
            return list_table_names(parse_request(statement)[0]) <= self._seen
        except (EngineError, ValueError):
            return False

    @cached_property
    def _seen(self) -> frozenset[str]:
        rows = visible_tables(self._user).values_list("name", "uri")
        return frozenset(text for row in rows for text in row)


def _names(asked: CommandHolder) -> frozenset[str] | None:
    """Return the tables of a command; None if it cannot be parsed."""
    given = asked.parameters if isinstance(asked.parameters, Mapping) else {}
    try:
        return list_table_names(Command.from_parameters(asked.kind, dict(given)))
    except (EngineError, TypeError, ValueError):
        return None
