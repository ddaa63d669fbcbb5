"""Sizes of files in powers of two, with what counts as small hatched apart."""

from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import urlencode

from lakeui.catalog.file_layout import SizeBin, size_bins
from lakeui.pages.units import format_bytes

_HEIGHT, _BASE, _LOWEST = 168, 192, 2


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
        """What filters the files to these sizes; both bounds are included."""
        bounds = {"min_size": self.low_bytes}
        if self.high_bytes is not None:
            bounds["max_size"] = self.high_bytes - 1
        return f"?{urlencode(bounds)}"

    @property
    def middle(self) -> float:
        return self.x + self.width / 2

    @property
    def right(self) -> float:
        """Where its upper bound is written."""
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
    """A bar each bin of sizes, the highest as high as the chart."""
    found = size_bins(sizes)
    step, highest = 100 / len(found), max(each.files for each in found)
    bins = tuple(_bin(each, i * step, step, highest, small_bytes) for i, each in enumerate(found))
    return Histogram(bins, step * sum(each.is_small for each in bins), highest)


def _bin(found: SizeBin, x: float, step: float, highest: int, small_bytes: int) -> Bin:
    height = max(_HEIGHT * found.files / highest, _LOWEST) if found.files else 0
    return Bin(
        low_bytes=found.from_bytes,
        high_bytes=found.below_bytes,
        count=found.files,
        size_bytes=found.size_bytes,
        x=x,
        width=step * 0.86,
        y=_BASE - height,
        height=height,
        is_small=found.below_bytes is not None and found.below_bytes <= small_bytes,
    )
