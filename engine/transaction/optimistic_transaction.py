"""One transaction of one table: read a version, stage actions, commit them or be aborted.

For example:

    txn = table.start_transaction()
    files = txn.read_where("date = '2026-11-02'")
    txn.stage(remove, add)
    version = txn.commit("DELETE")

Early checks of winning commits tell a transaction that is certain to be aborted, so it can stop.
"""

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import pyarrow as pa

from engine.actions.codec import Action
from engine.clock import Clock, SystemClock
from engine.conflicts.decide.checker import CHECKS, FILE_RULES, find_conflict
from engine.conflicts.decide.rebase import PendingVectors
from engine.conflicts.decide.row_access import Budget
from engine.conflicts.overlap import Overlap
from engine.conflicts.reads import read_predicate
from engine.conflicts.transaction_info import CurrentTransaction, WinningCommit
from engine.errors import ConflictError, GroupRefusedError, RequestError
from engine.expressions.parse import parse_condition
from engine.expressions.traits import has_subquery
from engine.expressions.tree import Expression
from engine.log.management import check_permitted, check_terms
from engine.snapshot.data_files import count_rows
from engine.snapshot.post_commit import run_post_commit
from engine.snapshot.snapshot import Snapshot
from engine.storage.base import Store
from engine.transaction.committer import Committer
from engine.transaction.log_tail import is_own, iter_newer
from engine.transaction.observer import NO_OBSERVER, TransactionObserver, tell_committed
from engine.transaction.pending_commit import (
    DEFAULT_LIMITS,
    CommitLimits,
    CommitOutcome,
    PendingCommit,
    Provenance,
)
from engine.transaction.prepare import ReadSet, prepare_commit
from engine.transaction.snapshot_rows import (
    RowMatcher,
    RowTester,
    SnapshotRowResolver,
    SnapshotRows,
)
from engine.transaction.staged_files import StagedFileCheck, make_staged_durable
from engine.transaction.validation import Resolution, RowResolver, validate

_OF_THE_TABLE = tuple(check for check in CHECKS if check.rule not in FILE_RULES)


class _UndecidedError(Exception):
    """Rows were not compared to the end. Later there may be the time for it."""


@dataclass(frozen=True, slots=True)
class _DecidedResolver:
    """Resolves like the commit, except that a spent budget or a failed read is no conflict."""

    rows: RowResolver

    def resolve(self, overlap: Overlap, pending: PendingVectors) -> Resolution:
        resolution = self.rows.resolve(overlap, pending)
        if resolution.settled.evidence.is_partial:
            raise _UndecidedError
        return resolution

    def write_vectors(self, pending_commit: PendingCommit) -> PendingCommit:
        return self.rows.write_vectors(pending_commit)


def find_early_conflict(
    store: Store, pending_commit: PendingCommit, rows: RowResolver | None
) -> ConflictError | None:
    """Return the first certain conflict with a winning commit so far, or None.

    A transaction already in the log has none. While nothing is staged, the check stops at the first
    winning commit that touched files: it may become a conflict.

    Raises:
        EngineError: the log is unreadable.
    """
    decided = None if rows is None else _DecidedResolver(rows)
    for commit in iter_newer(store, pending_commit.validated_version):
        if is_own(commit, pending_commit.provenance.txn_id):
            return None
        winner = WinningCommit.from_commit(commit)
        if not pending_commit.staged:
            overlap = Overlap(pending_commit.current, winner, attempted_version=winner.version)
            conflict = find_conflict(overlap, _OF_THE_TABLE)
            if conflict is not None or winner.adds or winner.removes:
                return conflict
            continue
        try:
            pending_commit = validate(pending_commit, winner, decided)
        except ConflictError as conflict:
            return conflict
        except _UndecidedError:
            return None
    return None


class TableHandle(Protocol):
    """The parts of a table a transaction needs."""

    @property
    def uri(self) -> str:
        """The table's location, as people know it."""
        ...

    @property
    def store(self) -> Store:
        """The table's log and files."""
        ...


class OptimisticTransaction:
    """A conversation with one table: reads and staged actions gather until `commit` ends it.

    `snapshot` is the version it reads, None if it creates the table. Reads always see this version,
    however late they come. `tables` are the tables to which it commits together.
    """

    def __init__(
        self,
        table: TableHandle,
        snapshot: Snapshot | None,
        *,
        txn_id: str | None = None,
        observer: TransactionObserver | None = None,
        clock: Clock | None = None,
        limits: CommitLimits = DEFAULT_LIMITS,
    ) -> None:
        self.table, self.snapshot = table, snapshot
        self.txn_id = txn_id or str(uuid.uuid4())
        self.outcome: CommitOutcome | None = None
        self.operation = ""
        self.tables = 1
        self.limits = limits
        self._observer = observer or NO_OBSERVER
        self._clock = clock or SystemClock()
        self._reads = ReadSet()
        self._actions: list[Action] = []
        self._observer.started(self)

    @property
    def read_version(self) -> int:
        """The version it reads, -1 if it creates the table."""
        return -1 if self.snapshot is None else self.snapshot.version

    @property
    def actions(self) -> tuple[Action, ...]:
        """The actions staged so far."""
        return tuple(self._actions)

    @property
    def has_read(self) -> bool:
        """Whether it has read data of the table so far."""
        return not self._reads.is_empty

    def read_where(
        self,
        condition: str | Expression | None = None,
        *,
        every_match_changes: bool = False,
        reads_itself: bool = True,
    ) -> pa.Table:
        """Read the rows a condition selects: the files that may hold them, as `Snapshot.files`.

        Every file returned counts as read, and so does every row that ever matches the condition,
        even if no file is returned. None or an empty text means every row.

        Args:
            condition: SQL text, or its tree.
            every_match_changes: the promise that this transaction changes every row the condition
                matches, as DELETE and UPDATE do. Then rows a winning commit removed and this one
                did not change were certainly not read.
            reads_itself: whether a subquery of the condition may read this table: then the whole
                table is read. False is the promise that none does.

        Raises:
            ExpressionError: the condition does not parse, or is not allowed.
        """
        snapshot = self._require_snapshot()
        tree = self._parse_condition(condition)
        read = read_predicate(tree, every_match_changes=every_match_changes)
        if reads_itself and tree is not None and has_subquery(tree):
            self._reads.whole_table = True
        files = snapshot.files(read.condition)
        self._reads.predicates.append(read)
        self._reads.files.update(map(str, files.column("path").to_pylist()))
        return files

    def read_whole_table(self) -> None:
        """Read everything: any added or removed file is then a conflict."""
        self._require_snapshot()
        self._reads.whole_table = True

    def read_serializably(self) -> None:
        """Read everything, at Serializable: blind appends conflict even if nothing is staged."""
        self.read_whole_table()
        self._reads.serializably = True

    def read_earlier(self) -> None:
        """Register a read of everything before the transaction began, not repeated on a retry."""
        self.read_whole_table()
        self._reads.source_is_fixed = True

    def read_like(self, others: "Sequence[OptimisticTransaction]") -> None:
        """Count the reads of other transactions as reads of this one, which commits for them.

        Rows that a MERGE joins are known for that MERGE alone: if there are more transactions, the
        conditions decide about its rows.
        """
        self._require_snapshot()
        for reads in (other._reads for other in others):
            self._reads.predicates += reads.predicates
            self._reads.files |= reads.files
            self._reads.entirely |= reads.entirely
            self._reads.app_ids |= reads.app_ids
            self._reads.whole_table |= reads.whole_table
            self._reads.source_is_fixed |= reads.source_is_fixed
            self._reads.obstacle = self._reads.obstacle or reads.obstacle
            self._reads.tester = self._reads.tester or reads.tester
            self._reads.matcher = reads.matcher if len(others) == 1 else None

    def read_files(self, paths: Iterable[str]) -> None:
        """Read particular files, by their paths in the log."""
        self._require_snapshot()
        self._reads.entirely.update(paths)

    def observe(self, observer: TransactionObserver) -> None:
        """Add an observer for the following phases."""
        self._observer = observer

    def match_rows_with(self, matcher: RowMatcher) -> None:
        """Set the matcher for the target rows a MERGE reads beyond its conditions."""
        self._reads.matcher = matcher

    def test_rows_with(self, tester: RowTester) -> None:
        """Set the evaluator for conditions Arrow cannot evaluate."""
        self._reads.tester = tester

    def use_files_alone(self, reason: str) -> None:
        """Disable row-level resolution for this command, with the reason."""
        self._reads.obstacle = self._reads.obstacle or reason

    def read_application(self, app_id: str) -> int | None:
        """Return the last version an application committed; its progress counts as read."""
        self._reads.app_ids.add(app_id)
        transaction = self.snapshot.set_transactions.get(app_id) if self.snapshot else None
        return None if transaction is None else transaction.version

    def find_early_conflict(
        self, operation: str, user_name: str | None = None
    ) -> ConflictError | None:
        """Return the conflict its commit is already certain to end with, if any.

        Later reads and staged actions can only add conflicts. While nothing is staged, files decide
        nothing: possibly no row matches.

        Raises:
            EngineError: the log, or a staged file, is unreadable now.
        """
        self._open()
        pending_commit = prepare_commit(
            self.table.uri,
            self.snapshot,
            self._reads,
            tuple(self._actions),
            Provenance(operation, self.txn_id, user_name=user_name),
        )
        rows = self._row_resolver(pending_commit.current)
        return find_early_conflict(self.table.store, pending_commit, rows)

    def end_early(self, operation: str, conflict: ConflictError) -> None:
        """Give up before the commit, notifying the observer as if the commit had failed."""
        self._open()
        self.operation = operation
        self._observer.failed(self, conflict)

    def stage(self, *actions: Action) -> None:
        """Add actions to the commit. Nothing is written before `commit`."""
        self._open()
        self._actions.extend(actions)

    def commit(
        self,
        operation: str,
        parameters: Mapping[str, Any] | None = None,
        metrics: Mapping[str, Any] | None = None,
        *,
        user_metadata: str | None = None,
        user_name: str | None = None,
        even_if_empty: bool = False,
    ) -> int:
        """Validate against every winning commit and commit the version; `outcome` has the details.

        If nothing is staged, nothing is written, and the version returned is the one the reads were
        validated against; `even_if_empty` forces the commit.

        Raises:
            ConflictError: a winning commit made it unserializable.
            RequestError: the staged actions are not valid as one commit.
            StagedFilesGoneError: added files have been deleted meanwhile.
            VacuumUnderWayError: an unfinished VACUUM may be deleting them.
            CatalogOperationError: the table's catalog does not permit the operation.
            CommitOutcomeUnknownError: the store did not report whether it landed.
        """
        self._open()
        self.operation = operation
        provenance = Provenance(
            operation,
            self.txn_id,
            parameters or {},
            metrics or {},
            user_metadata,
            user_name,
            even_if_empty,
            self.tables,
        )
        try:
            self.outcome = self._commit(provenance)
        except GroupRefusedError:
            raise  # this table's commit is tried again
        except Exception as error:
            self._observer.failed(self, error)
            raise
        if self.outcome.committed:
            tell_committed(self._observer, self, self.outcome.version)
            self.follow_commit(self.outcome.version)
        return self.outcome.version

    def follow_commit(self, version: int) -> None:
        """Run the maintenance due after a commit: checkpoints, checksums, log cleanup."""
        run_post_commit(self.table.store, version, self.snapshot, self._clock.now_ms())

    def _commit(self, provenance: Provenance) -> CommitOutcome:
        pending_commit = prepare_commit(
            self.table.uri, self.snapshot, self._reads, self._actions, provenance
        )
        store, current = self.table.store, pending_commit.current
        before, after = pending_commit.before, pending_commit.after
        earlier = before.metadata.configuration if before else None
        check_terms(store, after.protocol, after.metadata.configuration, earlier)
        check_permitted(store, provenance.operation)
        make_staged_durable(store, current.actions, current.read_entirely)
        self._observer.staged(self)
        rows = self._row_resolver(pending_commit.current)
        read = self.snapshot.state if self.snapshot else None
        count = self.snapshot.file_count if self.snapshot else 0
        files = StagedFileCheck(store, self._clock, current.read_entirely, count)
        roots = self.snapshot.allowed_roots if self.snapshot else ()
        count_of = partial(count_rows, store, allowed_roots=roots)
        committer = Committer(
            store, self._clock, self._observer, self.limits, files, rows, read, count_of
        )
        return committer.commit(self, pending_commit)

    def _row_resolver(self, staged: CurrentTransaction) -> SnapshotRowResolver | None:
        if self.snapshot is None:
            return None
        budget = Budget(self._clock, self.limits.row_budget_s)
        rows = SnapshotRows(self.snapshot, budget, self._reads.matcher, self._reads.tester)
        prefix_length = self.snapshot.properties.file_prefix_length
        return SnapshotRowResolver(
            self.table.store, staged, rows, budget, self._clock, prefix_length
        )

    def _parse_condition(self, condition: str | Expression | None) -> Expression | None:
        if not isinstance(condition, str):
            return condition
        return (
            parse_condition(condition, self._require_snapshot().schema)
            if condition.strip()
            else None
        )

    def _require_snapshot(self) -> Snapshot:
        self._open()
        if self.snapshot is None:
            what = f"{self.table.uri} is being created, so there is nothing to read."
            raise RequestError(what, "Commit version 0 first.")
        return self.snapshot

    def _open(self) -> None:
        if self.outcome is not None:
            what = f"This transaction has already committed version {self.outcome.version}."
            raise RequestError(what, "Start a new transaction.")
