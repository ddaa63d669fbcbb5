"""A table's commits and aborted attempts by bucket of time: the data of its history chart."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

from django.db.models import Count, Q
from django.utils import timezone

from lakeui.catalog.models import Table
from lakeui.conflicts.models import Conflict


@dataclass(frozen=True, slots=True)
class TimelineRange:
    """A range of time up to now, and the width of its buckets."""

    span: timedelta
    width: timedelta
    bucket_name: str


RANGES: Mapping[str, TimelineRange] = {
    "6h": TimelineRange(timedelta(hours=6), timedelta(minutes=10), "10 minutes"),
    "24h": TimelineRange(timedelta(hours=24), timedelta(minutes=30), "half hour"),
    "7d": TimelineRange(timedelta(days=7), timedelta(hours=4), "4 hours"),
    "30d": TimelineRange(timedelta(days=30), timedelta(hours=12), "half day"),
}


class OperationCommits(NamedTuple):
    """An operation as logged, and how many commits did it."""

    operation: str
    commits: int


@dataclass(frozen=True, slots=True)
class TimeBucket:
    """`operations`: the most frequent first."""

    start: datetime
    operations: tuple[OperationCommits, ...]
    aborted: int

    @property
    def commit_count(self) -> int:
        return sum(n for _, n in self.operations)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitTimeline:
    """From `start` to the end of the current bucket; `buckets` omits empty ones.

    `resolved` and `aborted` count conflicts, `beaten` the versions that aborted others.
    """

    name: str
    start: datetime
    width: timedelta
    places: int
    buckets: tuple[TimeBucket, ...]
    resolved: int
    aborted: int
    beaten: int

    @property
    def end(self) -> datetime:
        return self.start + self.width * self.places

    @property
    def operations(self) -> list[OperationCommits]:
        """All buckets together, the most frequent first."""
        total: Counter[str] = Counter()
        for bucket in self.buckets:
            total.update(dict(bucket.operations))
        return _rank_operations(total)

    @property
    def commit_count(self) -> int:
        return sum(bucket.commit_count for bucket in self.buckets)


def commit_timeline(table: Table, name: str, now: datetime) -> CommitTimeline:
    """Return the timeline of a named range before `now`, in buckets at the reader's round times."""
    start = _start(RANGES[name], now)
    commits = table.commits.filter(committed_at__gte=start, committed_at__lte=now).order_by()
    conflicts = table.conflicts.filter(occurred_at__gte=start, occurred_at__lte=now).order_by()
    aborted = conflicts.filter(kind=Conflict.Kind.ABORTED).values_list("occurred_at", flat=True)
    sums = conflicts.aggregate(
        resolved=Count("pk", Q(kind=Conflict.Kind.RESOLVED)),
        beaten=Count("winning_version", ~Q(kind=Conflict.Kind.RESOLVED), distinct=True),
    )
    dated = commits.values_list("committed_at", "operation").iterator()
    return timeline_of(name, now, dated, aborted, **sums)


def timeline_of(
    name: str,
    now: datetime,
    commits: Iterable[tuple[datetime | None, str]],
    aborted_at: Iterable[datetime],
    *,
    resolved: int = 0,
    beaten: int = 0,
) -> CommitTimeline:
    """Return the timeline of given commits and aborts, without those outside or without time."""
    chosen = RANGES[name]
    start, places = _start(chosen, now), chosen.span // chosen.width
    counts: dict[int, Counter[str]] = defaultdict(Counter)
    for moment, operation in commits:
        if moment is not None:
            counts[(moment - start) // chosen.width][operation] += 1
    aborted = Counter((moment - start) // chosen.width for moment in aborted_at)
    inside = [i for i in sorted({*counts, *aborted}) if 0 <= i < places]
    buckets = (
        TimeBucket(start + i * chosen.width, tuple(_rank_operations(counts[i])), aborted[i])
        for i in inside
    )
    return CommitTimeline(
        name=name,
        start=start,
        width=chosen.width,
        places=places,
        buckets=tuple(buckets),
        resolved=resolved,
        aborted=sum(aborted[i] for i in inside),
        beaten=beaten,
    )


def usual_range(table: Table, now: datetime) -> str:
    """Return a day; for a quieter table, the shortest range that includes its last commit."""
    if table.last_commit_at is None:
        return "24h"
    fitting = (n for n, r in RANGES.items() if n != "6h" and table.last_commit_at > now - r.span)
    return next(fitting, "30d")


def _rank_operations(counts: Counter[str]) -> list[OperationCommits]:
    return [OperationCommits(*pair) for pair in counts.most_common()]


def _start(chosen: TimelineRange, now: datetime) -> datetime:
    return _floor(now, chosen.width) + chosen.width - chosen.span


def _floor(moment: datetime, width: timedelta) -> datetime:
    local = timezone.localtime(moment)
    midnight = local.replace(hour=0, minute=0, second=0, microsecond=0)
    return midnight + (local - midnight) // width * width
