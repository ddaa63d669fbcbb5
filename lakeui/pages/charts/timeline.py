"""Commits by bucket of time, stacked by family, with a cross for each aborted attempt."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.utils import timezone

from engine.vocabulary import Family
from lakeui.conflicts.commit_timeline import RANGES, CommitTimeline, TimeBucket
from lakeui.pages.operations import family_of

_LEFT, _BASE, _HEIGHT, _GAP = 2.2, 80, 70, 1
_CROSSES, _CROSS_STEP, _NARROWEST = 3, 9, 0.4
Moments = tuple[datetime, datetime]


@dataclass(frozen=True, slots=True)
class TimelineBar:
    family: str
    x: float
    y: float
    height: float


@dataclass(frozen=True, slots=True)
class TimelineLine:
    y: float
    label: str


@dataclass(frozen=True, slots=True)
class TimelinePoint:
    x: float
    y: float
    label: str
    is_spare: bool = False


@dataclass(frozen=True, slots=True)
class TimelineColumn:
    """A bucket: its position, its contents, and the query that lists it alone."""

    x: float
    title: str
    since: str
    until: str
    start: datetime
    counts: tuple[tuple[str, int], ...]
    aborted: int


@dataclass(frozen=True, slots=True)
class TimelineChart:
    """`window` is where on it the versions listed below lie: its left edge and width."""

    bars: tuple[TimelineBar, ...]
    grid: tuple[TimelineLine, ...]
    crosses: tuple[TimelinePoint, ...]
    labels: tuple[TimelinePoint, ...]
    columns: tuple[TimelineColumn, ...]
    window: tuple[float, float] | None
    bar_width: float
    step: float
    bucket_name: str


def draw_timeline(timeline: CommitTimeline, listed: Moments | None = None) -> TimelineChart:
    """Draw a timeline; `listed` are the times of the oldest and latest version in the list."""
    step = (100 - _LEFT) / timeline.places
    top = _round_top(max((bucket.commit_count for bucket in timeline.buckets), default=0))
    places = [_place(bucket.start, timeline) for bucket in timeline.buckets]
    placed = list(zip(places, timeline.buckets, strict=True))
    return TimelineChart(
        bars=tuple(
            bar for i, b in placed for bar in _stack(_families(b), _LEFT + (i + 0.15) * step, top)
        ),
        grid=tuple(
            TimelineLine(_BASE - _HEIGHT * part / 2, str(top * part // 2)) for part in range(3)
        ),
        crosses=tuple(cross for i, b in placed for cross in _crosses(b, i, step, top)),
        labels=tuple(_time_labels(timeline, step)),
        columns=tuple(_column(b, timeline.width, _LEFT + i * step) for i, b in placed),
        window=_window(timeline, listed, step) if listed else None,
        bar_width=step * 0.7,
        step=step,
        bucket_name=RANGES[timeline.name].bucket_name,
    )


def _place(moment: datetime, timeline: CommitTimeline) -> int:
    return (moment - timeline.start) // timeline.width


def _families(bucket: TimeBucket) -> Counter[str]:
    counts: Counter[str] = Counter()
    for operation, n in bucket.operations:
        counts[family_of(operation)] += n
    return counts


def _stack(counts: Counter[str], x: float, top: int) -> Iterable[TimelineBar]:
    y = float(_BASE)
    for family in Family:
        if counts[family]:
            height = _HEIGHT * counts[family] / top
            y -= height
            yield TimelineBar(family, x, y, max(height - _GAP, 1))


def _crosses(bucket: TimeBucket, place: int, step: float, top: int) -> Iterable[TimelinePoint]:
    y = _BASE - _HEIGHT * bucket.commit_count / top - 7
    for n in range(min(bucket.aborted, _CROSSES)):
        yield TimelinePoint(_LEFT + (place + 0.5) * step, y - _CROSS_STEP * n, "")


def _column(bucket: TimeBucket, width: timedelta, x: float) -> TimelineColumn:
    start, end = timezone.localtime(bucket.start), timezone.localtime(bucket.start + width)
    counts = _families(bucket)
    named = tuple((family, counts[family]) for family in Family if counts[family])
    said = [f"{n} {operation or 'not recorded'}" for operation, n in bucket.operations]
    said += [f"{bucket.aborted} aborted"] if bucket.aborted else []
    title = f"{start.day} {start:%b %H:%M} to {end:%H:%M}: {', '.join(said)}"
    return TimelineColumn(x, title, _field(start), _field(end), bucket.start, named, bucket.aborted)


def _field(moment: datetime) -> str:
    """Format a time for a field in the reader's zone."""
    return moment.strftime("%Y-%m-%dT%H:%M")


def _window(timeline: CommitTimeline, listed: Moments, step: float) -> tuple[float, float] | None:
    oldest, newest = listed
    if newest < timeline.start or oldest >= timeline.end:
        return None
    first = max(_place(oldest, timeline), 0)
    last = min(_place(newest, timeline), timeline.places - 1)
    return _LEFT + first * step, max((last + 1 - first) * step, _NARROWEST)


def _time_labels(timeline: CommitTimeline, step: float) -> Iterable[TimelinePoint]:
    span = timeline.width * timeline.places
    every = {6: 1, 24: 3, 168: 24}.get(int(span.total_seconds() // 3600), 120)
    moment = timezone.localtime(timeline.start).replace(minute=0, second=0, microsecond=0)
    while moment < timeline.start or moment.hour % min(every, 24):
        moment += timedelta(hours=1)
    n = 0
    while moment < timeline.end:
        x = _LEFT + (moment - timeline.start) / timeline.width * step
        label = f"{moment.day} {moment:%b}" if moment.hour == 0 else f"{moment:%H:%M}"
        if x < 97:
            yield TimelinePoint(x, _BASE, label, n % 2 == 1)
        moment += timedelta(hours=every)
        n += 1


def _round_top(highest: int) -> int:
    for top in (2, 4, 10, 20, 40, 100, 200, 400, 1000, 2000, 4000, 10_000):
        if highest <= top:
            return top
    return highest + highest % 2
