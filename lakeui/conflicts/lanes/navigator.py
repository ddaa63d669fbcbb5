"""The surroundings of the shown versions: commits and aborted attempts by bucket of time."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from lakeui.catalog.models import Table
from lakeui.conflicts.models import Conflict

BUCKETS = 96
MAX_VERSIONS = 3_000
DAY = timedelta(hours=24)
_SHORTEST = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class NavigatorBucket:
    """A bucket of time from `start`: versions `first` to `last` landed; None without any."""

    start: datetime
    first: int | None
    last: int | None
    commits: int
    aborted: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Navigator:
    """The last 24 hours if they include the shown versions, else all recorded time.

    A table younger than a day is shown since its first version, so that nothing stays blank.
    `passages` omits empty buckets. `is_capped`: more is recorded than the latest `MAX_VERSIONS`
    counted versions.
    """

    start: datetime
    end: datetime
    is_day: bool
    is_capped: bool
    passages: tuple[NavigatorBucket, ...]

    @property
    def width(self) -> timedelta:
        """How long a bucket is."""
        return (self.end - self.start) / BUCKETS


def navigator(table: Table, began: datetime | None, now: datetime) -> Navigator | None:
    """Return the surroundings; `began` is the first shown version's time. None without times."""
    is_day = began is not None and began >= now - DAY
    commits = table.commits.filter(committed_at__isnull=False)
    commits = commits.filter(committed_at__gte=now - DAY) if is_day else commits
    rows = list(
        commits.order_by("-version").values_list("version", "committed_at")[: MAX_VERSIONS + 1]
    )
    moments = [(version, moment) for version, moment in rows[:MAX_VERSIONS] if moment is not None]
    if not moments:
        return None
    earliest = min(moment for _, moment in moments)
    is_young = moments[-1][0] <= (table.earliest_version or 0)
    start = now - DAY if is_day and not is_young and len(rows) <= MAX_VERSIONS else earliest
    end = max(now if is_day else max(moment for _, moment in moments), start + _SHORTEST)
    aborted = table.conflicts.filter(occurred_at__range=(start, end)).exclude(
        kind=Conflict.Kind.RESOLVED
    )
    aborted_at = aborted.order_by("-occurred_at").values_list("occurred_at", flat=True)[
        :MAX_VERSIONS
    ]
    return Navigator(
        start=start,
        end=end,
        is_day=is_day,
        is_capped=len(rows) > MAX_VERSIONS,
        passages=tuple(_passages(moments, aborted_at, start, end)),
    )


def _passages(
    moments: Iterable[tuple[int, datetime]],
    aborted_at: Iterable[datetime],
    start: datetime,
    end: datetime,
) -> Iterable[NavigatorBucket]:
    width = (end - start) / BUCKETS
    landed: dict[int, list[int]] = defaultdict(list)
    aborted: dict[int, int] = defaultdict(int)
    for version, moment in moments:
        landed[_place(moment, start, width)].append(version)
    for moment in aborted_at:
        aborted[_place(moment, start, width)] += 1
    for place in sorted({*landed, *aborted}):
        inside = landed.get(place, [])
        first, last = (min(inside), max(inside)) if inside else (None, None)
        yield NavigatorBucket(
            start + place * width, first, last, len(inside), aborted.get(place, 0)
        )


def _place(moment: datetime, start: datetime, width: timedelta) -> int:
    return min(max((moment - start) // width, 0), BUCKETS - 1)
