"""Jobs that ended in each hour: what went well below, what was lost on top of it."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from lakeui.monitoring.worker_state import Hour

_HEIGHT, _BASE = 96, 112
_LEAST = 2.0


@dataclass(frozen=True, slots=True)
class Column:
    """One hour; heights in pixels, places in per cent."""

    hour: Hour
    x: float
    width: float
    well_y: float
    well_height: float
    lost_y: float
    lost_height: float

    @property
    def middle(self) -> float:
        return self.x + self.width / 2

    @property
    def mark_y(self) -> float:
        """Where the cross of an hour that lost something stands."""
        return self.lost_y - 14

    @property
    def start(self) -> datetime:
        return self.hour.start


@dataclass(frozen=True, slots=True)
class Outcomes:
    columns: tuple[Column, ...]
    highest: int


def draw_outcomes(hours: Sequence[Hour]) -> Outcomes:
    """Columns over hours in order."""
    highest = max((each.ended for each in hours), default=0)
    step = 100 / max(len(hours), 1)
    columns = (_column(place, step, hour, highest or 1) for place, hour in enumerate(hours))
    return Outcomes(tuple(columns), highest)


def _column(place: int, step: float, hour: Hour, highest: int) -> Column:
    well, lost = (
        max(_HEIGHT * count / highest, _LEAST) if count else 0.0
        for count in (hour.ended - hour.lost, hour.lost)
    )
    return Column(
        hour=hour,
        x=place * step + step * 0.12,
        width=step * 0.76,
        well_y=_BASE - well,
        well_height=well,
        lost_y=_BASE - well - lost,
        lost_height=lost,
    )
