"""The development of a table's size and number of files, from the records of commits."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from lakeui.catalog.models import Table

GROWTH_VERSIONS = 1000
GROWTH_POINTS = 60
_SPANS = GROWTH_POINTS - 1  # the first version is a point too
_Row = tuple[int, datetime | None, int, int, int, int, int]


@dataclass(frozen=True, slots=True)
class GrowthPoint:
    """The table after a version."""

    version: int
    committed_at: datetime | None
    size_bytes: int
    file_count: int


@dataclass(frozen=True, slots=True)
class Growth:
    """At most `GROWTH_POINTS`, oldest first. `is_estimated` if a removed file has no size."""

    points: tuple[GrowthPoint, ...]
    version_count: int
    is_estimated: bool

    @property
    def grown_bytes(self) -> int:
        return self.points[-1].size_bytes - self.points[0].size_bytes if self.points else 0

    @property
    def grown_files(self) -> int:
        return self.points[-1].file_count - self.points[0].file_count if self.points else 0


def growth(table: Table) -> Growth:
    """Return the growth, computed back from the current state as far as versions are mirrored."""
    rows = list(
        table.commits.order_by("-version").values_list(
            "version",
            "committed_at",
            "bytes_added",
            "bytes_removed",
            "files_added",
            "files_removed",
            "files_restated",
        )[:GROWTH_VERSIONS]
    )
    if not rows or rows[0][0] != table.version:
        return Growth((), 0, is_estimated=False)
    unbroken = list(_unbroken(rows))
    points = list(_points(table, unbroken))[::-1]
    silent = any(
        removed > restated and not size for _, _, _, size, _, removed, restated in unbroken
    )
    return Growth(tuple(_some(points)), len(points), silent)


def _unbroken(rows: Iterable[_Row]) -> Iterator[_Row]:
    expected: int | None = None
    for row in rows:
        if expected is not None and row[0] != expected:
            return
        yield row
        expected = row[0] - 1


def _points(table: Table, rows: Iterable[_Row]) -> Iterator[GrowthPoint]:
    """Yield points, latest first; each commit's additions are subtracted on the way back."""
    size, files = table.size_bytes, table.file_count
    for version, at, added, removed, files_added, files_removed, restated in rows:
        yield GrowthPoint(version, at, max(size, 0), max(files, 0))
        size -= added - removed
        files -= files_added - restated - max(files_removed - restated, 0)


def _some(points: Sequence[GrowthPoint]) -> Iterator[GrowthPoint]:
    """Yield the first point, and the last of each of equal spans of time, or of versions."""
    if len(points) <= GROWTH_POINTS:
        yield from points
        return
    places = [_place(point, points) for point in points]
    for i, point in enumerate(points):
        if i in (0, len(points) - 1) or places[i + 1] != places[i]:
            yield point


def _place(point: GrowthPoint, points: Sequence[GrowthPoint]) -> int:
    first, last = points[0].committed_at, points[-1].committed_at
    if first is None or last is None or last <= first or point.committed_at is None:
        of_all = (point.version - points[0].version) / len(points)
    else:
        of_all = (point.committed_at - first) / (last - first)
    return min(int(max(of_all, 0) * _SPANS), _SPANS - 1)
