"""A transaction on its way to the log, as a value, and its outcome.

The value holds its author, its actions, its validation and the limits on its attempts. Its
`commitInfo` has delta-spark's names (SEMANTICS: commitInfo).
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from engine.actions.codec import Action
from engine.actions.commit_info import CommitInfo
from engine.actions.files import AddFile
from engine.actions.table import DomainMetadata
from engine.conflict_facts import Decision, Rule, WinnerVerdicts
from engine.conflicts.candidates import exempt_after
from engine.conflicts.decide.decision import append_verdicts, rows_changed
from engine.conflicts.decide.rebase import (
    NOTHING_PENDING,
    PendingVectors,
    drop_files,
    refresh_transaction,
)
from engine.conflicts.decide.row_access import physical_rows
from engine.conflicts.isolation import ROW_TRACKING_DOMAIN
from engine.conflicts.overlap import changes_of, find_fully_deleted
from engine.conflicts.reads import READS_PREDICATE_ONLY
from engine.conflicts.transaction_info import CurrentTransaction, WinningCommit
from engine.errors import ConflictSide
from engine.log.tip import Tip
from engine.transaction.staging import TableTerms


@dataclass(frozen=True, slots=True)
class ResolvedConflict:
    """A conflict that did not abort this transaction, and why.

    Both sides changed different rows, or the winning commit only enabled features: then there are
    no files. `rule` names the check that fails otherwise, `files` the paths both sides touched,
    `row_count` the rows compared or rebased, `how` the means: merged deletion vectors, a row map,
    row ids or rows read. `duration_ms` is the time it took. `rows` are the first of these rows, by
    original path and position. `decision` records how it was decided. `current` is this transaction
    as it was checked.
    """

    current: ConflictSide
    winner: ConflictSide
    rule: Rule
    files: tuple[str, ...]
    row_count: int
    how: str
    duration_ms: int
    rows: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    decision: Decision | None = None


@dataclass(frozen=True, slots=True)
class CommitOutcome:
    """The known outcome of a commit.

    `version` is the landed version or, if nothing was staged (`committed` is false), the version
    the transaction was validated against. `recognized` means that it had landed before: version and
    time are the original ones. `timestamp_ms` is the in-commit timestamp if enabled. `metrics` are
    the operation's, as committed or as they would have been; empty if recognized.
    """

    version: int
    timestamp_ms: int
    attempts: int
    resolved: tuple[ResolvedConflict, ...] = ()
    recognized: bool = False
    committed: bool = True
    metrics: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CommitLimits:
    """The limits of a commit: its attempts, and the time to resolve conflicts at row level."""

    attempts: int = 10_000
    unknown_outcomes: int = 8
    row_budget_s: float = 10.0


DEFAULT_LIMITS = CommitLimits()


ENGINE_INFO = "lakeui/0.2"
GROUP_ID, GROUP_TABLES = "lakeui.transactionId", "lakeui.transactionTables"
"""Tags of a commit that several tables have together: its id, and the number of tables."""


@dataclass(frozen=True, slots=True)
class Provenance:
    """The description of a commit by its person or job. `metrics` are numbers or text.

    `even_if_empty` forces a commit with nothing staged (VACUUM START and END). `tables` are the
    tables to which the transaction commits; a commit to several is made even if empty.
    """

    operation: str
    txn_id: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    metrics: Mapping[str, Any] = field(default_factory=dict)
    user_metadata: str | None = None
    user_name: str | None = None
    even_if_empty: bool = False
    tables: int = 1


@dataclass(frozen=True, kw_only=True)
class PendingCommit:
    """This transaction, rebased over every version up to `validated_version`.

    `timestamp_ms` is this version's (0 if not needed), `row_id_high_water_mark` its last assigned
    row id (-1: none). `exempted` are the blind appends this transaction is ordered before,
    `pending` the deletion vectors of staged files yet to be written. `gone_count` is the number of
    its deleted rows that winning DELETEs had already deleted; None if unknown. `staged` are its
    actions before any winning commit was checked, `trail` the verdicts on the last winning commits.
    `winner_tip` is the last winning commit, None if there is none. `last_numbered` is the file with
    the highest base row id, if this transaction assigns ids: its footer proves which are free.
    """

    current: CurrentTransaction
    provenance: Provenance
    after: TableTerms
    before: TableTerms | None
    validated_version: int
    timestamp_ms: int
    row_id_high_water_mark: int = -1
    last_numbered: AddFile | None = None
    exempted: tuple[WinningCommit, ...] = ()
    resolved: tuple[ResolvedConflict, ...] = ()
    pending: PendingVectors = NOTHING_PENDING
    gone_count: int | None = 0
    staged: tuple[Action, ...] = ()
    trail: tuple[WinnerVerdicts, ...] = ()
    winner_tip: Tip | None = None

    @property
    def gives_new_row_ids(self) -> bool:
        """Whether added rows get new ids."""
        adds = self.current.adds if self.after.gives_row_ids else ()
        return any(add.base_row_id is None for add in adds)

    @property
    def newly_numbered(self) -> tuple[AddFile, ...]:
        """The added files with row ids new to the state it read."""
        if not self.after.gives_row_ids:
            return ()
        restated = self.current.read_entirely.union(remove.path for remove in self.current.removes)
        adds = self.current.adds
        return tuple(add for add in adds if add.base_row_id is None or add.path not in restated)

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to write."""
        described = self.provenance
        return not (self.current.actions or described.even_if_empty or described.tables > 1)

    def advance(
        self, winner: WinningCommit, verdicts: WinnerVerdicts | None = None
    ) -> "PendingCommit":
        """Rebase the pending commit over a winning commit that passed every check."""
        left = self._drop_removed_by(winner)._take_terms_of(winner)
        return replace(
            left,
            current=refresh_transaction(left.current, winner),
            validated_version=winner.version,
            timestamp_ms=winner.timestamp_ms or self.timestamp_ms,
            row_id_high_water_mark=self._mark_after(winner),
            last_numbered=last_numbered_of((*winner.adds, self.last_numbered)),
            exempted=exempt_after(self.current, winner, self.exempted),
            trail=append_verdicts(self.trail, verdicts) if verdicts else self.trail,
        )

    def add_gone(self, count: int | None) -> int | None:
        """Return `gone_count` with more rows."""
        return None if self.gone_count is None or count is None else self.gone_count + count

    def _drop_removed_by(self, winner: WinningCommit) -> "PendingCommit":
        """Return the pending DELETE without the files a winning DELETE emptied."""
        changes = changes_of(self.current.actions)
        paths = changes.keys() & find_fully_deleted(self.current, winner)
        if not paths:
            return self
        counts = [rows_changed(changes[path], self.pending.vectors) for path in paths]
        count = None if None in counts else sum(count or 0 for count in counts)
        current, pending = drop_files(self.current, self.pending, frozenset(paths))
        return replace(self, current=current, pending=pending, gone_count=self.add_gone(count))

    def _take_terms_of(self, winner: WinningCommit) -> "PendingCommit":
        """Return the pending commit under the metadata and the protocol that a winning commit left.

        Only a pending commit that changes neither passes such a winning commit.
        """
        if winner.metadata is None and winner.protocol is None:
            return self
        terms = TableTerms.apply_actions(self.after.table, self.before, winner.actions)
        current = replace(self.current, metadata=terms.metadata, protocol=terms.protocol)
        return replace(self, current=current, before=terms, after=terms)

    def _mark_after(self, winner: WinningCommit) -> int:
        """Return the last assigned row id: the domain's or, if a writer omitted it, the files'."""
        marks = [self.row_id_high_water_mark, high_water_mark(winner.domains)]
        return max(*marks, *map(last_row_id, winner.adds) if self.after.gives_row_ids else ())


def last_row_id(action: Action | None, counted_rows: int | None = None) -> int:
    """Return the last id of a file with row ids; -1 for everything else.

    Without `counted_rows` the log's row count is used.
    """
    if not isinstance(action, AddFile) or action.base_row_id is None:
        return -1
    rows = physical_rows(action) or 0 if counted_rows is None else counted_rows
    return action.base_row_id + rows - 1


def last_numbered_of(files: Iterable[AddFile | None]) -> AddFile | None:
    """Return the file with the highest base row id; None if no file has ids."""
    numbered = [file for file in files if file is not None and file.base_row_id is not None]
    return max(numbered, key=lambda file: file.base_row_id or 0, default=None)


def high_water_mark(domains: Iterable[DomainMetadata]) -> int:
    """Return the last assigned row id in the row-tracking domain; -1 without it."""
    for domain in domains:
        if domain.domain == ROW_TRACKING_DOMAIN and not domain.removed:
            try:
                return int(json.loads(domain.configuration)["rowIdHighWaterMark"])
            except (ValueError, KeyError, TypeError):
                return -1
    return -1


def commit_info(
    provenance: Provenance,
    current: CurrentTransaction,
    timestamp_ms: int,
    in_commit_timestamp_ms: int | None,
) -> CommitInfo:
    """Build the action. `readVersion` is the version read, never rebased; absent at creation."""
    return CommitInfo(
        in_commit_timestamp=in_commit_timestamp_ms,
        timestamp=timestamp_ms,
        operation=provenance.operation,
        operation_parameters={
            name: _parameter(value) for name, value in provenance.parameters.items()
        },
        operation_metrics={name: _metric(value) for name, value in provenance.metrics.items()},
        read_version=current.read_version if current.read_version >= 0 else None,
        isolation_level=str(current.level),
        is_blind_append=current.is_blind_append,
        user_name=provenance.user_name,
        user_metadata=provenance.user_metadata,
        tags=_tags(provenance, current) or None,
        engine_info=ENGINE_INFO,
        txn_id=provenance.txn_id,
    )


def _tags(provenance: Provenance, current: CurrentTransaction) -> dict[str, str | None]:
    tags: dict[str, str | None] = {}
    if reads_predicate_only(current):
        tags[READS_PREDICATE_ONLY] = "true"
    if provenance.tables > 1:
        tags |= {GROUP_ID: provenance.txn_id, GROUP_TABLES: str(provenance.tables)}
    return tags


def reads_predicate_only(current: CurrentTransaction) -> bool:
    """Return whether the recorded predicate of an UPDATE covers all its reads."""
    read_more = current.read_whole_table or current.read_entirely
    return current.operation == "UPDATE" and bool(current.reads) and not read_more


def _parameter(value: Any) -> Any:  # noqa: ANN401 - JSON
    """Render lists and maps as JSON text, as delta-spark does."""
    if isinstance(value, Mapping):
        return json.dumps(dict(value), ensure_ascii=False)
    if isinstance(value, list | tuple | set | frozenset):
        return json.dumps(list(value), ensure_ascii=False)
    return value


def _metric(value: Any) -> str:  # noqa: ANN401 - a number, or text already
    return str(value).lower() if isinstance(value, bool) else str(value)
