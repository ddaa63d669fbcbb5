"""A snapshot as rows: the facts of a table, and its live files up to a cap."""

from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from django.conf import settings

from engine.conflicts.eligibility import table_eligibility
from engine.schema.types import type_to_json
from engine.snapshot.snapshot import Snapshot
from lakeui.catalog import log_values
from lakeui.catalog.models import Table
from lakeui.catalog.new_rows import NewRow

_MAX_PATH = 4000


def table_fields(snapshot: Snapshot, files: pa.Table) -> dict[str, Any]:
    """The fields of `Table` that a snapshot decides. `files` is `snapshot.files()`."""
    return {
        "version": snapshot.version,
        **_identity(snapshot),
        **_settings(snapshot),
        **_sizes(files),
    }


LiveKey = tuple[str, int, int]
"""What tells a live file's row from another: its path, its bytes, and how many rows its vector marks."""


@dataclass(frozen=True)
class LiveFiles:
    """The live files that are mirrored: the first by path where there are more than the cap."""

    keys: list[LiveKey]
    files: pa.Table

    @classmethod
    def of(cls, files: pa.Table) -> "LiveFiles":
        """Choose from `snapshot.files()`."""
        count = min(settings.MIRROR_MAX_LIVE_FILES, files.num_rows)
        columns = ["path", "partition_values", "size", "num_records", "modification_time"]
        first = pc.select_k_unstable(files.select(["path"]), count, [("path", "ascending")])
        chosen = files.select([*columns, "deletion_vector"]).take(first)
        deleted = pc.fill_null(_deleted_rows(chosen), 0)
        paths = (log_values.text(path, _MAX_PATH) for path in chosen.column("path").to_pylist())
        sizes = chosen.column("size").to_pylist()
        keys = list(zip(paths, sizes, deleted.to_pylist(), strict=True))
        return cls(keys, chosen)

    def rows(self, table: Table, keys: Collection[LiveKey]) -> list[NewRow]:
        """Rows of some of them; of two of one key the last."""
        places = {key: place for place, key in enumerate(self.keys) if key in keys}
        chosen = self.files.take(pa.array(places.values(), pa.int64()))
        names = ("partition_values", "num_records", "modification_time")
        columns = (chosen.column(name).to_pylist() for name in names)
        return [
            {
                "table_id": table.pk,
                "path": path,
                "partition_values": log_values.json_value(dict(values or {})),
                "size_bytes": size,
                "row_count": count,
                "deleted_row_count": deleted,
                "modified_at": log_values.moment(modified),
            }
            for (path, size, deleted), values, count, modified in zip(places, *columns, strict=True)
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
        "clustering_columns": [_dotted(column) for column in snapshot.clustering_columns],
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


def _sizes(files: pa.Table) -> dict[str, Any]:
    deleted = _deleted_rows(files)
    counts = files.column("num_records")
    rows = None
    if counts.null_count == 0:
        rows = _total(counts) - _total(deleted)
    return {
        "file_count": files.num_rows,
        "size_bytes": _total(files.column("size")),
        "row_count": log_values.integer(rows),
        "small_file_count": _total(pc.less(files.column("size"), settings.SMALL_FILE_BYTES)),
        "deleted_row_count": _total(deleted),
        "vectored_file_count": files.num_rows - files.column("deletion_vector").null_count,
    }


def _deleted_rows(files: pa.Table) -> "pa.ChunkedArray[Any]":
    cardinalities: pa.ChunkedArray[Any] = pc.struct_field(
        files.column("deletion_vector"), "cardinality"
    )
    return cardinalities


def _total(column: "pa.ChunkedArray[Any]") -> int:
    return log_values.integer(pc.sum(column).as_py()) or 0


def _dotted(column: str | Sequence[str]) -> str:
    return log_values.text(column if isinstance(column, str) else ".".join(column))
