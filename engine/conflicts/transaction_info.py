"""The two sides of a conflict as frozen values: this transaction and a winning commit.

The bounds of both sides' files in the layout column of the table put them in one order.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cached_property
from typing import TypeVar

from engine.actions.codec import Action
from engine.actions.commit_info import CommitInfo
from engine.actions.files import AddCDCFile, AddFile, RemoveFile
from engine.actions.statistics import parse_stats
from engine.actions.table import DomainMetadata, Metadata, Protocol, SetTransaction
from engine.conflicts.eligibility import UNKNOWN_TABLE, TableFacts
from engine.conflicts.isolation import IsolationLevel
from engine.errors import ConflictSide
from engine.expressions.tree import Expression
from engine.log.commits import LogCommit
from engine.schema.types import StructType
from engine.snapshot.data_skipping import Skipper
from engine.vocabulary import operation_named

Kind = TypeVar("Kind")
_UNSAID = CommitInfo()

_SHOWN = 64
Bounds = tuple[str | None, str | None]


@dataclass(frozen=True, slots=True)
class ReadPredicate:
    """One read of the target: the rows a condition selects, None meaning every row.

    `text` is the condition as SQL. `every_match_changes` is the reader's promise to change every
    row the condition matches (DELETE and UPDATE do), so the rows it did not change do not match.
    `row_obstacle` says why this condition cannot be decided at row level (SEMANTICS: falls back to
    file level), None if it can.
    """

    text: str
    condition: Expression | None
    every_match_changes: bool = False
    row_obstacle: str | None = None


@dataclass(frozen=True, slots=True)
class RowScope:
    """The reach of row-level concurrency.

    `obstacle` says why this transaction cannot be decided at row level against a data-changing
    command, None if it can; `traces_moves`: whether rows moved by a compaction can be traced;
    `traces_order`: whether reordered rows can be traced too. `command_obstacle` is the part of the
    obstacle due to the command itself, regardless of the table.
    """

    obstacle: str | None = None
    traces_moves: bool = True
    traces_order: bool = False
    table: TableFacts = UNKNOWN_TABLE
    command_obstacle: str | None = None


FILES_DECIDE = RowScope("rows were not compared", traces_moves=False)


@dataclass(frozen=True, slots=True)
class LayoutColumn:
    """The first partition or clustering column, by logical and physical name.

    `file_count` is the number of the table's files, None if unknown.
    """

    column: str = ""
    physical_name: str = ""
    is_partition: bool = False
    file_count: int | None = None

    def bounds(self, file: AddFile | RemoveFile) -> Bounds:
        """Return the column's minimum and maximum in a file, as text; None if unknown."""
        if not self.physical_name:
            return None, None
        if self.is_partition:
            value = _shorten_value((file.partition_values or {}).get(self.physical_name))
            return value, value
        stats = parse_stats(file.stats) or {}
        low, high = (stats.get(kind) for kind in ("minValues", "maxValues"))
        return self._read_value(low), self._read_value(high)

    def _read_value(self, values: object) -> str | None:
        return _shorten_value(values.get(self.physical_name)) if isinstance(values, dict) else None


NO_LAYOUT = LayoutColumn()


@dataclass(frozen=True, kw_only=True)
class CurrentTransaction:
    """A transaction trying to commit, rebased over the winning commits checked so far.

    `level` is the level used. `read_files` holds the paths of the files it read, `read_entirely`
    those among them of which every row counts as read, regardless of conditions. `read_version` is
    -1 for a transaction creating the table, and never moves. `rows` is the level at which its
    conflicts are decided, `layout` the order of its files for display. `metadata` and `protocol`
    are the table's after the winning commits checked so far. `source_is_fixed`: its rows were read
    from the table at `read_version` by a program that will not read them again on a retry.
    """

    table: str
    read_version: int
    schema: StructType
    level: IsolationLevel
    operation: str
    partition_columns: tuple[str, ...] = ()
    mapping_mode: str = "none"
    reads: tuple[ReadPredicate, ...] = ()
    read_files: frozenset[str] = frozenset()
    read_entirely: frozenset[str] = frozenset()
    read_whole_table: bool = False
    read_app_ids: frozenset[str] = frozenset()
    actions: tuple[Action, ...] = ()
    txn_id: str | None = None
    user: str | None = None
    source_is_fixed: bool = False
    metadata: Metadata | None = None
    protocol: Protocol | None = None
    rows: RowScope = FILES_DECIDE
    layout: LayoutColumn = NO_LAYOUT

    @cached_property
    def adds(self) -> tuple[AddFile, ...]:
        """The files it stages."""
        return _filter_kind(AddFile, self.actions)

    @cached_property
    def removes(self) -> tuple[RemoveFile, ...]:
        """The files it removes."""
        return _filter_kind(RemoveFile, self.actions)

    @cached_property
    def app_ids(self) -> frozenset[str]:
        """The application ids it read or writes."""
        written = _filter_kind(SetTransaction, self.actions)
        return self.read_app_ids | {transaction.app_id for transaction in written}

    @cached_property
    def domains(self) -> frozenset[str]:
        """The metadata domains it writes."""
        return frozenset(domain.domain for domain in _filter_kind(DomainMetadata, self.actions))

    @cached_property
    def changes_terms(self) -> bool:
        """Whether it stages a `metaData` or a `protocol` action."""
        return any(isinstance(action, Metadata | Protocol) for action in self.actions)

    @cached_property
    def reads_nothing(self) -> bool:
        """Whether no data of the table was read (application ids are no data)."""
        return not (self.reads or self.read_files or self.read_whole_table)

    @cached_property
    def is_blind_append(self) -> bool:
        """Whether it adds files only, and read nothing."""
        return self.reads_nothing and adds_files_only(self.actions)

    @cached_property
    def tested_reads(self) -> tuple[tuple[ReadPredicate, Skipper | None], ...]:
        """Its reads, each prepared for evaluation over many files; None reads every row."""
        return tuple(
            (
                read,
                None
                if read.condition is None
                else Skipper(
                    read.condition, self.schema, self.partition_columns, self.mapping_mode
                ),
            )
            for read in self.reads
        )

    def restage(
        self,
        actions: tuple[Action, ...],
        *,
        read_files: frozenset[str] | None = None,
        read_entirely: frozenset[str] | None = None,
    ) -> "CurrentTransaction":
        """Return the transaction with other actions and files read; cached skippers are kept."""
        other = replace(
            self,
            actions=actions,
            read_files=self.read_files if read_files is None else read_files,
            read_entirely=self.read_entirely if read_entirely is None else read_entirely,
        )
        ready = self.__dict__.get("tested_reads")
        if ready is not None:
            other.__dict__["tested_reads"] = ready
        return other

    @cached_property
    def replaces_state(self) -> bool:
        """Whether it is a RESTORE, CLONE or REPLACE: every commit touching the table conflicts."""
        return operation_named(self.operation).replaces_state

    @cached_property
    def predicate(self) -> str | None:
        """Its reads as SQL, None if it read nothing."""
        if self.read_whole_table:
            return "the whole table"
        return " OR ".join(read.text for read in self.reads) or None

    @property
    def side(self) -> ConflictSide:
        """This side as a conflict reports it."""
        return ConflictSide(
            operation=self.operation,
            read_version=self.read_version,
            predicate=self.predicate,
            isolation_level=str(self.level),
            txn_id=self.txn_id,
            user=self.user,
            is_blind_append=self.is_blind_append,
        )


@dataclass(frozen=True, kw_only=True)
class WinningCommit:
    """A commit that landed after this transaction's read version, as written."""

    version: int
    actions: tuple[Action, ...]
    info: CommitInfo = _UNSAID
    timestamp_ms: int | None = None

    @classmethod
    def from_commit(cls, commit: LogCommit) -> "WinningCommit":
        """Build a winning commit from a commit of the log."""
        return cls(
            version=commit.version,
            actions=commit.actions,
            info=commit.commit_info or _UNSAID,
            timestamp_ms=commit.timestamp_ms,
        )

    @cached_property
    def adds(self) -> tuple[AddFile, ...]:
        """The files it added."""
        return _filter_kind(AddFile, self.actions)

    @cached_property
    def removes(self) -> tuple[RemoveFile, ...]:
        """The files it removed."""
        return _filter_kind(RemoveFile, self.actions)

    @cached_property
    def removed_paths(self) -> frozenset[str]:
        """The paths of the files it removed, those it added again among them."""
        return frozenset(remove.path for remove in self.removes)

    @cached_property
    def protocol(self) -> Protocol | None:
        """Its `protocol` action."""
        return next(iter(_filter_kind(Protocol, self.actions)), None)

    @cached_property
    def metadata(self) -> Metadata | None:
        """Its `metaData` action."""
        return next(iter(_filter_kind(Metadata, self.actions)), None)

    @cached_property
    def app_ids(self) -> frozenset[str]:
        """The application ids it wrote."""
        return frozenset(
            transaction.app_id for transaction in _filter_kind(SetTransaction, self.actions)
        )

    @cached_property
    def domains(self) -> tuple[DomainMetadata, ...]:
        """The metadata domains it wrote."""
        return _filter_kind(DomainMetadata, self.actions)

    @cached_property
    def is_blind_append(self) -> bool:
        """Whether it is recorded as a blind append and its actions do not contradict this.

        A missing mark means not blind; a commit that removes anything is not blind either.
        """
        return self.info.is_blind_append is True and adds_files_only(self.actions)

    @cached_property
    def changes_data(self) -> bool:
        """Whether a file action is marked as a data change, or the operation only changes data.

        Files changed by DELETE, UPDATE, MERGE and similar count as changed regardless of their
        marks.
        """
        files: tuple[AddFile | RemoveFile, ...] = (*self.adds, *self.removes)
        if operation_named(self.info.operation).changes_rows:
            return bool(files)
        return any(file.data_change for file in files)

    @property
    def operation(self) -> str:
        """The operation's name, as far as its writer recorded it."""
        return self.info.operation or "operation not recorded"

    @property
    def side(self) -> ConflictSide:
        """This side as a conflict reports it."""
        return ConflictSide(
            operation=self.operation,
            version=self.version,
            read_version=self.info.read_version,
            predicate=_read_predicate_text(self.info),
            isolation_level=self.info.isolation_level,
            txn_id=self.info.txn_id,
            user=self.info.user_name or self.info.user_id,
            engine=self.info.engine_info,
            timestamp_ms=self.info.in_commit_timestamp or self.timestamp_ms or self.info.timestamp,
            is_blind_append=self.info.is_blind_append,
        )


def adds_files_only(actions: Iterable[Action]) -> bool:
    """Return whether the file actions are only new whole files, without a change of metadata."""
    kinds = tuple(actions)
    if any(isinstance(kind, RemoveFile | AddCDCFile | Metadata | Protocol) for kind in kinds):
        return False
    adds = _filter_kind(AddFile, kinds)
    return bool(adds) and all(add.deletion_vector is None for add in adds)


def _read_predicate_text(info: CommitInfo) -> str | None:
    predicate = (info.operation_parameters or {}).get("predicate")
    return predicate if isinstance(predicate, str) and predicate not in {"", "[]"} else None


def _filter_kind(kind: type[Kind], actions: Iterable[Action]) -> tuple[Kind, ...]:
    return tuple(action for action in actions if isinstance(action, kind))


def _shorten_value(value: object) -> str | None:
    plain = isinstance(value, str | int | Decimal)
    return str(value)[:_SHOWN] if plain else None
