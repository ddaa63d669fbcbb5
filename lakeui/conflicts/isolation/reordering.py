"""Out-of-order versions: versions whose state no prefix of the history explains.

At WriteSerializable a blind append may take effect after a write that is recorded later and did not
see it. That write's version is out of order: its rows differ from those of the commits up to it in
serial order. Narrow columns select the candidate pairs; only the texts of UPDATEs, DELETEs and the
appends they passed over are read, the latest of them up to a budget.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from engine.conflicts.candidates import counts_appends, find_matching_reads
from engine.conflicts.isolation import IsolationLevel
from engine.conflicts.predict.replay_history import rebuild_transaction
from engine.conflicts.transaction_info import CurrentTransaction, WinningCommit
from lakeui.catalog.models import Commit, Table
from lakeui.conflicts.assessment import level_of
from lakeui.conflicts.isolation.overlaps import MAX_VERSIONS, CountedCommit, Overlaps, list_commits
from lakeui.conflicts.replay.recorded_history import build_recorded_table, decode_commit
from lakeui.conflicts.statements.text import DELETE, UPDATE

MAX_TEXTS = 200
MAX_BYTES = 2 * 1024**2
_SAY_WHAT_THEY_READ = frozenset({UPDATE, DELETE})


@dataclass(frozen=True, slots=True)
class OutOfOrderVersion:
    """A version that did not see `appends`, recorded before it and effective after it.

    `is_known`: its reads are recorded, and statistics do not rule the appends out.
    """

    version: int
    appends: tuple[int, ...]
    kind: str
    is_known: bool


@dataclass(frozen=True, slots=True)
class OutOfOrderVersions:
    """Out-of-order versions, the known ones first, then the latest.

    `unread` pairs were not judged: their commits are beyond the budget, or not stored completely.
    """

    versions: tuple[OutOfOrderVersion, ...]
    unread: int

    @property
    def known(self) -> int:
        return sum(version.is_known for version in self.versions)


@dataclass(frozen=True, slots=True)
class OutOfOrderRow:
    """An out-of-order version in full: its commit, and those of the appends that it passed over."""

    order: OutOfOrderVersion
    commit: Commit | None
    appends: tuple[Commit, ...]

    @property
    def rows_at_most(self) -> int | None:
        """The rows of the appends; None if one has no count."""
        counts = [append.rows_added for append in self.appends]
        if len(counts) < len(self.order.appends) or None in counts:
            return None
        return sum(count or 0 for count in counts)

    @property
    def at(self) -> datetime | None:
        return self.commit.committed_at if self.commit else None


def find_out_of_order(table: Table, overlaps: Overlaps) -> OutOfOrderVersions:
    """Return the out-of-order versions of the counted window, in two queries at most."""
    return _judge_pairs(table, _pairs(table, overlaps))


def find_out_of_order_among(
    table: Table, commits: Iterable[Commit]
) -> Mapping[int, OutOfOrderVersion]:
    """Return the out-of-order ones of these commits, by version; no query if none can be."""
    seen = {
        commit.version: commit.read_version
        for commit in commits
        if commit.read_version is not None and commit.read_version < commit.version - 1
    }
    if not seen:
        return {}
    span = table.commits.filter(version__gt=min(seen.values()), version__lte=max(seen))
    landed = list_commits(span, MAX_VERSIONS)
    appends = [commit for commit in landed if commit.is_blind_append and commit.files_added]
    pairs = [
        (later, append)
        for later in landed
        if later.version in seen and _may_pass_over(later, table)
        for append in appends
        if seen[later.version] < append.version < later.version
    ]
    return {order.version: order for order in _judge_pairs(table, pairs).versions}


def rows_of_versions(table: Table, versions: Sequence[OutOfOrderVersion]) -> list[OutOfOrderRow]:
    """Return the versions with their commits, in one query."""
    named = {version.version for version in versions}
    named |= {append for version in versions for append in version.appends}
    rows = table.commits.filter(version__in=named).only(
        "table", "version", "operation", "predicate", "user_name", "committed_at", "rows_added"
    )
    commits = {row.version: row for row in rows}
    return [
        OutOfOrderRow(
            order,
            commits.get(order.version),
            tuple(commits[append] for append in order.appends if append in commits),
        )
        for order in versions
    ]


def _judge_pairs(
    table: Table, candidates: Iterable[tuple[CountedCommit, CountedCommit]]
) -> OutOfOrderVersions:
    """Return the out-of-order versions among pairs of a write and an unseen append."""
    pairs = list(candidates)
    judge = _Judge(table, [pair for pair in pairs if pair[0].kind in _SAY_WHAT_THEY_READ])
    passed: dict[CountedCommit, list[int]] = {}
    unread = 0
    for later, append in pairs:
        passes = judge.passes(later, append)
        if passes is None:
            unread += 1
        elif passes:
            passed.setdefault(later, []).append(append.version)
    versions = (
        OutOfOrderVersion(
            later.version,
            tuple(sorted(appends)),
            later.kind,
            later.kind in _SAY_WHAT_THEY_READ and judge.reads_are_recorded(later.version),
        )
        for later, appends in passed.items()
    )
    ordered = sorted(versions, key=lambda order: (not order.is_known, -order.version))
    return OutOfOrderVersions(tuple(ordered), unread)


def _pairs(table: Table, overlaps: Overlaps) -> Iterator[tuple[CountedCommit, CountedCommit]]:
    """Yield each write with each blind append that it did not see and must be ordered before."""
    places = {commit.version: place for place, commit in enumerate(overlaps.landed)}
    for write in reversed(overlaps.writes):
        place = places.get(write.before)
        if write.conflict_id is not None or place is None:
            continue
        later = overlaps.landed[place]
        if not _may_pass_over(later, table):
            continue
        for commit in reversed(overlaps.landed[:place]):
            if commit.version <= write.read_version:
                break
            if commit.is_blind_append and commit.files_added:
                yield later, commit


def _may_pass_over(later: CountedCommit, table: Table) -> bool:
    """Whether a commit changes rows at a level that may order it before appends."""
    if later.is_blind_append or not later.changes_data:
        return False
    return not counts_appends(level_of(later.isolation_level, table))


class _Judge:
    """Decides whether a write should have read an append, from the mirror's texts."""

    def __init__(self, table: Table, pairs: Iterable[tuple[CountedCommit, CountedCommit]]) -> None:
        self._recorded = build_recorded_table(table)
        versions = dict.fromkeys(commit.version for pair in pairs for commit in pair)
        self._commits = _texts(table, list(versions)[:MAX_TEXTS])
        self._readers: dict[tuple[str, str, bool], tuple[CurrentTransaction, bool]] = {}

    def passes(self, later: CountedCommit, append: CountedCommit) -> bool | None:
        """Return whether it may have to; None without a text."""
        if later.kind not in _SAY_WHAT_THEY_READ:
            return True
        added, reader = self._commits.get(append.version), self._reader(later.version)
        if added is None or reader is None:
            return None
        return any(find_matching_reads(reader[0], add) for add in added.adds)

    def reads_are_recorded(self, version: int) -> bool:
        reader = self._reader(version)
        return reader is not None and reader[1]

    def _reader(self, version: int) -> tuple[CurrentTransaction, bool] | None:
        """Return a write's reads; equal conditions are parsed once."""
        commit = self._commits.get(version)
        if commit is None:
            return None
        parameters = commit.info.operation_parameters or {}
        key = commit.operation, str(parameters.get("predicate")), commit.changes_data
        if key not in self._readers:
            level = IsolationLevel.WRITE_SERIALIZABLE
            self._readers[key] = rebuild_transaction(commit, self._recorded, level)
        return self._readers[key]


def _texts(table: Table, versions: Sequence[int]) -> Mapping[int, WinningCommit]:
    """Load their commits, in the given order, up to the budget of bytes."""
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
    read = ((row.version, decode_commit(row)) for row in rows)
    return {version: commit for version, commit in read if commit is not None}
