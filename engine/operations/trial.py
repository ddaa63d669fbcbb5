"""Trial of an aborted write under a change, on a copy.

The version read by the write is copied into memory as far as needed, the change is applied there,
and the write runs again with the real operations, transaction and checks. Once everything is
staged, its overlapping commits land. The table itself is not touched. Writes that need Spark cannot
be tried.
"""

import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial

import msgspec

from engine.actions.codec import Action, encode
from engine.actions.commit_info import CommitInfo
from engine.actions.files import AddFile
from engine.clock import Clock, SystemClock
from engine.commands.command import Command
from engine.commands.model import Append, Delete, SetProperties, Update
from engine.commands.names import is_location
from engine.conflict_facts import TrialChange, TrialOutcome, Verdict
from engine.conflicts.eligibility import ROW_TRACKING_PROPERTY
from engine.conflicts.transaction_info import WinningCommit
from engine.deletion_vectors.files import locate
from engine.errors import (
    ConflictError,
    DataFileError,
    EngineError,
    FileMissingError,
    OperationCancelledError,
)
from engine.expressions.parse import parse_condition
from engine.log.commits import LogCommit, read_commit
from engine.log.paths import commit_path
from engine.operations.result import OperationResult
from engine.operations.run import run
from engine.operations.run_options import NeedsSparkError, Resolve, RunOptions
from engine.snapshot.snapshot import Snapshot
from engine.spark.jobs import Progress
from engine.storage.memory import MemoryStore
from engine.storage.uri import resolve_log_path
from engine.table import DeltaTable
from engine.transaction.observer import ObservedTransaction, TransactionObserver

MOST_FILES, MOST_COMMITS = 10_000, 50
_OF_ITS_HISTORY = (
    "delta.inCommitTimestampEnablementVersion",
    "delta.inCommitTimestampEnablementTimestamp",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedWrite:
    """An aborted write: its command, its read version, and its overlapping commits.

    `winners` are the versions after the read version, in order, each with its command if known.
    """

    table: DeltaTable
    command: Command
    read_version: int
    winners: Mapping[int, Command | None]


@dataclass(frozen=True, slots=True)
class TrialLimits:
    """The limits: bytes of the table to copy, and a deadline by the monotonic clock."""

    copied_bytes: int
    until_s: float
    clock: Clock = field(default_factory=SystemClock)
    resolve: Resolve | None = None


def try_write(write: RecordedWrite, change: TrialChange, limits: TrialLimits) -> TrialOutcome:
    """Have the write run again on a copy, with a change."""
    try:
        with _memory() as store:
            return _Trial(write, change, limits, store).run()
    except CannotTryError as error:
        return TrialOutcome(
            verdict=Verdict.UNDECIDABLE, why=str(error), needs_spark=error.needs_spark
        )
    except (FileMissingError, DataFileError):
        return _cannot("files or versions that it needs no longer exist")
    except OperationCancelledError:
        return _cannot("it takes longer than the time limit of a trial")
    except EngineError as error:
        return _cannot(error.what or str(error))


class CannotTryError(Exception):
    """The write cannot be tried, for this reason."""

    def __init__(self, why: str, *, needs_spark: bool = False) -> None:
        super().__init__(why)
        self.needs_spark = needs_spark


def _cannot(why: str) -> TrialOutcome:
    return TrialOutcome(verdict=Verdict.UNDECIDABLE, why=why)


@contextmanager
def _memory() -> Iterator[MemoryStore]:
    store = MemoryStore(f"memory://trial-{uuid.uuid4().hex}")
    try:
        yield store
    finally:
        for status in list(store.list_all()):
            store.delete(status.path)


class _Trial:
    """One write on one copy. `_base` is the version of the copy read by the write."""

    def __init__(
        self, write: RecordedWrite, change: TrialChange, limits: TrialLimits, store: MemoryStore
    ) -> None:
        self._write, self._change, self._limits, self._store = write, change, limits, store
        self._source = write.table.store
        self._base = 0

    def run(self) -> TrialOutcome:
        winners = self._winners()
        command = _narrow_command(self._write.command, self._change.condition)
        self._copy(winners, command)
        if self._change.properties:
            self._run(SetProperties(table="", properties=dict(self._change.properties)))
        self._base = self._table().version()
        land = partial(self._land, winners)
        if self._change.after_winners:
            land()
        observer = None if self._change.after_winners else _Landing(land)
        try:
            result = self._run(command, observer)
        except ConflictError as conflict:
            return self._record_abort(conflict)
        return _record_pass(result)

    def _winners(self) -> list[LogCommit]:
        if len(self._write.winners) > MOST_COMMITS:
            msg = f"it overlapped with more than {MOST_COMMITS} commits"
            raise CannotTryError(msg)
        commits = [read_commit(self._source, version) for version in self._write.winners]
        if self._change.winners_again:
            for commit in commits:
                self._check_again(commit)
        return commits

    def _check_again(self, commit: LogCommit) -> None:
        if (
            ROW_TRACKING_PROPERTY in self._change.properties
            and not WinningCommit.from_commit(commit).changes_data
        ):
            msg = (
                f"the {commit.operation or 'commit'} of v{commit.version} needs Spark to run again"
            )
            raise CannotTryError(msg, needs_spark=True)
        if _writes_otherwise(commit) and self._write.winners[commit.version] is None:
            msg = (
                f"the {commit.operation or 'commit'} of v{commit.version} would also have "
                "written other files, and its complete statement is not recorded here"
            )
            raise CannotTryError(msg)

    def _copy(self, winners: Sequence[LogCommit], command: Command) -> None:
        """Copy the read version as version 0, with the files opened by any of the writes."""
        snapshot = self._write.table.snapshot(version=self._write.read_version)
        if self._change.condition:  # without subqueries: its author may lack rights on other tables
            parse_condition(self._change.condition, snapshot.schema)
        if snapshot.file_count > MOST_FILES:
            msg = (
                f"the table had {snapshot.file_count:,} files; a trial copies at most "
                f"{MOST_FILES:,}"
            )
            raise CannotTryError(msg)
        again = self._write.winners.values() if self._change.winners_again else ()
        commands = [command, *(other for other in again if other is not None)]
        added = [action for commit in winners for action in commit.actions]
        adds = [*self._list_opened_files(snapshot, commands), *_files(added)]
        paths = dict.fromkeys(path for add in adds for path in self._paths(add))
        size = sum(add.size for add in {add.path: add for add in adds}.values())
        if size > self._limits.copied_bytes:
            msg = (
                f"{size:,} bytes would be read; a trial copies at most "
                f"{self._limits.copied_bytes:,}"
            )
            raise CannotTryError(msg)
        for path in paths:
            self._check_time()
            self._store.put(path, self._source.read(path))
        self._put(0, _first_commit(snapshot))

    def _list_opened_files(self, snapshot: Snapshot, commands: Iterable[Command]) -> list[AddFile]:
        if self._change.properties:  # every file may need row ids
            return snapshot.add_files()
        now_ms = self._limits.clock.now_ms()
        opened: dict[str, AddFile] = {}
        for command in commands:
            if isinstance(command, Append):
                continue
            where = None
            if isinstance(command, Delete | Update):
                where = command.condition(snapshot.schema, now_ms=now_ms)
            opened |= {add.path: add for add in snapshot.add_files(where)}
        return list(opened.values())

    def _paths(self, add: AddFile) -> Iterator[str]:
        """Yield the paths of a file and its deletion vector below the table."""
        root = self._source.root
        places = [resolve_log_path(root, add.path, self._write.table.allowed_roots)]
        vector = add.deletion_vector
        if vector is not None and vector.storage_type != "i":
            places.append(locate(root, vector, self._write.table.allowed_roots))
        yield from (place.path for place in places if place.inside)

    def _land(self, winners: Sequence[LogCommit]) -> None:
        """Commit the other writes in order: as recorded, or by running their commands."""
        for commit in winners:
            self._check_time()
            command = self._write.winners[commit.version]
            if self._change.winners_again and command is not None and _writes_otherwise(commit):
                self._run(command)
            else:
                self._put(self._table().version() + 1, self._iter_moved_actions(commit))

    def _iter_moved_actions(self, commit: LogCommit) -> Iterator[Action]:
        """Yield the actions of a recorded commit, adapted to another version."""
        for action in commit.actions:
            if isinstance(action, CommitInfo) and action.read_version is not None:
                read = action.read_version - self._write.read_version + self._base
                yield msgspec.structs.replace(action, read_version=max(read, 0))
            else:
                yield action

    def _run(
        self, command: Command, observer: TransactionObserver | None = None
    ) -> OperationResult:
        options = RunOptions(
            observer=observer,
            progress=self._heed,
            in_process_bytes=self._limits.copied_bytes,
            early_conflicts=False,
            resolve=self._resolve,
            then=_nothing_follows,
        )
        try:
            name = "" if is_location(command.table) else command.table
            return run(replace(command, table=name), self._table(), None, options)
        except NeedsSparkError as error:
            msg = f"{command.kind.upper()} needs Spark here, and trials run without Spark"
            raise CannotTryError(msg, needs_spark=True) from error

    def _table(self) -> DeltaTable:
        return DeltaTable(self._store, allowed_roots=self._write.table.allowed_roots)

    def _resolve(self, name: str) -> DeltaTable:
        """Open a table named by a statement: the copy for the tried table, else the current one."""
        if self._limits.resolve is None:
            msg = "it reads other tables"
            raise CannotTryError(msg)
        named = self._limits.resolve(name)
        return self._table() if named.uri == self._source.root else named

    def _put(self, version: int, actions: Iterable[Action]) -> None:
        text = "".join(f"{encode(action)}\n" for action in actions)
        self._store.put_if_absent(commit_path(version), text.encode())

    def _heed(self, _progress: Progress) -> None:
        self._check_time()

    def _check_time(self) -> None:
        if self._limits.clock.monotonic_s() > self._limits.until_s:
            msg = "The trial took too long."
            raise OperationCancelledError(msg)

    def _record_abort(self, conflict: ConflictError) -> TrialOutcome:
        facts = conflict.conflict
        version = facts.winner.version
        own = None if version is None else version - self._base + self._write.read_version
        return TrialOutcome(
            verdict=Verdict.CONFLICT, why=facts.what, rule=facts.rule, winning_version=own
        )


class _Landing(TransactionObserver):
    """Has the other commits land once the write has staged everything."""

    def __init__(self, land: partial[None]) -> None:
        self._land: partial[None] | None = land

    def staged(self, txn: ObservedTransaction) -> None:  # noqa: ARG002 - part of the protocol
        """Commit the other writes once; a repeated attempt does not overlap with them again."""
        land, self._land = self._land, None
        if land is not None:
            land()


def _record_pass(result: OperationResult) -> TrialOutcome:
    if result.version is None:
        return TrialOutcome(
            verdict=Verdict.PASSES, why=result.message or "no row was left to change"
        )
    if result.resolved:
        whys = dict.fromkeys(resolved.how for resolved in result.resolved)
        return TrialOutcome(
            verdict=Verdict.RESOLVED, why="; ".join(whys), metrics=dict(result.metrics)
        )
    return TrialOutcome(
        verdict=Verdict.PASSES, why="no check finds a conflict", metrics=dict(result.metrics)
    )


def _narrow_command(command: Command, condition: str) -> Command:
    if not condition:
        return command
    if not isinstance(command, Delete | Update) or not isinstance(command.where, str | None):
        msg = f"a trial cannot add a condition to this {command.label}"
        raise CannotTryError(msg)
    where = f"({command.where}) AND ({condition})" if command.where else condition
    return replace(command, where=where)


def _first_commit(snapshot: Snapshot) -> Iterator[Action]:
    """Yield a version of a table as the first version of another log."""
    configuration = {
        key: value
        for key, value in snapshot.metadata.configuration.items()
        if key not in _OF_ITS_HISTORY
    }
    yield CommitInfo(
        timestamp=snapshot.timestamp_ms,
        in_commit_timestamp=snapshot.timestamp_ms,
        operation="CLONE",
    )
    yield snapshot.protocol
    yield msgspec.structs.replace(snapshot.metadata, configuration=configuration)
    yield from snapshot.domains.values()
    yield from snapshot.set_transactions.values()
    yield from snapshot.add_files()


def _files(actions: Iterable[Action]) -> Iterator[AddFile]:
    return (action for action in actions if isinstance(action, AddFile))


def _writes_otherwise(commit: LogCommit) -> bool:
    """Return whether a commit's files depend on the state of the table."""
    winner = WinningCommit.from_commit(commit)
    return winner.changes_data and not winner.is_blind_append


def _nothing_follows(_command: object) -> None:
    """Skip the compaction after a write."""
