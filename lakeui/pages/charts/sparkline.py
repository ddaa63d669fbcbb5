"""Commits of the last 24 hours, an hour a bar, crosses where attempts lost."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

HOURS = 24


@dataclass(frozen=True, slots=True)
class Stick:
    x: float
    y: float
    height: float


@dataclass(frozen=True, slots=True)
class Sparkline:
    sticks: tuple[Stick, ...]
    crosses: tuple[float, ...]
    commit_count: int
    lost_count: int


def draw_sparkline(
    commits: Mapping[datetime, int], lost: Mapping[datetime, int], end: datetime
) -> Sparkline:
    """Both by the full hour they fell in; `end` is now."""
    first = end.replace(minute=0, second=0, microsecond=0) - timedelta(hours=HOURS - 1)
    hours = [first + timedelta(hours=i) for i in range(HOURS)]
    highest = max((commits.get(hour, 0) for hour in hours), default=0) or 1
    step = 100 / HOURS
    sticks = tuple(
        Stick(
            i * step,
            18 - max(12 * commits[hour] / highest, 1.5),
            max(12 * commits[hour] / highest, 1.5),
        )
        for i, hour in enumerate(hours)
        if commits.get(hour)
    )
    crosses = tuple((i + 0.4) * step for i, hour in enumerate(hours) if lost.get(hour))
    return Sparkline(
        sticks,
        crosses,
        sum(commits.get(hour, 0) for hour in hours),
        sum(lost.get(hour, 0) for hour in hours),
    )
