"""One transaction of one table: read a version, stage actions, commit them or lose.

txn = table.start_transaction()
files = txn.read_where("date = '2026-11-02'")
txn.stage(remove, add)
version = txn.commit("DELETE")
"""

import uuid
from collections.abc import Iterable, Mapping
from typing import Any, Protocol

import pyarrow as pa

from engine.actions.codec import Action
from engine.clock import Clock, SystemClock
from engine.conflicts.budget import Budget
from engine.conflicts.eligibility import table_eligibility
from engine.conflicts.isolation import IsolationLevel, level_used
from engine.conflicts.reads import read_predicate
from engine.conflicts.transaction_info import CurrentTransaction, ReadPredicate, RowScope
from engine.errors import RequestError
from engine.expressions.parse import parse_condition
from engine.expressions.tree import Expression
from engine.protocol.properties import TableProperties
from engine.schema.types import parse_schema
from engine.snapshot.snapshot import Snapshot
from engine.snapshot.upkeep import after_commit
from engine.storage.base import Store
from engine.transaction.committer import Committer
from engine.transaction.contender import Contender, high_water_mark
from engine.transaction.durability import make_staged_durable
from engine.transaction.observer import NO_OBSERVER, TransactionObserver
from engine.transaction.outcome import DEFAULT_LIMITS, CommitLimits, CommitOutcome
from engine.transaction.provenance import Provenance
from engine.transaction.readded import find_readded, read_by_staging, with_known_identity
from engine.transaction.row_resolver import SnapshotRowResolver
from engine.transaction.snapshot_rows import RowMatcher, RowTester, SnapshotRows
from engine.transaction.staging import TableTerms, check_staged


class TableHandle(Protocol):
    """What a transaction asks of its table."""

    @property
    def uri(self) -> str:
        """How people know the table."""
        ...

    @property
    def store(self) -> Store:
        """The table's log and files."""
        ...


class OptimisticTransaction:
    """A conversation with one table: reads and staged actions gather until `commit` ends it.

    `snapshot` is the version it reads, None where it creates the table. Reads always see that
    version, however late they come.
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
        self.limits = limits
        self._observer = observer or NO_OBSERVER
        self._clock = clock or SystemClock()
        self._reads: list[ReadPredicate] = []
        self._read_files: set[str] = set()
        self._read_entirely: set[str] = set()
        self._read_whole_table = False
        self._read_app_ids: set[str] = set()
        self._actions: list[Action] = []
        self._matcher: RowMatcher | None = None
        self._tester: RowTester | None = None
        self._obstacle: str | None = None
        self._observer.started(self)

    @property
    def read_version(self) -> int:
        """The version it reads, -1 where it creates the table."""
        return -1 if self.snapshot is None else self.snapshot.version

    @property
    def actions(self) -> tuple[Action, ...]:
        """What is staged so far."""
        return tuple(self._actions)

    def read_where(
        self, condition: str | Expression | None = None, *, every_match_changes: bool = False
    ) -> pa.Table:
        """Read the rows that a condition selects: the files that may hold them, as `Snapshot.files`.

        Every file returned counts as read, and so does every row that ever matches the condition,
        even where no file is returned. None or an empty text is every row. Name no subquery of this
        table in it: such a read is `read_whole_table`.

        Args:
            condition: SQL text, or its tree.
            every_match_changes: the promise that this transaction changes every row the condition
                matches, as DELETE and UPDATE do. Then rows that a winner removed and this one did
                not change are known not to have been read.

        Raises:
            ExpressionError: the condition does not parse, or is not allowed.
        """
        snapshot = self._existing()
        tree = self._parsed(condition)
        read = read_predicate(tree, every_match_changes=every_match_changes)
        files = snapshot.files(read.condition)
        self._reads.append(read)
        self._read_files.update(map(str, files.column("path").to_pylist()))
        return files

    def read_whole_table(self) -> None:
        """Read everything: any added or removed file is then a conflict."""
        self._existing()
        self._read_whole_table = True

    def read_files(self, paths: Iterable[str]) -> None:
        """Read particular files, by their paths in the log."""
        self._existing()
        self._read_entirely.update(paths)

    def observe(self, observer: TransactionObserver) -> None:
        """Have another observer told of the phases from here on."""
        self._observer = observer

    def match_rows_with(self, matcher: RowMatcher) -> None:
        """Say which rows of the target a MERGE reads, beyond what its conditions tell."""
        self._matcher = matcher

    def test_rows_with(self, tester: RowTester) -> None:
        """Say what is to evaluate conditions that Arrow cannot."""
        self._tester = tester

    def use_files_alone(self, reason: str) -> None:
        """Have files decide between this command and others that change data, and say why."""
        self._obstacle = self._obstacle or reason

    def read_application(self, app_id: str) -> int | None:
        """The last version that an application committed; its progress counts as read."""
        self._read_app_ids.add(app_id)
        found = self.snapshot.set_transactions.get(app_id) if self.snapshot else None
        return None if found is None else found.version

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
        """Validate against every winner and put the version into the log; `outcome` tells more.

        Where nothing is staged nothing is written, and the version returned is the one that the
        reads were found valid against; `even_if_empty` has the commit written all the same.

        Raises:
            ConflictError: a winner made it unserializable.
            RequestError: what is staged cannot be one commit.
            CommitOutcomeUnknownError: the store would not say whether it landed.
        """
        self._open()
        provenance = Provenance(
            operation,
            self.txn_id,
            parameters or {},
            metrics or {},
            user_metadata,
            user_name,
            even_if_empty,
        )
        try:
            self.outcome = self._commit(provenance)
        except Exception as error:
            self._observer.failed(self, error)
            raise
        if self.outcome.committed:
            self._observer.committed(self, self.outcome.version)
            now_ms = self._clock.now_ms()
            after_commit(self.table.store, self.outcome.version, self.snapshot, now_ms)
        return self.outcome.version

    def _commit(self, provenance: Provenance) -> CommitOutcome:
        contender = self._contender(provenance)
        make_staged_durable(self.table.store, contender.current.actions)
        self._observer.staged(self)
        rows = self._row_resolver(contender.current)
        committer = Committer(self.table.store, self._clock, self._observer, self.limits, rows)
        return committer.commit(self, contender)

    def _row_resolver(self, staged: CurrentTransaction) -> SnapshotRowResolver | None:
        if self.snapshot is None:
            return None
        budget = Budget(self._clock, self.limits.row_budget_s)
        rows = SnapshotRows(self.snapshot, budget, self._matcher, self._tester)
        return SnapshotRowResolver(self.table.store, staged, rows, budget, self._clock)

    def _contender(self, provenance: Provenance) -> Contender:
        """The transaction as a value, checked against itself and the version it read."""
        snapshot, uri = self.snapshot, self.table.uri
        before = self._terms_before()
        after = TableTerms.after(uri, before, self._actions)
        live = find_readded(snapshot, self._actions, reads_nothing=self._reads_nothing)
        actions = with_known_identity(self._actions, live)
        check_staged(actions, after)
        terms = before or after
        entirely = read_by_staging(actions, live) | self._read_entirely
        return Contender(
            current=CurrentTransaction(
                table=uri,
                read_version=self.read_version,
                schema=parse_schema(terms.metadata.schema_string),
                partition_columns=tuple(terms.metadata.partition_columns),
                level=self._level(terms, actions, provenance.operation),
                operation=provenance.operation,
                reads=tuple(self._reads),
                read_files=entirely | self._read_files,
                read_entirely=entirely,
                read_whole_table=self._read_whole_table,
                read_app_ids=frozenset(self._read_app_ids),
                actions=actions,
                txn_id=self.txn_id,
                rows=self._row_scope(),
            ),
            provenance=provenance,
            before=before,
            after=after,
            validated_version=self.read_version,
            timestamp_ms=snapshot.timestamp_ms if snapshot else 0,
            row_id_high_water_mark=high_water_mark(snapshot.domains.values()) if snapshot else -1,
        )

    def _row_scope(self) -> RowScope:
        """Whether its rows can be told apart from another's, decided before any work."""
        if self.snapshot is None:
            return RowScope("it creates the table", traces_moves=False)
        read = self.snapshot
        table = table_eligibility(read.metadata, read.protocol, read.clustering_columns)
        of_command = next((r.row_obstacle for r in self._reads if r.row_obstacle), None)
        return RowScope(table.obstacle or of_command or self._obstacle, table.traces_moves)

    def _level(
        self, terms: TableTerms, actions: tuple[Action, ...], operation: str
    ) -> IsolationLevel:
        of_table = TableProperties.parse(terms.metadata.configuration).isolation_level
        return level_used(IsolationLevel(of_table), actions, operation)

    def _terms_before(self) -> TableTerms | None:
        read = self.snapshot
        return TableTerms(self.table.uri, read.metadata, read.protocol) if read else None

    @property
    def _reads_nothing(self) -> bool:
        return not (self._reads or self._read_entirely or self._read_whole_table)

    def _parsed(self, condition: str | Expression | None) -> Expression | None:
        if not isinstance(condition, str):
            return condition
        return parse_condition(condition, self._existing().schema) if condition.strip() else None

    def _existing(self) -> Snapshot:
        self._open()
        if self.snapshot is None:
            what = f"{self.table.uri} is being created: there is nothing to read."
            raise RequestError(what, "Commit version 0 first.")
        return self.snapshot

    def _open(self) -> None:
        if self.outcome is not None:
            what = f"This transaction committed version {self.outcome.version} already."
            raise RequestError(what, "Start another one.")
