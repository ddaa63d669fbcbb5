"""Out-of-order versions: versions that no prefix of the serial order explains, over days.

At WriteSerializable a blind append may be ordered after a write that is recorded later and did not
see it. Whoever read a version in between saw the append without that write. Which pairs come into
question is told by narrow columns; only the texts of UPDATEs, DELETEs and what they passed over are
read, the latest of them up to a budget.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from engine.conflicts.candidates import counts_appends, matching_reads
from engine.conflicts.isolation import IsolationLevel
from engine.conflicts.replay_history import as_current
from engine.conflicts.transaction_info import CurrentTransaction, WinningCommit
from lakeui.catalog.models import Commit, Table
from lakeui.conflicts.assessment import level_of
from lakeui.conflicts.isolation.overlaps import Landed, Overlaps
from lakeui.conflicts.replay.recorded_history import decoded, recorded_table
from lakeui.conflicts.statements.kinds import DELETE, UPDATE

MAX_TEXTS = 200
MAX_BYTES = 2 * 1024**2
_SAY_WHAT_THEY_READ = frozenset({UPDATE, DELETE})


@dataclass(frozen=True, slots=True)
class Reordered:
    """Blind append `version` is ordered after `later`: the versions from the one to before the other.

    `is_known`: what the later write read is recorded, and statistics do not rule the append out.
    """

    version: int
    later: int
    kind: str
    is_known: bool

    @property
    def last(self) -> int:
        """The last version that shows the one without the other."""
        return self.later - 1


@dataclass(frozen=True, slots=True)
class ReorderedVersions:
    """Out-of-order versions, the known ones first, then the latest. `passed` are the later writes, each known to have passed one over or not.

    `unread` pairs were not judged: their commits are beyond the budget, or not kept whole.
    """

    pairs: tuple[Reordered, ...]
    passed: Mapping[int, tuple[str, bool]]
    unread: int

    @property
    def known(self) -> int:
        return sum(version.is_known for version in self.pairs)


@dataclass(frozen=True, slots=True)
class Told:
    """A reordered pair in full: both commits, and how many rows may be concerned at most."""

    pair: Reordered
    append: Commit | None
    later: Commit | None

    @property
    def rows_at_most(self) -> int | None:
        return self.append.rows_added if self.append else None

    @property
    def at(self) -> datetime | None:
        return self.later.committed_at if self.later else None


def reordered_versions(table: Table, overlaps: Overlaps) -> ReorderedVersions:
    """The reordered pairs of the window that was counted, in two queries at most."""
    pairs = list(_pairs(table, overlaps))
    judge = _Judge(table, [pair for pair in pairs if pair[0].kind in _SAY_WHAT_THEY_READ])
    last: dict[int, Reordered] = {}
    passed: dict[int, tuple[str, bool]] = {}
    unread = 0
    for later, append in pairs:  # the latest writes first: they stand for their appends
        passes = judge.passes(later, append)
        if passes is None:
            unread += 1
            continue
        if passes is False:
            continue
        is_known = later.kind in _SAY_WHAT_THEY_READ and judge.reads_are_recorded(later.version)
        last.setdefault(
            append.version, Reordered(append.version, later.version, later.kind, is_known)
        )
        before = passed.get(later.version, ("", False))[1]
        passed[later.version] = (later.kind, before or is_known)
    ordered = tuple(
        sorted(last.values(), key=lambda reordered: (not reordered.is_known, -reordered.version))
    )
    return ReorderedVersions(ordered, passed, unread)


def told(table: Table, pairs: Sequence[Reordered]) -> list[Told]:
    """The pairs with their commits, in one query."""
    versions = {pair.version for pair in pairs} | {pair.later for pair in pairs}
    rows = table.commits.filter(version__in=versions).only(
        "table", "version", "operation", "predicate", "user_name", "committed_at", "rows_added"
    )
    commits = {row.version: row for row in rows}
    return [Told(pair, commits.get(pair.version), commits.get(pair.later)) for pair in pairs]


def _pairs(table: Table, overlaps: Overlaps) -> Iterator[tuple[Landed, Landed]]:
    """A write and a blind append that it did not see, for every one that had to be ordered so."""
    places = {commit.version: place for place, commit in enumerate(overlaps.landed)}
    for write in reversed(overlaps.writes):
        place = places.get(write.before)
        if write.conflict_id is not None or place is None:
            continue
        later = overlaps.landed[place]
        if later.is_blind_append or not later.changes_data or _is_strict(later, table):
            continue
        for commit in reversed(overlaps.landed[:place]):
            if commit.version <= write.read_version:
                break
            if commit.is_blind_append and commit.files_added:
                yield later, commit


def _is_strict(later: Landed, table: Table) -> bool:
    return counts_appends(level_of(later.isolation_level, table))


class _Judge:
    """Says whether a write should have read an append, from the texts that the mirror keeps."""

    def __init__(self, table: Table, pairs: Iterable[tuple[Landed, Landed]]) -> None:
        self._recorded = recorded_table(table)
        versions = dict.fromkeys(commit.version for pair in pairs for commit in pair)
        self._commits = _texts(table, list(versions)[:MAX_TEXTS])
        self._readers: dict[tuple[str, str, bool], tuple[CurrentTransaction, bool]] = {}

    def passes(self, later: Landed, append: Landed) -> bool | None:
        """Whether it may have to; None where a text is not there to tell."""
        if later.kind not in _SAY_WHAT_THEY_READ:
            return True
        added, reader = self._commits.get(append.version), self._reader(later.version)
        if added is None or reader is None:
            return None
        return any(matching_reads(reader[0], add) for add in added.adds)

    def reads_are_recorded(self, version: int) -> bool:
        reader = self._reader(version)
        return reader is not None and reader[1]

    def _reader(self, version: int) -> tuple[CurrentTransaction, bool] | None:
        """What a write read; those of one condition read the same, and it is parsed once."""
        commit = self._commits.get(version)
        if commit is None:
            return None
        parameters = commit.info.operation_parameters or {}
        key = commit.operation, str(parameters.get("predicate")), commit.changes_data
        if key not in self._readers:
            level = IsolationLevel.WRITE_SERIALIZABLE
            self._readers[key] = as_current(commit, self._recorded, level)
        return self._readers[key]


def _texts(table: Table, versions: Sequence[int]) -> Mapping[int, WinningCommit]:
    """Their commits, in the order given, until they are too long together."""
    if not versions:
        return {}
    sizes = dict(table.commits.filter(version__in=versions).values_list("version", "raw_bytes"))
    taken, left = [], MAX_BYTES
    for version in versions:
        left -= sizes.get(version, 0)
        if left < 0:
            break
        taken.append(version)
    rows = table.commits.filter(version__in=taken).only("table", "version", "raw", "raw_bytes")
    read = ((row.version, decoded(row)) for row in rows)
    return {version: commit for version, commit in read if commit is not None}
