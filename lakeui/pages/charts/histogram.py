"""Sizes of files in powers of two, with small files hatched."""

from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import urlencode

from lakeui.catalog.file_layout import SizeBin, size_bins
from lakeui.catalog.units import format_bytes

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
    height = max(_HEIGHT * size_bin.files / highest, _LOWEST) if size_bin.files else 0
    return Bin(
        low_bytes=size_bin.from_bytes,
        high_bytes=size_bin.below_bytes,
        count=size_bin.files,
        size_bytes=size_bin.size_bytes,
        x=x,
        width=step * 0.86,
        y=_BASE - height,
        height=height,
        is_small=size_bin.below_bytes is not None and size_bin.below_bytes <= small_bytes,
    )
