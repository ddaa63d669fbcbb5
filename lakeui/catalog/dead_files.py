"""Files of older versions, stored until a VACUUM deletes them."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from engine.clock import surely_ms
from engine.snapshot.snapshot import Snapshot
from lakeui.catalog import log_values


class Tombstone(NamedTuple):
    """The time of a file's removal, in ms, and its size, as recorded in the log."""

    removed_ms: int | None
    size: int | None


@dataclass(slots=True)
class DeadFiles:
    """Sums over dead files, by the removals since `since_ms`; `first_ms` is the first removal.

    `retention_ms` is how long a file is kept, as VACUUM takes it.
    """

    since_ms: int
    retention_ms: int
    files: int = 0
    size: int = 0
    first_ms: int | None = None

    @classmethod
    def from_snapshot(
        cls, snapshot: Snapshot, files: pa.Table, vacuumed_at: datetime | None
    ) -> "DeadFiles":
        """Sum the tombstones still in a log; `files` is `snapshot.files()`."""
        retention_ms = surely_ms(snapshot.properties.deleted_file_retention_ms)
        since_ms = vacuum_horizon_ms(vacuumed_at, retention_ms)
        dead = _dead(snapshot.state.tombstones, files, since_ms)
        first = pc.min(dead.column("deletion_timestamp_max")).as_py()
        size = log_values.integer(pc.sum(dead.column("size_max")).as_py()) or 0
        return cls(since_ms, retention_ms, dead.num_rows, size, first)

    def dead_file(self, tombstones: Iterable[Tombstone]) -> Tombstone | None:
        """Return the dead file of a path's tombstones; None if a VACUUM deleted it."""
        recent = [gone for gone in tombstones if (gone.removed_ms or 0) >= self.since_ms]
        if not recent:
            return None
        removed = [gone.removed_ms for gone in recent if gone.removed_ms is not None]
        sizes = [gone.size for gone in recent if gone.size is not None]
        return Tombstone(max(removed, default=None), max(sizes, default=None))

    def count(self, file: Tombstone, sign: int) -> None:
        """Count a file that became dead (1), or is no longer (-1), which leaves `first_ms`."""
        self.files += sign
        self.size += sign * (file.size or 0)
        if sign > 0 and file.removed_ms is not None:
            first = self.first_ms
            self.first_ms = file.removed_ms if first is None else min(first, file.removed_ms)

    def fields(self) -> dict[str, Any]:
        """Return the fields of `Table` about them: from `vacuum_from` on VACUUM may delete them."""
        first = self.first_ms
        return {
            "dead_file_count": self.files,
            "dead_bytes": self.size,
            "vacuum_from": None if first is None else log_values.moment(first + self.retention_ms),
        }


def vacuum_horizon_ms(vacuumed_at: datetime | None, retention_ms: int) -> int:
    """Return the time in ms before which the last VACUUM deleted all removed files."""
    if vacuumed_at is None:
        return 0
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    return int((vacuumed_at - epoch).total_seconds() * 1000) - retention_ms


def _dead(tombstones: pa.Table, files: pa.Table, since_ms: int) -> pa.Table:
    """Return one row per path, by its last removal: earlier deletion vectors kept it alive."""
    removed = pc.fill_null(tombstones.column("deletion_timestamp"), 0)
    recent = tombstones.filter(pc.greater_equal(removed, pa.scalar(since_ms, pa.int64())))
    paths = recent.column("path")
    alive = files.filter(pc.is_in(files.column("path"), value_set=paths)).column("path")
    chosen = recent.filter(pc.invert(pc.is_in(paths, value_set=alive)))
    return chosen.group_by("path").aggregate([("size", "max"), ("deletion_timestamp", "max")])
