"""The layout of a table's live files: sizes, partitions, rows marked deleted, unclustered files."""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from django.conf import settings
from django.db.models import Count, Sum

from lakeui.catalog.models import Commit, Table

PARTITIONS_SHOWN = 40
_DENSITIES = (
    (0.0, "none"),
    (0.05, "under 5 %"),
    (0.2, "5 to 20 %"),
    (0.5, "20 to 50 %"),
    (1.0, "over half"),
)
_UNKNOWN = "unknown share"
_SMALLEST, _DOUBLINGS = 64 * 1024, 15
_Row = tuple[Mapping[str, str | None], int, int | None, int]


@dataclass(slots=True)
class Partition:
    """Files of one partition; `small` counts those below the small-file size."""

    name: str
    values: Mapping[str, str | None] = field(default_factory=dict)
    files: int = 0
    size_bytes: int = 0
    rows: int | None = 0
    small: int = 0
    share: float = 0.0  # of the largest, in per cent

    @property
    def path(self) -> str:
        """The partition as a history is narrowed by it."""
        return "/".join(f"{column}={value}" for column, value in self.values.items())


@dataclass(slots=True)
class Density:
    """Files with this share of rows marked deleted."""

    name: str
    files: int = 0
    marked_rows: int = 0


@dataclass(slots=True)
class FileLayout:
    """Sums over the mirrored live files; the largest `PARTITIONS_SHOWN` partitions."""

    sizes: list[int] = field(default_factory=list)
    partitions: list[Partition] = field(default_factory=list)
    partition_count: int = 0
    densities: list[Density] = field(default_factory=list)
    median_partition_bytes: int = 0

    @property
    def skew(self) -> float | None:
        """The size of the largest partition as a multiple of the median one."""
        if not self.partitions or not self.median_partition_bytes:
            return None
        return self.partitions[0].size_bytes / self.median_partition_bytes


@dataclass(slots=True)
class SizeBin:
    """Files from `from_bytes` up to, not including, `below_bytes`; None: no end."""

    from_bytes: int
    below_bytes: int | None
    files: int = 0
    size_bytes: int = 0


@dataclass(frozen=True, slots=True)
class UnclusteredFiles:
    """Live files written after the last mirrored OPTIMIZE; all of them if there was none."""

    since: Commit | None
    files: int
    size_bytes: int


def file_layout(table: Table) -> FileLayout:
    """Return the layout of a table's mirrored live files by partition and by size."""
    rows = table.live_files.order_by().values_list(
        "partition_values", "size_bytes", "row_count", "deleted_row_count"
    )
    return _sum_layout(rows.iterator())


def size_bins(sizes: Iterable[int]) -> list[SizeBin]:
    """Sort files into bins of doubling sizes, from 64 KiB to 2 GiB, with open ends."""
    bounds = [_SMALLEST << n for n in range(_DOUBLINGS + 1)]
    bins = [SizeBin(low, high) for low, high in zip([0, *bounds], [*bounds, None], strict=True)]
    for size in sizes:
        size_bin = bins[bisect_right(bounds, size)]
        size_bin.files += 1
        size_bin.size_bytes += size
    return bins


def measure_unclustered(table: Table) -> UnclusteredFiles | None:
    """Measure the data written since a clustered table's last OPTIMIZE; None for other tables."""
    if not table.clustering_columns:
        return None
    optimized = table.commits.filter(operation="OPTIMIZE").defer("raw").order_by("-version").first()
    files = table.live_files.order_by()
    if optimized is not None and optimized.committed_at is not None:
        files = files.filter(modified_at__gt=optimized.committed_at)
    sums = files.aggregate(n=Count("pk"), size=Sum("size_bytes", default=0))
    return UnclusteredFiles(optimized, sums["n"], sums["size"])


def _sum_layout(rows: Iterable[_Row]) -> FileLayout:
    partitions: dict[str, Partition] = defaultdict(lambda: Partition(""))
    layout, densities = FileLayout(), {name: Density(name) for name in _names()}
    for values, size, count, deleted in rows:
        name = ", ".join(f"{key}={value}" for key, value in (values or {}).items())
        _count_in(partitions[name], name, values or {}, size, count)
        layout.sizes.append(size)
        density = densities[_density(count, deleted)]
        density.files += 1
        density.marked_rows += deleted
    ranked = sorted(partitions.values(), key=lambda part: -part.size_bytes)
    for part in ranked:
        part.share = 100 * part.size_bytes / ranked[0].size_bytes if ranked[0].size_bytes else 0
    layout.partitions, layout.partition_count = ranked[:PARTITIONS_SHOWN], len(ranked)
    layout.densities = [
        entry for entry in densities.values() if entry.files or entry.name != _UNKNOWN
    ]
    layout.median_partition_bytes = ranked[len(ranked) // 2].size_bytes if ranked else 0
    return layout


def _count_in(
    part: Partition, name: str, values: Mapping[str, str | None], size: int, count: int | None
) -> None:
    part.name, part.values = name, values
    part.files += 1
    part.size_bytes += size
    part.rows = None if part.rows is None or count is None else part.rows + count
    part.small += size < settings.SMALL_FILE_BYTES


def _names() -> list[str]:
    return [*(name for _, name in _DENSITIES), _UNKNOWN]


def _density(count: int | None, deleted: int) -> str:
    if deleted and not count:
        return _UNKNOWN
    share = min(deleted / count, 1.0) if count else 0.0
    return next(name for bound, name in _DENSITIES if share <= bound)
