"""Transactions of several statements on one table: one commit with their net effect.

Each statement commits to a private log, so it runs as it would alone and reads what the earlier
ones wrote. Then one commit to the table's log holds the net effect. A file that was added and
removed in between is in no action. The reads of all statements are checked.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from engine.actions.codec import Action
from engine.actions.files import AddCDCFile, AddFile, FileKey, RemoveFile
from engine.actions.table import DomainMetadata, Metadata, Protocol
from engine.commands.command import Command
from engine.commands.names import is_location
from engine.commands.script import AtomicScript, step_table
from engine.conflicts.isolation import ROW_TRACKING_DOMAIN
from engine.errors import EngineError, RequestError
from engine.log.commits import LogCommit, read_commit
from engine.log.private_log import PrivateLog
from engine.operations.execution import Execution
from engine.operations.frame_sources import version_read_by
from engine.operations.named_tables import open_location
from engine.operations.result import OperationResult
from engine.operations.run_options import Resolve, RunOptions
from engine.operations.script import ScriptError, run_steps
from engine.operations.vacuum_plan import paths_of
from engine.protocol.features import has_feature
from engine.schema.types import parse_schema
from engine.snapshot.snapshot import Snapshot
from engine.spark.write.identity import HIGH_WATER_MARK
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
        RequestError: the statements change several tables, or the table's features need a commit
            for each of them.
        ConflictError: a concurrent commit won.
    """
    _check_one_table(command, execution)
    if execution.options.dry_run:
        return _plan(command, execution, run_statement)
    txn = execution.begin()
    base = execution.snapshot_of(txn)
    table = _PrivateTable(execution.table, base)
    net = NetEffect(base)
    options = _options_of_statement(execution.options, table)
    for number, step in enumerate(command.steps, 1):
        try:
            _run_step(step, table, options, run_statement)
            for commit in table.take_commits():
                execution.wrote_paths(net.note_files(commit))
                net.add(commit)
        except EngineError as error:
            raise ScriptError(number, (), error, _SEND_AGAIN) from error
    txn.read_like(table.transactions)
    actions = net.actions()
    txn.stage(*actions)
    parameters = {"statements": net.statements}
    metrics: dict[str, int | str] = {
        "numStatements": len(command.steps),
        "numAddedFiles": sum(isinstance(action, AddFile) for action in actions),
        "numRemovedFiles": sum(isinstance(action, RemoveFile) for action in actions),
    }
    result = execution.commit(txn, TRANSACTION.name, parameters, metrics)
    if result.version is not None and not result.recognized:
        execution.delete_files(net.list_superseded())
    return result


def _run_step(
    step: Command, table: "_PrivateTable", options: RunOptions, run_statement: RunStatement
) -> None:
    if version_read_by(step, table.uri) is not None:
        what = "A DataFrame of the transaction's own table reads it before the transaction began."
        raise RequestError(what, "Read the table by its name in the statement.", field="source")
    run_statement(step, table, options)


def _check_one_table(command: AtomicScript, execution: Execution) -> None:
    """Refuse a transaction that changes another table than the one it runs on.

    Raises:
        RequestError: names both tables.
    """
    own = execution.table.uri
    names = dict.fromkeys(step_table(step) for step in command.steps)
    callers = [name for name in names if name and not is_location(name)]
    for name in names:
        open_changed = execution.options.open_changed
        if is_location(name):
            is_own = is_same_place(name, own)
        elif name and open_changed is not None:
            is_own = is_same_place(open_changed(name).uri, own)
        else:
            is_own = not name or name == callers[0]  # the caller's name for the table
        if not is_own:
            what = (
                f"The transaction runs on {own}, and a statement changes {name}. "
                "Other engines read each table's log by itself, so a commit to two plain tables "
                "would be visible by halves."
            )
            remedy = "Use a transaction for each table."
            raise RequestError(what, remedy, field="steps")


def _plan(
    command: AtomicScript, execution: Execution, run_statement: RunStatement
) -> OperationResult:
    """Plan each statement as if it were the first."""

    def plan(_: int, step: Command) -> OperationResult:
        return run_statement(step, execution.table, execution.options)

    return run_steps(command, plan, [execution.table.uri] * len(command.steps))


def _options_of_statement(options: RunOptions, table: DeltaTable) -> RunOptions:
    """Return the options of a statement: what concerns the commit is left to the transaction."""
    return replace(
        options,
        txn_id=None,
        retries=0,
        observer=None,
        resolve=_resolve_once(options.resolve, table),
        open_changed=None,
        since_version=None,
        application=None,
        early_conflicts=False,
        then=lambda _: None,
    )


def _resolve_once(resolve: Resolve | None, table: DeltaTable) -> Resolve:
    """Return the function that opens other tables, each read at one version by all statements."""
    by_name: dict[str, DeltaTable] = {}
    pinned = [table]

    def open_pinned(name: str) -> DeltaTable:
        if name not in by_name:
            opened = open_location(name, table) if resolve is None else resolve(name)
            same = (table for table in pinned if is_same_place(table.uri, opened.uri))
            by_name[name] = next(same, None) or _PinnedTable(opened)
            pinned.append(by_name[name])
        return by_name[name]

    return open_pinned


@dataclass
class NetEffect:
    """The net effect of private commits on a version of a table.

    Attributes:
        base: the version that the transaction read.
        statements: the operation and the parameters of each commit.
        written: the files of the noted commits, also those that later ones replaced.
    """

    base: Snapshot
    statements: list[dict[str, object]] = field(default_factory=list)
    written: set[str] = field(default_factory=set)
    _added: dict[str, AddFile] = field(default_factory=dict)
    _removed: dict[FileKey, RemoveFile] = field(default_factory=dict)
    _terms: dict[object, Action] = field(default_factory=dict)
    _changes: list[AddCDCFile] = field(default_factory=list)

    def note_files(self, commit: LogCommit) -> set[str]:
        """Note the files of a private commit; return those that are new."""
        root = self.base.store.root
        named = [action for action in commit.actions if isinstance(action, AddFile | AddCDCFile)]
        paths = [action.path for action in named if isinstance(action, AddFile)]
        live = self.base.add_files(paths=paths) if paths else []
        in_base = {path for add in live for path in paths_of(root, add)}
        new = {path for action in named for path in paths_of(root, action)}
        new -= in_base | self.written
        self.written |= new
        return new

    def add(self, commit: LogCommit) -> None:
        """Apply one private commit.

        Raises:
            RequestError: its changes cannot be joined with those of earlier commits.
        """
        removes = [action for action in commit.actions if isinstance(action, RemoveFile)]
        adds = [action for action in commit.actions if isinstance(action, AddFile)]
        changes = [action for action in commit.actions if isinstance(action, AddCDCFile)]
        self._check_row_ids(removes, adds)
        for remove in removes:
            earlier = self._added.get(remove.path)
            if earlier is not None and earlier.key == remove.key:
                del self._added[remove.path]
            else:
                self._removed[remove.key] = remove
        self._added |= {add.path: add for add in adds}
        self._changes += changes
        self._terms |= {_subject(action): action for action in _iter_terms(commit.actions)}
        info = commit.commit_info
        operation = {"operation": info.operation if info else ""}
        self.statements.append(operation | dict((info and info.operation_parameters) or {}))
        self._check_change_feed()
        self._check_terms()

    def actions(self) -> tuple[Action, ...]:
        """Return the actions of the commit; new files get their row ids there."""
        kept = self._kept_paths
        adds = (add if add.path in kept else _forget_row_ids(add) for add in self._added.values())
        return *self._removed.values(), *adds, *self._changes, *self._terms.values()

    def list_superseded(self) -> set[str]:
        """Return the written files that the commit does not name."""
        root = self.base.store.root
        actions: list[AddFile | AddCDCFile] = [*self._added.values(), *self._changes]
        return self.written.difference(*(paths_of(root, action) for action in actions))

    @property
    def _kept_paths(self) -> set[str]:
        """The paths of the base that the commit removes, perhaps to add them with another vector."""
        return {path for path, _ in self._removed}

    def _check_row_ids(self, removes: Sequence[RemoveFile], adds: Sequence[AddFile]) -> None:
        """Refuse to rewrite rows whose ids exist in the private log alone."""
        own = {remove.path for remove in removes} & self._added.keys() - self._kept_paths
        only_takes = {add.path for add in adds} <= {remove.path for remove in removes}
        if own and not only_takes and has_feature(self.base.protocol, "rowTracking"):
            what = (
                "A statement of the transaction changes rows that an earlier one wrote. "
                f"{self.base.table_uri} tracks rows, and gives new ones their ids at the commit."
            )
            remedy = "Write these rows by one statement, or use two transactions."
            raise RequestError(what, remedy, field="steps")

    def _check_change_feed(self) -> None:
        if self._changes and len(self.statements) > 1:
            what = (
                f"{self.base.table_uri} has a change data feed, and change files cannot hold the "
                "net effect of several statements."
            )
            remedy = "Run the statements one by one, or use one MERGE."
            raise RequestError(what, remedy, field="steps")

    def _check_terms(self) -> None:
        for action in self._terms.values():
            changes_columns = isinstance(action, Metadata) and (
                _list_columns(action) != _list_columns(self.base.metadata)
            )
            if changes_columns or isinstance(action, Protocol):
                what = f"A statement of the transaction changes columns of {self.base.table_uri}."
                remedy = "Change the table before the transaction."
                raise RequestError(what, remedy, field="steps")


def _iter_terms(actions: Iterable[Action]) -> Iterator[Action]:
    """Yield the actions on the table as a whole; the commit numbers rows by itself."""
    for action in actions:
        if isinstance(action, DomainMetadata) and action.domain == ROW_TRACKING_DOMAIN:
            continue
        if isinstance(action, Metadata | Protocol | DomainMetadata):
            yield action


def _subject(action: Action) -> object:
    return action.domain if isinstance(action, DomainMetadata) else type(action)


def _list_columns(metadata: Metadata) -> list[object]:
    """Return the columns, without the marks of identity columns, which INSERT moves."""
    return [
        replace(column, metadata={**column.metadata, HIGH_WATER_MARK: None})
        for column in parse_schema(metadata.schema_string)
    ]


def _forget_row_ids(add: AddFile) -> AddFile:
    return msgspec.structs.replace(add, base_row_id=None, default_row_commit_version=None)


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
    """Another table; its latest version stays the one at which it was opened."""

    def __init__(self, table: DeltaTable) -> None:
        super().__init__(table, table.store, table.snapshot())

    def _latest(self) -> Snapshot:
        return self._newest or super()._latest()
