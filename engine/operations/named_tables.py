"""The tables named by a statement: each opened once, each read at one version.

Every name and spelling of a table gets the same handle and snapshot. The statement's own name
always means its target.
"""

from collections.abc import Callable, Iterable

from engine.commands.names import is_location
from engine.errors import RequestError
from engine.operations.run_options import Resolve
from engine.snapshot.snapshot import Snapshot
from engine.storage.uri import is_same_place
from engine.table import DeltaTable


class UnknownNameError(RequestError, code="TABLE_OR_VIEW_NOT_FOUND", sqlstate="42P01"):
    """A statement names a table that is neither its own nor known by this name."""


class NamedTables:
    """The tables of one run of a statement, by their names and places."""

    def __init__(
        self,
        target: DeltaTable,
        resolve: Resolve | None = None,
        is_own_name: Callable[[str], bool] | None = None,
    ) -> None:
        """Prepare without opening any table.

        Args:
            target: the statement's own table.
            resolve: opens tables by name; without it only locations are known.
            is_own_name: whether a name is the statement's name for its own table.
        """
        self._target, self._resolve, self._is_own_name = target, resolve, is_own_name
        self._by_name: dict[str, DeltaTable] = {}
        self._handles: list[DeltaTable] = [target]
        self._snapshots: dict[tuple[int, int | str | None], Snapshot] = {}

    def open(self, name: str) -> DeltaTable:
        """Return the table of a name. Two names of one place get one handle.

        Raises:
            UnknownNameError: it is a plain name, and nothing here knows it.
            EngineError: there is no table, or this person may not read it.
        """
        if name not in self._by_name:
            self._by_name[name] = self._handle_of(name)
        return self._by_name[name]

    def open_all(self, names: Iterable[str]) -> None:
        """Open every named table, to check the names.

        Raises:
            UnknownNameError, EngineError: as `open`.
        """
        for name in names:
            self.open(name)

    def is_target(self, table: DeltaTable) -> bool:
        """Return whether a table opened here is the statement's own."""
        return table is self._target

    def snapshot(self, table: DeltaTable, version: int | str | None = None) -> Snapshot:
        """Return an opened table at a version or a time, or at its latest version.

        The latest version is read once.
        """
        key = (self._handles.index(table), version)
        if key not in self._snapshots:
            time = version if isinstance(version, str) else None
            number = version if isinstance(version, int) else None
            self._snapshots[key] = table.snapshot(number, time)
        return self._snapshots[key]

    def _handle_of(self, name: str) -> DeltaTable:
        if self._is_own_name is not None and self._is_own_name(name):
            return self._target
        if self._resolve is not None:
            table = self._resolve(name)
        else:
            table = open_location(name, self._target)
        for handle in self._handles:
            if is_same_place(table.uri, handle.uri):
                return handle
        self._handles.append(table)
        return table


def open_location(name: str, beside: DeltaTable) -> DeltaTable:
    """Return the table at a location, opened with the options of another one.

    Raises:
        UnknownNameError: it is a plain name: a file of the working directory is not meant.
        TableNotFoundError: there is no table.
    """
    check_location(name)
    options, roots = dict(beside.storage_options), beside.allowed_roots
    return DeltaTable.open(name, options, allowed_roots=roots)


def check_location(name: str) -> None:
    """Refuse a plain name if a location is required.

    Raises:
        UnknownNameError: it is a plain name.
    """
    if not is_location(name):
        msg = f"There is no table called {name[:200]} here."
        remedy = (
            "Use its location, such as delta.`/data/lake/orders`. Rows of the program have "
            "the name given to them in sources."
        )
        raise UnknownNameError(msg, remedy, field="source.table")
