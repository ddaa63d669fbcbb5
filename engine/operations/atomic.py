"""Transactions of several statements: one commit with their net effect, to each table.

Each statement commits to a private log, so it runs as it would alone and reads what the earlier
ones wrote. Then one commit to the table's log holds the net effect. The reads of all statements
are checked.

Several tables need one catalog that manages them all, and ratifies their commits together. At
Serializable it ratifies them only if the tables that were read have not changed either.
"""

import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any

from engine.actions.files import AddFile, RemoveFile
from engine.catalog.catalog import CatalogTableName
from engine.catalog.group import CommitGroup, read_versions
from engine.catalog.managed_store import ManagedStore
from engine.commands.command import Command
from engine.commands.names import is_location
from engine.commands.script import AtomicScript, step_table
from engine.errors import EngineError, RequestError
from engine.log.commits import LogCommit, read_commit
from engine.log.private_log import PrivateLog
from engine.operations.execution import Execution
from engine.operations.frame_sources import version_read_by
from engine.operations.named_tables import open_location
from engine.operations.net_effect import NetEffect
from engine.operations.result import OperationResult
from engine.operations.run_options import Resolve, RunOptions
from engine.operations.script import ScriptError, run_steps
from engine.protocol.properties import IsolationLevel
from engine.snapshot.snapshot import Snapshot
from engine.storage.base import Store
from engine.storage.uri import is_same_place
from engine.table import DeltaTable
from engine.transaction.optimistic_transaction import OptimisticTransaction
from engine.vocabulary import TRANSACTION

RunStatement = Callable[[Command, DeltaTable, RunOptions], OperationResult]
"""Runs one statement on a table."""
_SEND_AGAIN = "Correct the statement, and send the transaction again."


def run_transaction(
    command: AtomicScript, execution: Execution, run_statement: RunStatement
) -> OperationResult:
    """Run the statements of a transaction and commit their net effect.

    Raises:
        ScriptError: a statement failed. Nothing was committed.
        RequestError: the statements change several tables that no one catalog manages, or a
            table's features need a commit for each of them.
        ConflictError: a concurrent commit won.
    """
    changed = _open_changed(command, execution)
    if execution.options.dry_run:
        return _plan(command, execution, run_statement, changed)
    with ExitStack() as stack:
        transaction = _begin(command, execution, changed, stack)
        for number, step in enumerate(command.steps, 1):
            try:
                transaction.run(step, changed[step_table(step)].uri, run_statement)
            except EngineError as error:
                raise ScriptError(number, (), error, _SEND_AGAIN) from error
        return transaction.commit()


def _open_changed(command: AtomicScript, execution: Execution) -> dict[str, DeltaTable]:
    """Open the tables that the statements change, by the names in the statements.

    Raises:
        RequestError: there are several, and no catalog manages them all.
    """
    tables = [execution.table]
    names = dict.fromkeys(step_table(step) for step in command.steps)
    callers = next((name for name in names if name and not is_location(name)), "")
    by_name: dict[str, DeltaTable] = {}
    for name in names:
        opened = _open_named(name, execution, callers)
        by_name[name] = next((one for one in tables if is_same_place(one.uri, opened.uri)), opened)
        if by_name[name] not in tables:
            _check_one_catalog(execution.table, opened)
            tables.append(opened)
    return by_name


def _open_named(name: str, execution: Execution, callers: str) -> DeltaTable:
    """Open a table by its name in a statement; `callers` may be any name for the caller's table."""
    own, opens = execution.table, execution.options.open_changed
    if not name or (is_location(name) and is_same_place(name, own.uri)):
        return own
    if is_location(name):
        return open_location(name, own)
    if opens is not None:
        return opens(name)
    if name == callers:
        return own
    raise _several_tables_error(own.uri, name)


def _check_one_catalog(own: DeltaTable, other: DeltaTable) -> None:
    store, second = own.store, other.store
    if not (
        isinstance(store, ManagedStore)
        and isinstance(second, ManagedStore)
        and store.catalog == second.catalog
    ):
        raise _several_tables_error(own.uri, other.uri)
    if not store.commits_groups:
        what = f"{store.catalog} cannot ratify a commit to {own.uri} and {other.uri} together."
        raise RequestError(what, "Use a transaction for each table.", field="steps")


def _several_tables_error(own: str, other: str) -> RequestError:
    what = (
        f"The transaction runs on {own}, and a statement changes {other}. "
        "Other engines read each table's log by itself, so readers could see one of the commits "
        "without the other."
    )
    remedy = "Use a transaction for each table, or tables that one catalog manages."
    return RequestError(what, remedy, field="steps")


def _plan(
    command: AtomicScript,
    execution: Execution,
    run_statement: RunStatement,
    changed: Mapping[str, DeltaTable],
) -> OperationResult:
    """Plan each statement as if it were the first."""
    tables = [changed[step_table(step)] for step in command.steps]

    def plan(number: int, step: Command) -> OperationResult:
        return run_statement(step, tables[number], execution.options)

    return run_steps(command, plan, [table.uri for table in tables])


@dataclass
class _ChangedTable:
    """One table that a transaction changes.

    `is_read_elsewhere` tells that a statement on another table reads it.
    """

    execution: Execution
    txn: OptimisticTransaction
    table: "_PrivateTable"
    net: NetEffect
    is_read_elsewhere: bool = False

    @classmethod
    def begin(cls, execution: Execution) -> "_ChangedTable":
        """Begin the transaction at a table."""
        txn = execution.begin()
        base = execution.snapshot_of(txn)
        return cls(execution, txn, _PrivateTable(execution.table, base), NetEffect(base))

    @property
    def is_serializable(self) -> bool:
        """Whether the table is set to Serializable."""
        return self.net.base.properties.isolation_level is IsolationLevel.SERIALIZABLE

    def take_commits(self) -> None:
        """Take the private commits of a statement into the net effect."""
        for commit in self.table.take_commits():
            self.execution.wrote_paths(self.net.note_files(commit))
            self.net.add(commit)

    def stage(self) -> None:
        """Stage the net effect, and count the reads of all statements."""
        self.txn.read_like(self.table.transactions)
        self.txn.stage(*self.net.actions())

    def commit(self) -> OperationResult:
        """Commit what is staged."""
        actions = self.net.actions()
        metrics: dict[str, int | str] = {
            "numStatements": self.net.step_count,
            "numAddedFiles": sum(isinstance(action, AddFile) for action in actions),
            "numRemovedFiles": sum(isinstance(action, RemoveFile) for action in actions),
            **self.net.count_rows(),
        }
        parameters = {"statements": self.net.statements}
        return self.execution.commit(self.txn, TRANSACTION.name, parameters, metrics)


class _Transaction:
    """A transaction at all its tables, as its statements see them.

    `read` are the tables that it only reads, each at one version. Without a group there is one
    member.
    """

    def __init__(
        self,
        members: Sequence[_ChangedTable],
        read: Sequence["_PinnedTable"],
        group: CommitGroup | None,
        options: RunOptions,
    ) -> None:
        self._members, self._read, self._group = members, list(read), group
        self._resolve, self._by_name = options.resolve, dict[str, DeltaTable]()
        self._options = _options_of_statement(options, self._open)
        self._current = members[0]

    def run(self, step: Command, uri: str, run_statement: RunStatement) -> None:
        """Run a statement on the table of a location."""
        self._current = next(one for one in self._members if one.table.uri == uri)
        self._current.net.step_count += 1
        _run_step(step, self._current.table, self._options, run_statement)
        self._current.take_commits()

    def commit(self) -> OperationResult:
        """Commit to every table, or to none."""
        for member in self._members:
            member.stage()
            if member.is_read_elsewhere and self._is_serializable:
                member.txn.read_serializably()
        results: dict[int, OperationResult] = {}

        def commit_member(place: int) -> bool:
            results[place] = self._members[place].commit()
            return results[place].recognized

        if self._group is None:
            commit_member(0)
        else:
            commits = [partial(commit_member, place) for place in range(len(self._members))]
            self._group.commit(commits, self._check_reads)
        for place, member in enumerate(self._members):
            if results[place].version is not None and not results[place].recognized:
                member.execution.delete_files(member.net.list_superseded())
        return _join_results(self._members, [results[place] for place in sorted(results)])

    @property
    def _is_serializable(self) -> bool:
        """Whether a changed table is set to Serializable: the reads of all tables are checked."""
        return any(member.is_serializable for member in self._members)

    def _check_reads(self) -> Mapping[CatalogTableName, int]:
        """Check the tables that were only read; at Serializable they must not have changed.

        Raises:
            ConflictError: one has changed.
        """
        checked: dict[CatalogTableName, int] = {}
        if self._is_serializable:
            for table in self._read:
                if isinstance(table.store, ManagedStore) and table.is_of_group:
                    txn = table.start_transaction()
                    txn.read_serializably()
                    checked[table.store.table.name] = txn.commit(TRANSACTION.name)
        return checked

    def _open(self, name: str) -> DeltaTable:
        """Open a table that a statement reads: as changed here, or at one version."""
        own = self._members[0].table
        if name not in self._by_name:
            opened = _open_read(name, own, self._resolve)
            tables = [*(member.table for member in self._members), *self._read]
            same = (table for table in tables if is_same_place(table.uri, opened.uri))
            self._by_name[name] = next(same, None) or self._pin(opened)
        table = self._by_name[name]
        for member in self._members:
            if member.table is table and member is not self._current:
                member.is_read_elsewhere = True
        return table

    def _pin(self, table: DeltaTable) -> "_PinnedTable":
        self._read.append(_PinnedTable(table))
        return self._read[-1]


def _begin(
    command: AtomicScript,
    execution: Execution,
    changed: Mapping[str, DeltaTable],
    stack: ExitStack,
) -> _Transaction:
    """Begin at all tables; those that one catalog manages are read at one moment."""
    tables = [execution.table]
    tables += [table for table in dict.fromkeys(changed.values()) if table is not tables[0]]
    read = _list_read(command, execution, tables)
    versions = _read_versions(tables, read)
    if execution.options.application is not None and len(tables) > 1:
        read_snapshots = [table.snapshot(versions[table.uri]) for table in tables]
        _check_application(read_snapshots, *execution.options.application)
    group = CommitGroup() if versions else None
    members: list[_ChangedTable] = []
    for table in tables:
        own = execution if not members else _begin_beside(members[0], table)
        if group is not None and isinstance(table.store, ManagedStore):
            store, own.read_version = group.join(table.store), versions[table.uri]
            own.table = _TableView(table, store, table.snapshot(own.read_version))
        if members:
            stack.enter_context(own.clean_up_on_failure())
        members.append(_ChangedTable.begin(own))
        members[-1].txn.tables = len(tables)
    pinned = [_PinnedTable(table, versions.get(table.uri)) for table in read]
    return _Transaction(members, pinned, group, execution.options)


def _check_application(read: Sequence[Snapshot], app_id: str, version: int) -> None:
    """Check that every table has the application's write, or that none has it.

    Raises:
        RequestError: only some have it. Neither skipping nor repeating it would be right for all.
    """
    written = [one.set_transactions.get(app_id) for one in read]
    has_it = [last is not None and last.version >= version for last in written]
    if any(has_it) and not all(has_it):
        there, missing = read[has_it.index(True)], read[has_it.index(False)]
        what = (
            f"The application {app_id} has written version {version} to {there.table_uri}, but "
            f"not to {missing.table_uri}."
        )
        remedy = "Write the missing part by itself, or give the transaction a later version."
        raise RequestError(what, remedy, field="application")


def _list_read(
    command: AtomicScript, execution: Execution, changed: Sequence[DeltaTable]
) -> list[DeltaTable]:
    """Open the tables that the statements only read."""
    read: list[DeltaTable] = []
    for name in command.other_tables_read():
        opened = _open_read(name, execution.table, execution.options.resolve)
        if not any(is_same_place(opened.uri, table.uri) for table in (*changed, *read)):
            read.append(opened)
    return read


def _read_versions(changed: Sequence[DeltaTable], read: Sequence[DeltaTable]) -> dict[str, int]:
    """Return the versions of managed tables at one moment, by location; {} if none need that."""
    own = changed[0].store
    if not isinstance(own, ManagedStore):
        return {}
    stores = [table.store for table in (*changed, *read)]
    managed = [s for s in stores if isinstance(s, ManagedStore) and s.catalog == own.catalog]
    if len(managed) == 1 or (len(changed) == 1 and not own.commits_groups):
        return {}
    return dict(zip((store.root for store in managed), read_versions(managed), strict=True))


def _begin_beside(first: _ChangedTable, table: DeltaTable) -> Execution:
    """Return the execution at another table of the transaction, under the same id."""
    given = first.execution.options
    observer = given.observer and given.observer.observer_at(table.uri)
    options = replace(given, txn_id=first.txn.txn_id, observer=observer)
    return replace(
        first.execution, table=table, options=options, run_id=str(uuid.uuid4()), _fresh=[]
    )


def _open_read(name: str, own: DeltaTable, resolve: Resolve | None) -> DeltaTable:
    return open_location(name, own) if resolve is None else resolve(name)


def _join_results(
    members: Sequence[_ChangedTable], results: Sequence[OperationResult]
) -> OperationResult:
    """Return the result at the first table, with what concerns all."""
    if len(results) == 1:
        return results[0]
    done = " and ".join(
        f"version {result.version} of {member.table.uri}"
        for member, result in zip(members, results, strict=True)
    )
    return replace(
        results[0],
        resolved=tuple(resolution for result in results for resolution in result.resolved),
        attempts=max(result.attempts for result in results),
        message=f"Committed {done}.",
    )


def _run_step(
    step: Command, table: "_PrivateTable", options: RunOptions, run_statement: RunStatement
) -> None:
    if version_read_by(step, table.uri) is not None:
        what = "A DataFrame of the transaction's own table reads it before the transaction began."
        raise RequestError(what, "Read the table by its name in the statement.", field="source")
    run_statement(step, table, options)


def _options_of_statement(options: RunOptions, resolve: Resolve) -> RunOptions:
    """Return the options of a statement: what concerns the commit is left to the transaction."""
    return replace(
        options,
        txn_id=None,
        retries=0,
        observer=None,
        resolve=resolve,
        open_changed=None,
        since_version=None,
        application=None,
        early_conflicts=False,
        then=lambda _: None,
    )


class _StatementTransaction(OptimisticTransaction):
    """The transaction of one statement; its version is private, so nothing is due after it."""

    def follow_commit(self, version: int) -> None:
        """Do nothing."""


class _TableView(DeltaTable):
    """A table with the options of another handle, from a store and a snapshot."""

    def __init__(self, table: DeltaTable, store: Store, snapshot: Snapshot) -> None:
        super().__init__(
            store,
            allowed_roots=table.allowed_roots,
            clock=table.clock,
            snapshot=snapshot,
            storage_options=table.storage_options,
            limits=table.limits,
        )


class _PrivateTable(_TableView):
    """A table as a transaction sees it: the version it read, with its statements' changes.

    `transactions` are those of its statements, with their reads.
    """

    transaction_type = _StatementTransaction

    def __init__(self, table: DeltaTable, base: Snapshot) -> None:
        log = PrivateLog(table.store, base.version, table.clock)
        super().__init__(table, log, Snapshot(log, base.state, base.allowed_roots))
        self.transactions: list[OptimisticTransaction] = []
        self._taken = base.version

    def snapshot(
        self, version: int | None = None, timestamp: datetime | int | str | None = None
    ) -> Snapshot:
        """Return the table with the changes so far.

        Raises:
            RequestError: a statement asks for an earlier version.
        """
        if version is not None or timestamp is not None:
            what = f"A transaction that changes {self.uri} cannot read an earlier version of it."
            raise RequestError(what, "Read that version outside the transaction.", field="steps")
        return super().snapshot()

    def start_transaction(self, **options: Any) -> OptimisticTransaction:  # noqa: ANN401 - as given
        """Start the transaction of one statement."""
        txn = super().start_transaction(**options)
        self.transactions.append(txn)
        return txn

    def take_commits(self) -> list[LogCommit]:
        """Return the private commits since the last call."""
        first, self._taken = self._taken + 1, self.version()
        return [read_commit(self.store, version) for version in range(first, self._taken + 1)]


class _PinnedTable(_TableView):
    """Another table; its latest version stays the given one, or that at which it was opened.

    `is_of_group` tells that the catalog of the changed tables gave the version.
    """

    def __init__(self, table: DeltaTable, version: int | None = None) -> None:
        super().__init__(table, table.store, table.snapshot(version))
        self.is_of_group = version is not None

    def _latest(self) -> Snapshot:
        return self._newest or super()._latest()
