"""A snapshot as rows: the facts of a table, and its live files up to a cap."""

from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from django.conf import settings

from engine.conflicts.eligibility import table_eligibility
from engine.schema.types import type_to_json
from engine.snapshot.snapshot import Snapshot
from lakeui.catalog import log_values
from lakeui.catalog.file_sums import count_deleted_rows
from lakeui.catalog.models import Table
from lakeui.catalog.new_rows import NewRow

LONGEST_PATH = 4000


def table_fields(snapshot: Snapshot) -> dict[str, Any]:
    """Return the fields of `Table` determined by a snapshot, except the sums over its files."""
    return {"version": snapshot.version, **_identity(snapshot), **_settings(snapshot)}


LiveKey = tuple[str, int, int, int | None, datetime | None]
"""The key of a live file's row.

Path, bytes, rows marked by its vector, rows, modification time.
"""


@dataclass(frozen=True)
class MirroredFiles:
    """The mirrored live files: the first by path if there are more than the cap."""

    keys: list[LiveKey]
    files: pa.Table

    @classmethod
    def choose(cls, files: pa.Table) -> "MirroredFiles":
        """Choose from `snapshot.files()`."""
        count = min(settings.MIRROR_MAX_LIVE_FILES, files.num_rows)
        columns = ["path", "partition_values", "size", "num_records", "modification_time"]
        first = pc.select_k_unstable(files.select(["path"]), count, [("path", "ascending")])
        chosen = files.select([*columns, "deletion_vector"]).take(first)
        deleted = pc.fill_null(count_deleted_rows(chosen), 0)
        paths = (log_values.text(path, LONGEST_PATH) for path in chosen.column("path").to_pylist())
        modified = map(log_values.moment, chosen.column("modification_time").to_pylist())
        numbers = (
            column.to_pylist()
            for column in (chosen.column("size"), deleted, chosen.column("num_records"))
        )
        return cls(list(zip(paths, *numbers, modified, strict=True)), chosen)

    def rows(self, table: Table, keys: Collection[LiveKey]) -> list[NewRow]:
        """Return the rows of some of them; of two with one key, the last."""
        places = {key: place for place, key in enumerate(self.keys) if key in keys}
        chosen = self.files.take(pa.array(places.values(), pa.int64()))
        partitions = chosen.column("partition_values").to_pylist()
        return [
            {
                "table_id": table.pk,
                "path": path,
                "partition_values": log_values.json_value(dict(values or {})),
                "size_bytes": size,
                "row_count": count,
                "deleted_row_count": deleted,
                "modified_at": modified,
            }
            for (path, size, deleted, count, modified), values in zip(
                places, partitions, strict=True
            )
        ]


def _identity(snapshot: Snapshot) -> dict[str, Any]:
    metadata, protocol = snapshot.metadata, snapshot.protocol
    return {
        "table_uuid": log_values.text(metadata.id, 100),
        "created_at_source": log_values.moment(metadata.created_time),
        "min_reader_version": protocol.min_reader_version,
        "min_writer_version": protocol.min_writer_version,
        "reader_features": log_values.json_value(protocol.reader_features or []),
        "writer_features": log_values.json_value(protocol.writer_features or []),
        "schema": log_values.json_value(type_to_json(snapshot.schema)),
        "partition_columns": log_values.json_value(metadata.partition_columns),
        "clustering_columns": [
            _render_column_path(column) for column in snapshot.clustering_columns
        ],
        "properties": log_values.json_value(metadata.configuration),
    }


def _settings(snapshot: Snapshot) -> dict[str, Any]:
    properties = snapshot.properties
    row_level = table_eligibility(snapshot.metadata, snapshot.protocol, snapshot.clustering_columns)
    return {
        "isolation_level": str(properties.isolation_level),
        "isolation_level_is_set": "delta.isolationLevel" in snapshot.metadata.configuration,
        "deletion_vectors": properties.enable_deletion_vectors,
        "row_tracking": properties.row_tracking,
        "row_level_eligible": row_level.eligible,
        "row_level_reason": log_values.text(row_level.obstacle, 200),
        "row_level_conditions": log_values.json_value(
            [asdict(condition) for condition in row_level.conditions]
        ),
    }


def _render_column_path(column: str | Sequence[str]) -> str:
    return log_values.text(column if isinstance(column, str) else ".".join(column))
