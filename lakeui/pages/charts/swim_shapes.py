"""The shapes of a swim-lane. Positions across are in per cent, down in px."""

from dataclasses import dataclass

from lakeui.pages.charts.swim_axes import AxisColumn
from lakeui.pages.charts.swim_labels import BarLabel

_GUESSED = 0.6  # dashed share of a bar with an estimated start


@dataclass(frozen=True, slots=True)
class DrawnBar:
    """`shape`: solid, blind, lost or running. `key` names it in the address and in the table."""

    key: str
    family: str
    shape: str
    x: float
    width: float
    y: int
    begins_before: bool
    is_estimated: bool
    text: str
    title: str
    end_x: float
    label: BarLabel | None = None

    @property
    def sure_x(self) -> float:
        """The start of the part that is drawn as certain."""
        return self.x + (self.width * _GUESSED if self.is_estimated else 0)

    @property
    def sure_width(self) -> float:
        return max(self.end_x - self.sure_x, 0.0) if self.is_estimated else self.width

    @property
    def guess_width(self) -> float:
        return self.width * _GUESSED


@dataclass(frozen=True, slots=True)
class DrawnLane:
    """A lane; `under` is the engine, or the number of writers; `asks` the query for it alone."""

    name: str
    family: str
    tracks: int
    y: int
    hidden: int
    under: str = ""
    asks: str = ""


@dataclass(frozen=True, slots=True)
class AbortLink:
    """A line between two bars, vertical by version; by time it ends at the winning commit's end."""

    x: float
    to_x: float
    y1: int
    y2: int
    arrow_y: int
    points_down: bool


@dataclass(frozen=True, slots=True)
class OrderSwap:
    x1: float
    x2: float
    title: str


@dataclass(frozen=True, slots=True)
class MetadataBand:
    """A version that changed the metadata: every write open at that time was aborted."""

    x: float
    version: int


@dataclass(frozen=True, slots=True)
class SwimChart:
    lanes: tuple[DrawnLane, ...]
    bars: tuple[DrawnBar, ...]
    joints: tuple[tuple[float, int, str], ...]
    aborted_links: tuple[AbortLink, ...]
    joint_links: tuple[AbortLink, ...]
    columns: tuple[AxisColumn, ...]
    bands: tuple[MetadataBand, ...]
    times: tuple[AxisColumn, ...]
    swaps: tuple[OrderSwap, ...]
    now_x: float | None
    band_width: float
    height: int
    bottom: int
    hidden: int
    min_width_class: str

    @property
    def band_left(self) -> float:
        """The offset of a band, half of which lies before its line."""
        return -self.band_width / 2
