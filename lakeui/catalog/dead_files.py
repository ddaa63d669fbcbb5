"""Files that the table no longer names and that no VACUUM on record has deleted."""

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from engine.snapshot.snapshot import Snapshot
from lakeui.catalog import log_values
from lakeui.catalog.models import Commit, Table

_VACUUMED = "VACUUM END"


def dead_file_fields(table: Table, snapshot: Snapshot, files: pa.Table) -> dict[str, Any]:
    """The fields of `Table` about them, from the tombstones that the log still has.

    `vacuum_from` is the moment from which VACUUM may delete the first of them.
    """
    retention = snapshot.properties.deleted_file_retention_ms
    dead = _dead(snapshot.state.tombstones, files, _vacuumed_up_to(table, retention))
    first = pc.min(dead.column("deletion_timestamp_min")).as_py()
    return {
        "dead_file_count": dead.num_rows,
        "dead_bytes": log_values.integer(pc.sum(dead.column("size_max")).as_py()) or 0,
        "vacuum_from": None if first is None else log_values.moment(first + retention),
    }


def _vacuumed_up_to(table: Table, retention_ms: int) -> int:
    """What was removed before this time, in ms, was deleted by the last VACUUM."""
    vacuums = Commit.objects.filter(table=table, operation=_VACUUMED, committed_at__isnull=False)
    last = vacuums.order_by("-version").values_list("committed_at", flat=True).first()
    if last is None:
        return 0
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    return int((last - epoch).total_seconds() * 1000) - retention_ms


def _dead(tombstones: pa.Table, files: pa.Table, since_ms: int) -> pa.Table:
    """One row a path: a file that only got another deletion vector lives on."""
    removed = pc.fill_null(tombstones.column("deletion_timestamp"), 0)
    recent = pc.greater_equal(removed, pa.scalar(since_ms, pa.int64()))
    alive = pc.is_in(tombstones.column("path"), value_set=files.column("path").combine_chunks())
    chosen = tombstones.filter(pc.and_not(recent, alive))
    return chosen.group_by("path").aggregate([("size", "max"), ("deletion_timestamp", "min")])
