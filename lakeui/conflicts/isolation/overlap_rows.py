"""Overlaps with both sides named, and how each ended."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Q

from engine.conflict_facts import Verdict
from lakeui.catalog.models import Commit, Table
from lakeui.conflicts.isolation.overlaps import CountedOverlap
from lakeui.conflicts.models import Conflict
from lakeui.conflicts.version_effects import conflicts_of

ENDS = (Verdict.PASSES, Verdict.RESOLVED, Verdict.CONFLICT)
"""Possible results of an overlap."""


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
