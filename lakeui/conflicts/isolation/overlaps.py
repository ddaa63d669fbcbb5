"""Overlaps of writes: one began before another landed, and so did not see it.

A commit overlaps with every version between the one it read and its own. An aborted attempt
overlaps with those up to its winning commit. Both are counted from columns of the mirror and of the
recorded conflicts, with any result, and listed with both sides named and the end of each.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import islice
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from django.db.models import Case, Q, QuerySet, TextField, Value, When
from django.db.models.fields.json import KeyTextTransform
from django.utils import timezone

from engine.conflict_facts import Verdict
from lakeui.catalog.models import Commit, Table
from lakeui.conflicts.models import Conflict
from lakeui.conflicts.statements.text import KINDS, OTHER, statement_kind
from lakeui.conflicts.version_effects import conflicts_of

DEFAULT_DAYS = 30
MAX_VERSIONS = 5_000
MAX_ABORTED = 5_000
_ALL_KINDS = (*KINDS, OTHER)
_PLACE = {kind: place for place, kind in enumerate(_ALL_KINDS)}

ENDS = (Verdict.PASSES, Verdict.RESOLVED, Verdict.CONFLICT)
"""Possible results of an overlap."""


class CountedCommit(NamedTuple):
    """A commit with the columns for counting overlaps."""

    version: int
    kind: str
    read_version: int | None
    is_blind_append: bool | None
    changes_data: bool
    isolation_level: str
    files_added: int


@dataclass(frozen=True, slots=True)
class OverlappingWrite:
    """A commit, or an attempt aborted by `before`; then it has a conflict.

    It overlaps with the versions after `read_version` and before `before`; for an aborted attempt,
    its winning commit too.
    """

    kind: str
    read_version: int
    before: int
    conflict_id: int | None = None


@dataclass(frozen=True, slots=True)
class CountedOverlap:
    """`version` is the write's own; None if it was aborted, with its `conflict_id`."""

    version: int | None
    winning_version: int
    conflict_id: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Overlaps:
    """The overlaps of a window: its latest `MAX_VERSIONS` versions, from `first` to `last`.

    `counts` is by the kinds of both sides, the later first. `unrecorded` commits do not record
    their read version: their overlaps are not counted. `is_capped`: the window holds more.
    """

    since: datetime
    first: int | None
    last: int | None
    commits: int
    unrecorded: int
    is_capped: bool
    counts: Mapping[tuple[str, str], int]
    landed: Sequence[CountedCommit] = field(repr=False)
    writes: Sequence[OverlappingWrite] = field(repr=False)

    @property
    def versions(self) -> list[int]:
        """The counted versions, oldest first."""
        return [write.version for write in self.landed]

    @property
    def total(self) -> int:
        """All overlaps, including statements outside the matrix."""
        return sum(self.counts.values())

    @property
    def elsewhere(self) -> int:
        """Overlaps with a side outside the matrix."""
        return sum(n for pair, n in self.counts.items() if OTHER in pair)

    def iter_pair(self, current: str, winner: str) -> Iterator[CountedOverlap]:
        """Iterate over the overlaps of two kinds, the latest first."""
        versions = self.versions
        for write in sorted(self.writes, key=lambda candidate: -candidate.before):
            if write.kind != current:
                continue
            low, high = _span(versions, write)
            became = write.before if write.conflict_id is None else None
            for commit in reversed(self.landed[low:high]):
                if commit.kind == winner:
                    yield CountedOverlap(became, commit.version, write.conflict_id)


def overlaps_of(table: Table, days: int = DEFAULT_DAYS) -> Overlaps:
    """Return the overlaps of the last days, always in two queries."""
    since = timezone.now() - timedelta(days=days)
    landed = list_commits(table.commits.filter(committed_at__gte=since), MAX_VERSIONS + 1)
    is_capped = len(landed) > MAX_VERSIONS
    landed = landed[:MAX_VERSIONS][::-1]
    writes = [*_iter_overlapping_writes(landed), *_iter_aborted_writes(table, since)]
    return Overlaps(
        since=since,
        first=landed[0].version if landed else None,
        last=landed[-1].version if landed else None,
        commits=len(landed),
        unrecorded=sum(commit.read_version is None and commit.version > 0 for commit in landed),
        is_capped=is_capped,
        counts=_counts(writes, landed),
        landed=landed,
        writes=writes,
    )


def latest_between(
    overlaps: Overlaps, current: str, winner: str, count: int
) -> list[CountedOverlap]:
    """Return at most `count` overlaps of two kinds, the latest first."""
    return list(islice(overlaps.iter_pair(current, winner), count))


def list_commits(commits: QuerySet[Commit], count: int) -> list[CountedCommit]:
    """Return the latest of some commits, the latest first, at most `count`."""
    z_order = Case(
        When(operation="OPTIMIZE", then=KeyTextTransform("zOrderBy", "operation_parameters")),
        default=Value(None),
        output_field=TextField(),
    )
    rows = (
        commits.annotate(z_order=z_order)
        .order_by("-version")
        .values_list(
            "version",
            "operation",
            "z_order",
            "read_version",
            "is_blind_append",
            "changes_data",
            "isolation_level",
            "files_added",
        )
    )
    return [
        CountedCommit(
            version,
            statement_kind(operation, is_blind_append=blind, z_order=order),
            read,
            blind,
            changes,
            level,
            added,
        )
        for version, operation, order, read, blind, changes, level, added in rows[:count]
    ]


def _iter_overlapping_writes(landed: Iterable[CountedCommit]) -> Iterator[OverlappingWrite]:
    """Iterate over commits that did not see all earlier ones."""
    for commit in landed:
        if commit.read_version is not None and commit.read_version < commit.version - 1:
            yield OverlappingWrite(commit.kind, commit.read_version, commit.version)


def _iter_aborted_writes(table: Table, since: datetime) -> Iterator[OverlappingWrite]:
    """Iterate over the latest attempts aborted by a known version."""
    aborted = conflicts_of(table).filter(occurred_at__gte=since, winning_version__isnull=False)
    rows = aborted.exclude(kind=Conflict.Kind.RESOLVED).order_by("-occurred_at")
    for pk, operation, read_version, winning_version in rows.values_list(
        "pk", "current_operation", "read_version", "winning_version"
    )[:MAX_ABORTED]:
        if winning_version is None:
            continue
        read = winning_version - 1 if read_version is None else read_version
        yield OverlappingWrite(statement_kind(operation), read, winning_version, pk)


def _counts(
    writes: Iterable[OverlappingWrite], landed: Sequence[CountedCommit]
) -> Mapping[tuple[str, str], int]:
    """Count by sums up to each version, so that a long interval costs no more than a short one."""
    marks = np.zeros((len(landed) + 1, len(_ALL_KINDS)), dtype=np.int64)
    for place, commit in enumerate(landed):
        marks[place + 1, _PLACE[commit.kind]] = 1
    up_to, versions = marks.cumsum(axis=0), [commit.version for commit in landed]
    sums: npt.NDArray[np.int64] = np.zeros((len(_ALL_KINDS), len(_ALL_KINDS)), dtype=np.int64)
    for write in writes:
        low, high = _span(versions, write)
        if high > low:
            sums[_PLACE[write.kind]] += up_to[high] - up_to[low]
    return {
        (current, winner): int(sums[_PLACE[current], _PLACE[winner]])
        for current in _ALL_KINDS
        for winner in _ALL_KINDS
        if sums[_PLACE[current], _PLACE[winner]]
    }


def _span(versions: Sequence[int], write: OverlappingWrite) -> tuple[int, int]:
    """Return the indexes of the versions overlapping a write: the first, and after the last."""
    end = bisect_left if write.conflict_id is None else bisect_right
    return bisect_right(versions, write.read_version), end(versions, write.before)


@dataclass(frozen=True, slots=True, kw_only=True)
class OverlapRow:
    """An overlap and its result, one of `ENDS`.

    `version` is None if the later write was aborted. `at` is when it ended. `row_count` counts the
    compared rows, None if none were compared or it is not recorded.
    """

    verdict: Verdict
    version: int | None
    operation: str
    user_name: str
    winning_version: int
    winner_operation: str
    winner_user_name: str
    at: datetime | None
    conflict_id: int | None
    row_count: int | None


def overlap_rows(table: Table, overlaps: Sequence[CountedOverlap]) -> list[OverlapRow]:
    """Return the overlaps in full, always in three queries."""
    commits = _commits(table, overlaps)
    aborted = _load_aborted(table, overlaps)
    resolved = _load_resolved(table, overlaps)
    return [_row(overlap, commits, aborted, resolved) for overlap in overlaps]


def _row(
    overlap: CountedOverlap,
    commits: Mapping[int, Commit],
    aborted: Mapping[int, Conflict],
    resolved: Mapping[tuple[int, int], Conflict],
) -> OverlapRow:
    winner = commits.get(overlap.winning_version)
    attempt = aborted.get(overlap.conflict_id or 0)
    mine = commits.get(overlap.version) if overlap.version is not None else None
    joint = resolved.get((overlap.version or 0, overlap.winning_version))
    on_record = attempt or joint
    ended_it = attempt is not None and attempt.winning_version == overlap.winning_version
    return OverlapRow(
        verdict=_verdict(ended_it=ended_it, is_resolved=joint is not None),
        version=overlap.version,
        operation=mine.operation if mine else attempt.current_operation if attempt else "",
        user_name=mine.user_name if mine else attempt.current_user_name if attempt else "",
        winning_version=overlap.winning_version,
        winner_operation=winner.operation if winner else "",
        winner_user_name=winner.user_name if winner else "",
        at=mine.committed_at if mine else attempt.occurred_at if attempt else None,
        conflict_id=on_record.pk if on_record else None,
        row_count=on_record.row_count if on_record else None,
    )


def _verdict(*, ended_it: bool, is_resolved: bool) -> Verdict:
    if ended_it:
        return Verdict.CONFLICT
    return Verdict.RESOLVED if is_resolved else Verdict.PASSES


def _commits(table: Table, overlaps: Sequence[CountedOverlap]) -> Mapping[int, Commit]:
    versions = {overlap.winning_version for overlap in overlaps} | {
        overlap.version for overlap in overlaps if overlap.version is not None
    }
    rows = table.commits.filter(version__in=versions)
    narrow = rows.only("table", "version", "operation", "user_name", "committed_at")
    return {row.version: row for row in narrow}


def _load_aborted(table: Table, overlaps: Sequence[CountedOverlap]) -> Mapping[int, Conflict]:
    keys = {overlap.conflict_id for overlap in overlaps if overlap.conflict_id is not None}
    return {row.pk: row for row in table.conflicts.filter(pk__in=keys).defer("facts")}


def _load_resolved(
    table: Table, overlaps: Sequence[CountedOverlap]
) -> Mapping[tuple[int, int], Conflict]:
    """Return resolved conflicts by the version that resolved them, and the winning version."""
    winners = {overlap.winning_version for overlap in overlaps}
    versions = {overlap.version for overlap in overlaps if overlap.version is not None}
    became = Q(job__committed_version__in=versions) | Q(attempted_version__in=versions)
    joints = conflicts_of(table).filter(
        became, kind=Conflict.Kind.RESOLVED, winning_version__in=winners
    )
    conflicts: dict[tuple[int, int], Conflict] = {}
    narrow = joints.select_related("job").only(
        "table",
        "kind",
        "row_count",
        "attempted_version",
        "winning_version",
        "job__committed_version",
    )
    for row in narrow:
        if row.became is not None and row.winning_version is not None:
            conflicts[row.became, row.winning_version] = row
    return conflicts
