"""Which added files this transaction should have read, before anything is read of what is in them.

The order of the writes is what decides. At WriteSerializable this transaction may be ordered before
a blind append that it did not see. That exemption ends once a later writer may have read the
append: then this transaction can no longer come before it without coming before that writer too.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from engine.actions.files import AddFile
from engine.actions.statistics import parse_stats
from engine.conflicts.isolation import STATE_REPLACING_OPERATIONS, IsolationLevel
from engine.conflicts.reads import may_hold
from engine.conflicts.recorded_predicates import may_have_read
from engine.conflicts.transaction_info import CurrentTransaction, ReadPredicate, WinningCommit
from engine.snapshot.data_skipping import Skipper


@dataclass(frozen=True, slots=True)
class Candidate:
    """A file that `version` added, and that this transaction may have had to read."""

    add: AddFile
    version: int


def list_candidates(
    current: CurrentTransaction, winner: WinningCommit, exempted: Sequence[WinningCommit]
) -> tuple[Candidate, ...]:
    """The files to hold against this transaction's reads when it is checked against this winning commit.

    `exempted` are the blind appends among the winning commits before this one.
    """
    if current.replaces_state:
        return tuple(_iter_candidates(winner))
    if current.level is IsolationLevel.SNAPSHOT or current.reads_nothing:
        return ()
    if not _may_be_ordered_later(current, winner):
        again = (commit for commit in exempted if ends_exemption(current, winner, commit))
        return (
            *(file for commit in again for file in _iter_candidates(commit)),
            *_new_to(current, winner),
        )
    return ()


def counts_appends(level: IsolationLevel, *, changes_terms: bool = False) -> bool:
    """Whether blind appends count for what a transaction reads at a level.

    At WriteSerializable it may be ordered before them, unless it changes metadata or protocol.
    """
    relaxed = level is IsolationLevel.WRITE_SERIALIZABLE and not changes_terms
    return level is not IsolationLevel.SNAPSHOT and not relaxed


def is_exempt(current: CurrentTransaction, winner: WinningCommit) -> bool:
    """Whether this winning commit is an append whose files are not tested now, but may be later."""
    return not current.replaces_state and _may_be_ordered_later(current, winner)


def exempt_after(
    current: CurrentTransaction, winner: WinningCommit, exempted: Sequence[WinningCommit]
) -> tuple[WinningCommit, ...]:
    """The appends that this transaction stays ordered before once it has passed this winning commit.

    Those whose exemption the winning commit ended have been tested now: what they added matches no
    read.
    """
    if is_exempt(current, winner):
        return (*exempted, winner)
    if winner.is_blind_append or not winner.changes_data:
        return tuple(exempted)
    return tuple(commit for commit in exempted if not ends_exemption(current, winner, commit))


def ends_exemption(
    current: CurrentTransaction, winner: WinningCommit, append: WinningCommit
) -> bool:
    """Return whether this winning commit may have read the rows of a blind append before it.

    A commit that removes a file of the append has read it, whatever version and predicate it
    records. Any other commit has not if it read an earlier version, or if its predicate rules out
    every file that the append wrote.
    """
    if winner.is_blind_append or not winner.changes_data:
        return False
    if not winner.removed_paths.isdisjoint(add.path for add in append.adds):
        return True
    read_version = winner.info.read_version
    if read_version is not None and read_version < append.version:
        return False
    schema, columns, mode = current.schema, current.partition_columns, current.mapping_mode
    return any(may_have_read(winner, add, schema, columns, mode) for add in append.adds)


def find_matching_reads(current: CurrentTransaction, add: AddFile) -> tuple[ReadPredicate, ...]:
    """The reads of this transaction that a file may hold rows of. What is left out is proved to match none."""
    return tuple(read for read, skipper in current.tested_reads if may_hold(skipper, add))


def reads_rows_of(current: CurrentTransaction, winner: WinningCommit) -> bool:
    """Whether statistics say that a read of this transaction matches a row of what a commit added."""
    return any(_holds(skipper, add) for _, skipper in current.tested_reads for add in winner.adds)


def _holds(skipper: Skipper | None, add: AddFile) -> bool:
    stats = parse_stats(add.stats)
    if stats is None or not stats.get("numRecords"):
        return False
    return skipper is None or skipper.matches_all(add.partition_values or {}, stats)


def _may_be_ordered_later(current: CurrentTransaction, winner: WinningCommit) -> bool:
    if current.level is IsolationLevel.SNAPSHOT or not winner.is_blind_append:
        return False
    return not counts_appends(current.level, changes_terms=current.changes_terms)


def _new_to(current: CurrentTransaction, winner: WinningCommit) -> Iterator[Candidate]:
    """What a winning commit added, but for files that this transaction has read or removes, only stated again.

    Filling in row ids or statistics is such a statement: it moves no row and changes none. RESTORE
    brings rows back, whatever it says, and another deletion vector than this transaction's is
    another file.
    """
    if winner.operation in STATE_REPLACING_OPERATIONS:
        yield from _iter_candidates(winner)
        return
    removed = winner.removed_paths
    ours = {remove.path: remove.key for remove in current.removes}
    for candidate in _iter_candidates(winner):
        add = candidate.add
        same = ours.get(add.path, add.key) == add.key
        stated = same and not add.data_change and add.path not in removed
        concerns = add.path in current.read_files or add.path in ours
        if not (stated and concerns):
            yield candidate


def _iter_candidates(winner: WinningCommit) -> Iterator[Candidate]:
    return (Candidate(add, winner.version) for add in winner.adds)
