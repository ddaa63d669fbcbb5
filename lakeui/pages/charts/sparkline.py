"""Commits of the last 24 hours, an hour a bar, crosses where attempts were aborted."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

HOURS = 24
_GROUND = 18


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
    highest = max((commits.get(hour, 0) for hour in hours), default=0) or 1
    step = 100 / HOURS
    sticks = tuple(
        _stick(i * step, max(12 * commits[hour] / highest, 1.5))
        for i, hour in enumerate(hours)
        if commits.get(hour)
    )
    crosses = tuple(f"{(i + 0.4) * step:.2f}%" for i, hour in enumerate(hours) if aborted.get(hour))
    return Sparkline(
        sticks,
        crosses,
        sum(commits.get(hour, 0) for hour in hours),
        sum(aborted.get(hour, 0) for hour in hours),
    )


def _stick(x: float, height: float) -> Stick:
    return Stick(f"{x:.2f}%", f"{_GROUND - height:.1f}", f"{height:.1f}")
