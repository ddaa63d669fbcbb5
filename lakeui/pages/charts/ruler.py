"""The version ruler under a table's facts: a tick each version, a cross each aborted attempt."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from lakeui.pages.operations import family_of, tick_height

RULER_VERSIONS = 160
_BASE = 32
_LEFT_EDGE, _RIGHT_EDGE, _HALF_A_LABEL = 3, 97, 1.7


@dataclass(frozen=True, slots=True)
class RulerTick:
    version: int
    operation: str
    family: str
    left: float
    hit_left: float
    top: int


@dataclass(frozen=True, slots=True)
class RulerCross:
    version: int
    x: float
    count: int


@dataclass(frozen=True, slots=True)
class RulerLabel:
    version: int
    x: float
    is_spare: bool


@dataclass(frozen=True, slots=True)
class Ruler:
    ticks: tuple[RulerTick, ...]
    crosses: tuple[RulerCross, ...]
    labels: tuple[RulerLabel, ...]
    hit_width: float
    here: float | None
    here_version: int | None

    @property
    def here_anchor(self) -> str:
        """The label's anchor, which keeps it inside at both ends."""
        here = self.here or 0
        return "end" if here > _RIGHT_EDGE else "start-at" if here < _LEFT_EDGE else "mid"

    @property
    def here_label_x(self) -> float:
        here = self.here or 0
        if here > _RIGHT_EDGE:
            return min(here + _HALF_A_LABEL, 100)
        return max(here - _HALF_A_LABEL, 0) if here < _LEFT_EDGE else here

    @property
    def first(self) -> int:
        return self.ticks[0].version

    @property
    def last(self) -> int:
        return self.ticks[-1].version


def draw_ruler(
    commits: Sequence[tuple[int, str]], aborted_by: Iterable[int | None], here: int | None
) -> Ruler | None:
    """Draw `commits` (version, operation), in version order; `aborted_by` are winning versions."""
    if not commits:
        return None
    step = 100 / len(commits)  # even a few fill it
    at = {version: (i + 0.5) * step for i, (version, _) in enumerate(commits)}
    ticks = tuple(
        RulerTick(
            v, op or "not recorded", family_of(op), at[v], at[v] - step / 2, _BASE - tick_height(op)
        )
        for v, op in commits
    )
    aborted = Counter(version for version in aborted_by if version is not None and version in at)
    crosses = tuple(RulerCross(version, at[version], n) for version, n in sorted(aborted.items()))
    return Ruler(
        ticks, crosses, _labels(at, here), step, at.get(here) if here is not None else None, here
    )


def _labels(at: dict[int, float], here: int | None) -> tuple[RulerLabel, ...]:
    every = _round_step(len(at))
    marked = [v for v in at if v % every == 0]
    if here in at:
        marked = [v for v in marked if abs(at[v] - at[here]) > 5]
    inside = [v for v in marked if 1.5 < at[v] < 97]
    return tuple(RulerLabel(v, at[v], i % 2 == 1) for i, v in enumerate(inside))


def _round_step(count: int) -> int:
    for step in (1, 2, 5, 10, 20):
        if count / step <= 8:
            return step
    return 20
