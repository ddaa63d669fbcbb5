"""Sizes of files in powers of two, with what counts as small hatched apart."""

from collections.abc import Iterable
from dataclasses import dataclass

from lakeui.pages.units import format_bytes

_HEIGHT, _BASE = 88, 112
_SMALLEST, _LARGEST = 1024 * 64, 1024**3 * 2


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
    def last_byte(self) -> int | None:
        """The largest size inside; None where it has no end."""
        return None if self.high_bytes is None else self.high_bytes - 1

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
    """Bins from 64 KiB to 2 GiB, each twice the one before; the first and last are open."""
    bounds = [_SMALLEST]
    while bounds[-1] < _LARGEST:
        bounds.append(bounds[-1] * 2)
    counts, bytes_in = [0] * (len(bounds) + 1), [0] * (len(bounds) + 1)
    for size in sizes:
        place = next((i for i, bound in enumerate(bounds) if size < bound), len(bounds))
        counts[place] += 1
        bytes_in[place] += size
    step, highest = 100 / len(counts), max(counts)
    bins = []
    for i, count in enumerate(counts):
        height = _HEIGHT * count / highest if highest else 0
        bins.append(
            Bin(
                low_bytes=bounds[i - 1] if i else 0,
                high_bytes=bounds[i] if i < len(bounds) else None,
                count=count,
                size_bytes=bytes_in[i],
                x=i * step,
                width=step * 0.86,
                y=_BASE - max(height, 2 if count else 0),
                height=max(height, 2 if count else 0),
                is_small=i < len(bounds) and bounds[i] <= small_bytes,
            )
        )
    small_x = step * sum(1 for b in bins if b.is_small)
    return Histogram(tuple(bins), small_x, highest)
