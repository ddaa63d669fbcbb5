"""What if: a table's own history, replayed at another isolation level.

The log records the read version of each commit and, for DELETE and some UPDATEs, the condition.
This is enough to run the checks again at file level. If the log may omit reads, every row counts as
read. A verdict of "passes" is therefore certain; "conflict" may be due to missing records.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from engine.conflicts.candidates import exempt_after, find_matching_reads
from engine.conflicts.decide.checker import find_conflict
from engine.conflicts.isolation import IsolationLevel, level_used
from engine.conflicts.overlap import FILES_ALONE, Overlap, RowEvidence, both_delete
from engine.conflicts.reads import read_of_record, read_predicate
from engine.conflicts.transaction_info import CurrentTransaction, ReadPredicate, WinningCommit
from engine.errors import ConflictFacts
from engine.schema.types import StructType
from engine.vocabulary import UNKNOWN, Reads, operation_named


@dataclass(frozen=True, slots=True)
class RecordedTable:
    """The table of a replayed history."""

    name: str
    schema: StructType
    partition_columns: tuple[str, ...] = ()
    mapping_mode: str = "none"


@dataclass(frozen=True, slots=True)
class CommitReplay:
    """One commit of the history at the requested level.

    `overlapping_versions` landed between its read version and itself. `conflict` would have aborted
    it at file level, `row_conflict` where two DELETEs may share rows; None if nothing would.
    `certain` is false if its reads are not recorded.
    """

    version: int
    operation: str
    overlapping_versions: tuple[int, ...]
    conflict: ConflictFacts | None
    certain: bool
    row_conflict: ConflictFacts | None = None


@dataclass(frozen=True, slots=True)
class PassedOver:
    """An out-of-order `version`: it did not see the blind append of `append_version`.

    The append takes effect after it, so no prefix of the history explains the state of `version`.
    """

    append_version: int
    version: int


def replay_history(
    commits: Sequence[WinningCommit], table: RecordedTable, level: IsolationLevel
) -> Iterator[CommitReplay]:
    """Yield each commit's outcome at a level, oldest first, including those without overlaps."""
    ordered = sorted(commits, key=lambda winner: winner.version)
    for commit in ordered:
        current, certain = rebuild_transaction(commit, table, level)
        winners = [
            later for later in ordered if current.read_version < later.version < commit.version
        ]
        by_files, by_rows = (
            find_first_conflict(current, winners, commit.version, may_share_rows=may_share_rows)
            for may_share_rows in (False, True)
        )
        versions = tuple(later.version for later in winners)
        yield CommitReplay(commit.version, commit.operation, versions, by_files, certain, by_rows)


def find_first_conflict(
    current: CurrentTransaction,
    winners: Sequence[WinningCommit],
    attempted_version: int,
    *,
    may_share_rows: bool = False,
) -> ConflictFacts | None:
    """Return the first conflict with winning commits in order; None if there is none.

    With `may_share_rows` two DELETEs do not conflict, as if they deleted different rows.
    """
    exempted: tuple[WinningCommit, ...] = ()
    for winner in winners:
        evidence = FILES_ALONE
        if may_share_rows and both_delete(current, winner):
            cleared = frozenset(add.key for add in winner.adds)
            evidence = RowEvidence(cleared_adds=cleared, resolved_removes=winner.removed_paths)
        conflict = find_conflict(
            Overlap(current, winner, exempted, evidence, attempted_version=attempted_version)
        )
        if conflict is not None:
            return conflict.conflict
        exempted = exempt_after(current, winner, exempted)
    return None


def find_passed_over(
    commits: Sequence[WinningCommit], table: RecordedTable
) -> Iterator[PassedOver]:
    """Yield the out-of-order versions of a WriteSerializable history, with their appends."""
    ordered = sorted(commits, key=lambda commit: commit.version)
    for position, append in enumerate(ordered):
        if not append.is_blind_append:
            continue
        for later in ordered[position + 1 :]:
            if (
                later.changes_data
                and not later.is_blind_append
                and _passes_over(later, append, table)
            ):
                yield PassedOver(append.version, later.version)


def rebuild_transaction(
    commit: WinningCommit, table: RecordedTable, level: IsolationLevel
) -> tuple[CurrentTransaction, bool]:
    """Rebuild a commit's transaction; return it and whether its reads are recorded."""
    reads, certain = _rebuild_reads(commit, table.schema)
    current = CurrentTransaction(
        table=table.name,
        read_version=_read_version(commit),
        schema=table.schema,
        level=level_used(level, commit.actions, commit.operation),
        operation=commit.operation,
        partition_columns=table.partition_columns,
        mapping_mode=table.mapping_mode,
        reads=reads,
        read_files=frozenset(remove.path for remove in commit.removes) if reads else frozenset(),
        actions=commit.actions,
        txn_id=commit.info.txn_id,
    )
    return current, certain and commit.info.read_version is not None


def _passes_over(later: WinningCommit, append: WinningCommit, table: RecordedTable) -> bool:
    """Return whether a later writer should have read an append it did not see."""
    if _read_version(later) >= append.version:  # before parsing its reads: most pairs end here
        return False
    current, _ = rebuild_transaction(later, table, IsolationLevel.WRITE_SERIALIZABLE)
    return any(find_matching_reads(current, add) for add in append.adds)


def _read_version(commit: WinningCommit) -> int:
    recorded = commit.info.read_version
    return commit.version - 1 if recorded is None else recorded


def _rebuild_reads(
    commit: WinningCommit, schema: StructType
) -> tuple[tuple[ReadPredicate, ...], bool]:
    if commit.is_blind_append:
        return (), True
    operation = operation_named(commit.operation)
    changes_rows = commit.changes_data and (operation.changes_rows or operation is UNKNOWN)
    if not changes_rows:  # an ALTER reads every row or none, a compaction what it removes
        checks = operation is not UNKNOWN and operation.reads is Reads.TABLE
        return ((read_predicate(None),) if checks else ()), True
    read = read_of_record(commit.info, schema)
    return (read_predicate(None) if read is None else read,), read is not None
