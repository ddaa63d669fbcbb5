"""Commits by bucket of time, stacked by family, with a cross for each attempt that lost."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.utils import timezone

from lakeui.pages.operations import FAMILIES, family_of

RANGES = {
    "6h": (timedelta(hours=6), timedelta(minutes=10), "10 minutes"),
    "24h": (timedelta(hours=24), timedelta(minutes=30), "half hour"),
    "7d": (timedelta(days=7), timedelta(hours=4), "4 hours"),
    "30d": (timedelta(days=30), timedelta(hours=12), "half day"),
}
_LEFT, _BASE, _HEIGHT, _GAP = 2.2, 80, 70, 1
_ORDER = ("write", *(name for name in FAMILIES if name != "write"), "other")


@dataclass(frozen=True, slots=True)
class Bar:
    family: str
    x: float
    y: float
    height: float
    title: str


@dataclass(frozen=True, slots=True)
class Line:
    y: float
    label: str


@dataclass(frozen=True, slots=True)
class Point:
    x: float
    y: float
    label: str
    is_spare: bool = False


@dataclass(frozen=True, slots=True)
class Bucket:
    """A row of the chart's table twin."""

    start: datetime
    counts: tuple[tuple[str, int], ...]
    lost: int


@dataclass(frozen=True, slots=True)
class Timeline:
    bars: tuple[Bar, ...]
    grid: tuple[Line, ...]
    crosses: tuple[Point, ...]
    labels: tuple[Point, ...]
    buckets: tuple[Bucket, ...]
    bar_width: float
    bucket_name: str
    commit_count: int
    lost_count: int


def draw_timeline(
    commits: Iterable[tuple[datetime | None, str]],
    lost_at: Iterable[datetime],
    range_name: str,
    end: datetime,
) -> Timeline:
    """The span before `end` that `range_name` names, in buckets on round times."""
    span, width, bucket_name = RANGES[range_name]
    places = span // width
    start = _floor(end, width) + width - span
    counts: dict[int, Counter[str]] = defaultdict(Counter)
    for moment, operation in commits:
        if moment is None:
            continue
        counts[_place(moment, start, width)][family_of(operation)] += 1
    lost = Counter(_place(moment, start, width) for moment in lost_at)
    inside = {i: c for i, c in counts.items() if 0 <= i < places}
    top = _round_top(max((c.total() for c in inside.values()), default=0))
    step = (100 - _LEFT) / places
    bars = tuple(
        bar
        for i in sorted(inside)
        for bar in _stack(inside[i], _LEFT + (i + 0.15) * step, top, start + i * width)
    )
    crosses = tuple(
        Point(_LEFT + (i + 0.5) * step, _above(inside.get(i), top) - 9 * n, "")
        for i in sorted(lost)
        if 0 <= i < places
        for n in range(min(lost[i], 3))
    )
    return Timeline(
        bars,
        tuple(Line(_BASE - _HEIGHT * part / 2, str(top * part // 2)) for part in range(3)),
        crosses,
        tuple(_time_labels(start, span, step, width)),
        tuple(_rows(inside, lost, start, width, places)),
        step * 0.7,
        bucket_name,
        sum(c.total() for c in inside.values()),
        sum(n for i, n in lost.items() if 0 <= i < places),
    )


def _rows(
    counts: dict[int, Counter[str]],
    lost: Counter[int],
    start: datetime,
    width: timedelta,
    places: int,
) -> Iterable[Bucket]:
    for i in reversed(range(places)):
        if i in counts or lost[i]:
            found = counts.get(i, Counter())
            named = tuple((f, found[f]) for f in _ORDER if found[f])
            yield Bucket(start + i * width, named, lost[i])


def _stack(counts: Counter[str], x: float, top: int, start: datetime) -> Iterable[Bar]:
    y = float(_BASE)
    for family in _ORDER:
        if counts[family]:
            height = _HEIGHT * counts[family] / top
            y -= height
            title = f"{timezone.localtime(start):%d %b %H:%M}: {counts[family]} {family}"
            yield Bar(family, x, y, max(height - _GAP, 1), title)


def _above(counts: Counter[str] | None, top: int) -> float:
    return _BASE - _HEIGHT * (counts.total() if counts else 0) / top - 7


def _time_labels(
    start: datetime, span: timedelta, step: float, width: timedelta
) -> Iterable[Point]:
    every = {6: 1, 24: 3, 168: 24}.get(int(span.total_seconds() // 3600), 120)
    moment = timezone.localtime(start).replace(minute=0, second=0, microsecond=0)
    while moment < start or moment.hour % min(every, 24):
        moment += timedelta(hours=1)
    n = 0
    while moment < start + span:
        x = _LEFT + (moment - start) / width * step
        midnight = moment.hour == 0
        label = f"{moment.day} {moment:%b}" if midnight else f"{moment:%H:%M}"
        if x < 97:
            yield Point(x, _BASE, label, n % 2 == 1)
        moment += timedelta(hours=every)
        n += 1


def _place(moment: datetime, start: datetime, width: timedelta) -> int:
    return (moment - start) // width


def _floor(moment: datetime, width: timedelta) -> datetime:
    local = timezone.localtime(moment)
    midnight = local.replace(hour=0, minute=0, second=0, microsecond=0)
    return midnight + (local - midnight) // width * width


def _round_top(highest: int) -> int:
    for top in (2, 4, 10, 20, 40, 100, 200, 400, 1000, 2000, 4000, 10_000):
        if highest <= top:
            return top
    return highest + highest % 2
