"""Charts of bars: commits by bucket of time, sizes of files, and commits of the last 24 hours.

Commits are stacked by family, with a cross for each aborted attempt. Sizes are in powers of two,
with small files hatched.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from urllib.parse import urlencode

from django.utils import timezone

from engine.vocabulary import Family
from lakeui.catalog.file_layout import SizeBin, size_bins
from lakeui.catalog.units import format_bytes
from lakeui.conflicts.commit_timeline import RANGES, CommitTimeline, TimeBucket
from lakeui.pages.operations import family_of

_LEFT, _BASE, _HEIGHT, _GAP = 2.2, 80, 70, 1
_CROSSES, _CROSS_STEP, _NARROWEST = 3, 9, 0.4
Moments = tuple[datetime, datetime]

_SIZES_HEIGHT, _SIZES_BASE, _LOWEST = 168, 192, 2

HOURS = 24
_GROUND = 18


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


@dataclass(frozen=True, slots=True)
class Bin:
    low_bytes: int
    high_bytes: int | None
    count: int
    size_bytes: int
    x: float
    width: float
    y: float
    height: float
    is_small: bool

    @property
    def name(self) -> str:
        low = format_bytes(self.low_bytes)
        if self.high_bytes is None:
            return f"{low} or more"
        return f"{low} to {format_bytes(self.high_bytes)}"

    @property
    def query(self) -> str:
        """The query for files of these sizes; both bounds are included."""
        bounds = {"min_size": self.low_bytes}
        if self.high_bytes is not None:
            bounds["max_size"] = self.high_bytes - 1
        return f"?{urlencode(bounds)}"

    @property
    def middle(self) -> float:
        return self.x + self.width / 2

    @property
    def right(self) -> float:
        """The position of its upper bound's label."""
        return self.x + self.width / 0.86

    @property
    def bound(self) -> str:
        return "" if self.high_bytes is None else format_bytes(self.high_bytes)

    @property
    def count_y(self) -> float:
        return self.y - 4


@dataclass(frozen=True, slots=True)
class Histogram:
    bins: tuple[Bin, ...]
    small_x: float
    highest: int


def draw_histogram(sizes: Iterable[int], small_bytes: int) -> Histogram:
    """Draw a bar for each bin of sizes, the highest as high as the chart."""
    ranges = size_bins(sizes)
    step, highest = 100 / len(ranges), max(size_bin.files for size_bin in ranges)
    bins = tuple(
        _bin(size_bin, i * step, step, highest, small_bytes) for i, size_bin in enumerate(ranges)
    )
    return Histogram(bins, step * sum(bin_.is_small for bin_ in bins), highest)


def _bin(size_bin: SizeBin, x: float, step: float, highest: int, small_bytes: int) -> Bin:
    height = max(_SIZES_HEIGHT * size_bin.files / highest, _LOWEST) if size_bin.files else 0
    return Bin(
        low_bytes=size_bin.from_bytes,
        high_bytes=size_bin.below_bytes,
        count=size_bin.files,
        size_bytes=size_bin.size_bytes,
        x=x,
        width=step * 0.86,
        y=_SIZES_BASE - height,
        height=height,
        is_small=size_bin.below_bytes is not None and size_bin.below_bytes <= small_bytes,
    )


@dataclass(frozen=True, slots=True)
class Stick:
    """Positions as they are written: the first page draws hundreds."""

    x: str
    y: str
    height: str


@dataclass(frozen=True, slots=True)
class Sparkline:
    sticks: tuple[Stick, ...]
    crosses: tuple[str, ...]
    commit_count: int
    aborted_count: int


def draw_sparkline(
    commits: Mapping[datetime, int], aborted: Mapping[datetime, int], end: datetime
) -> Sparkline:
    """Both by the full hour they fell in; `end` is now."""
    first = end.replace(minute=0, second=0, microsecond=0) - timedelta(hours=HOURS - 1)
    hours = [first + timedelta(hours=i) for i in range(HOURS)]
    sticks = draw_counts([commits.get(hour, 0) for hour in hours]).sticks
    step = 100 / HOURS
    crosses = tuple(f"{(i + 0.4) * step:.2f}%" for i, hour in enumerate(hours) if aborted.get(hour))
    return Sparkline(
        sticks,
        crosses,
        sum(commits.get(hour, 0) for hour in hours),
        sum(aborted.get(hour, 0) for hour in hours),
    )


def draw_counts(counts: Sequence[int]) -> Sparkline:
    """Draw numbers in order, the highest as high as the chart."""
    step, highest = 100 / max(len(counts), 1), max(counts, default=0) or 1
    sticks = tuple(
        _stick(place * step, max(12 * count / highest, 1.5))
        for place, count in enumerate(counts)
        if count
    )
    return Sparkline(sticks, (), 0, sum(counts))


def _stick(x: float, height: float) -> Stick:
    return Stick(f"{x:.2f}%", f"{_GROUND - height:.1f}", f"{height:.1f}")
