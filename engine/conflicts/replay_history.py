"""What if: a table's own history, held against another isolation level.

The log records who read which version and, for most commands, by which condition. That is enough to
run the checks again, with files alone and with a condition that is not recorded, or cannot be
parsed, taken as a read of everything. So a verdict of "passes" is certain, one of "conflict" may owe
to what the log does not say.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from engine.actions.commit_info import VACUUM_END, VACUUM_START
from engine.conflicts.candidates import exempt_after, find_matching_reads
from engine.conflicts.checker import find_conflict
from engine.conflicts.isolation import IsolationLevel, level_used
from engine.conflicts.overlap import Overlap
from engine.conflicts.reads import read_predicate
from engine.conflicts.recorded_predicates import predicate_texts
from engine.conflicts.transaction_info import CurrentTransaction, ReadPredicate, WinningCommit
from engine.errors import ConflictFacts, ExpressionError
from engine.expressions.parse import parse_condition
from engine.schema.types import StructType

_READ_NOTHING = frozenset({"OPTIMIZE", "REORG", VACUUM_START, VACUUM_END})


@dataclass(frozen=True, slots=True)
class RecordedTable:
    """The table whose history is replayed."""

    name: str
    schema: StructType
    partition_columns: tuple[str, ...] = ()
    mapping_mode: str = "none"


@dataclass(frozen=True, slots=True)
class CommitReplay:
    """One commit of the history at the level requested.

    `overlapping_versions` landed between its read version and itself. `conflict` is what would have
    stopped it, None if nothing. `certain` is false where what it read is not recorded.
    """

    version: int
    operation: str
    overlapping_versions: tuple[int, ...]
    conflict: ConflictFacts | None
    certain: bool


@dataclass(frozen=True, slots=True)
class PassedOver:
    """Version `version` did not see the blind append of `append_version`, which takes effect after it.

    So `version` is out of order: no prefix of the history explains its state.
    """

    append_version: int
    version: int


def replay_history(
    commits: Sequence[WinningCommit], table: RecordedTable, level: IsolationLevel
) -> Iterator[CommitReplay]:
    """What would have become of each commit at a level, oldest first; those without overlaps too."""
    ordered = sorted(commits, key=lambda winner: winner.version)
    for commit in ordered:
        current, certain = rebuild_transaction(commit, table, level)
        winners = [
            later for later in ordered if current.read_version < later.version < commit.version
        ]
        conflict = _first_conflict(current, winners, commit.version)
        versions = tuple(later.version for later in winners)
        yield CommitReplay(commit.version, commit.operation, versions, conflict, certain)


def find_passed_over(
    commits: Sequence[WinningCommit], table: RecordedTable
) -> Iterator[PassedOver]:
    """The out-of-order versions of a WriteSerializable history, with each append that they passed over."""
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
    """A commit as the transaction it was, and whether the log says what it read."""
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


def _first_conflict(
    current: CurrentTransaction, winners: Sequence[WinningCommit], attempted_version: int
) -> ConflictFacts | None:
    exempted: tuple[WinningCommit, ...] = ()
    for winner in winners:
        overlap = Overlap(current, winner, exempted, attempted_version=attempted_version)
        conflict = find_conflict(overlap)
        if conflict is not None:
            return conflict.conflict
        exempted = exempt_after(current, winner, exempted)
    return None


def _passes_over(later: WinningCommit, append: WinningCommit, table: RecordedTable) -> bool:
    """Whether a later writer should have read an append that it did not see."""
    if _read_version(later) >= append.version:  # before its reads are parsed: most pairs end here
        return False
    current, _ = rebuild_transaction(later, table, IsolationLevel.WRITE_SERIALIZABLE)
    return any(find_matching_reads(current, add) for add in append.adds)


def _read_version(commit: WinningCommit) -> int:
    recorded = commit.info.read_version
    return commit.version - 1 if recorded is None else recorded


def _rebuild_reads(
    commit: WinningCommit, schema: StructType
) -> tuple[tuple[ReadPredicate, ...], bool]:
    if commit.is_blind_append or commit.operation in _READ_NOTHING or not commit.changes_data:
        return (), True
    texts = predicate_texts(commit.info)
    if commit.operation not in {"DELETE", "UPDATE"} or texts is None:
        return (read_predicate(None),), False
    try:
        condition = " AND ".join(f"({text})" for text in texts) or "TRUE"
        return (_read(condition, schema),), True
    except ExpressionError:
        return (read_predicate(None),), False


@lru_cache(maxsize=256)
def _read(text: str, schema: StructType) -> ReadPredicate:
    """A recorded condition, parsed once: replays at several levels meet the same ones."""
    return read_predicate(parse_condition(text, schema))
