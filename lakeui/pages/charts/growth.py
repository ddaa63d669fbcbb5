"""A table's size and number of files over time: a bar each point, its width the time it held."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.utils import timezone

from lakeui.catalog.growth import Growth, GrowthPoint
from lakeui.pages.units import format_bytes, format_count

_HEIGHT, _BASE = 56, 68
_FEWEST_PX, _OVERLAP = 1, 0.06  # the latter in per cent: no seam between two steps


@dataclass(frozen=True, slots=True)
class Step:
    x: float
    width: float
    y: float
    height: float
    title: str


@dataclass(frozen=True, slots=True)
class Strip:
    """One quantity: its steps, and what its top line stands for."""

    name: str
    steps: tuple[Step, ...]
    top: str


@dataclass(frozen=True, slots=True)
class GrowthChart:
    """`from_label` and `to_label` stand at the ends of the time axis."""

    strips: tuple[Strip, ...]
    points: tuple[GrowthPoint, ...]
    from_label: str
    to_label: str
    base: int = _BASE


def draw_growth(growth: Growth, now: datetime) -> GrowthChart | None:
    """None where there are fewer than two points, or none bears a time."""
    dated = [(p.committed_at, p) for p in growth.points if p.committed_at is not None]
    if len(dated) < 2:
        return None
    points = tuple(point for _, point in dated)
    edges = _edges([moment for moment, _ in dated], now)
    sizes = [point.size_bytes for point in points]
    files = [point.file_count for point in points]
    titles = [f"v{p.version}, {_moment(at)}" for at, p in dated]
    return GrowthChart(
        strips=(
            _strip("Size", sizes, edges, titles, format_bytes),
            _strip("Files", files, edges, titles, format_count),
        ),
        points=points,
        from_label=_moment(dated[0][0]),
        to_label="now",
    )


def _edges(moments: Sequence[datetime], now: datetime) -> list[float]:
    """Where each point's step begins, in per cent, and where the last one ends."""
    span = (max(now, moments[-1]) - moments[0]).total_seconds() or 1
    begun = [100 * max((moment - moments[0]).total_seconds(), 0) / span for moment in moments]
    return [*begun, 100.0]


def _strip(
    name: str,
    values: Sequence[int],
    edges: Sequence[float],
    titles: Sequence[str],
    text: Callable[[float], str],
) -> Strip:
    highest = max(values) or 1
    steps = tuple(
        Step(
            x=edges[i],
            width=max(edges[i + 1] - edges[i], 0) + _OVERLAP,
            y=_BASE - max(_HEIGHT * value / highest, _FEWEST_PX),
            height=max(_HEIGHT * value / highest, _FEWEST_PX),
            title=f"{titles[i]}: {text(value)}",
        )
        for i, value in enumerate(values)
    )
    return Strip(name, steps, text(highest))


def _moment(moment: datetime) -> str:
    local = timezone.localtime(moment)
    return f"{local.day} {local:%b %H:%M}"
