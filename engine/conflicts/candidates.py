"""Added files this transaction should have read, chosen before any of their content is read.

The order of the writes decides. At WriteSerializable this transaction may be ordered before an
unseen blind append. This exemption ends once a later writer may have read the append: ordered
before the append, this transaction would also come before this writer.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from engine.actions.files import AddFile
from engine.actions.statistics import parse_stats
from engine.conflicts.isolation import IsolationLevel
from engine.conflicts.reads import may_have_read, may_hold
from engine.conflicts.transaction_info import CurrentTransaction, ReadPredicate, WinningCommit
from engine.snapshot.data_skipping import Skipper
from engine.vocabulary import operation_named


@dataclass(frozen=True, slots=True)
class Candidate:
    """A file added by `version` and possibly within this transaction's reads."""

    add: AddFile
    version: int


def list_candidates(
    current: CurrentTransaction, winner: WinningCommit, exempted: Sequence[WinningCommit]
) -> tuple[Candidate, ...]:
    """List the files to test against this transaction's reads for a winning commit.

    `exempted` are the blind appends among earlier winning commits.
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
    """Return whether blind appends count as reads of a transaction at an isolation level.

    At WriteSerializable it may be ordered before them, unless it changes metadata or protocol.
    """
    relaxed = level is IsolationLevel.WRITE_SERIALIZABLE and not changes_terms
    return level is not IsolationLevel.SNAPSHOT and not relaxed


def is_exempt(current: CurrentTransaction, winner: WinningCommit) -> bool:
    """Return whether a winning commit is an append exempt from tests, at least for now."""
    return not current.replaces_state and _may_be_ordered_later(current, winner)


def exempt_after(
    current: CurrentTransaction, winner: WinningCommit, exempted: Sequence[WinningCommit]
) -> tuple[WinningCommit, ...]:
    """Return the appends this transaction may still be ordered before, after a winning commit.

    Appends whose exemption the winning commit ended have been tested and match no read.
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

    A commit that removes a file of the append has read it, regardless of its recorded version and
    predicate. Any other commit has not if it read an earlier version, or if its predicate rules out
    every file of the append.
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
    """Return the transaction's reads a file may hold rows of; the others provably match none."""
    return tuple(read for read, skipper in current.tested_reads if may_hold(skipper, add))


def reads_rows_of(current: CurrentTransaction, winner: WinningCommit) -> bool:
    """Return whether statistics prove that a read of this transaction matches an added row."""
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
    """Yield the files a winning commit added, but no restated ones this transaction read or removes.

    Restating a file to fill in row ids or statistics moves and changes no row. RESTORE always
    brings rows back, and a file with another deletion vector than this transaction's is another
    file.
    """
    if operation_named(winner.operation).replaces_state:
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
