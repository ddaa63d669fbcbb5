"""A log as rows: commits with the files they touched, and a table with its live files, up to caps.

The sums over live files are computed from all of them at once, or file by file as commits change
them.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from django.conf import settings

from engine.actions.commit_info import CommitInfo
from engine.actions.files import AddCDCFile, AddFile, RemoveFile
from engine.actions.table import Metadata, Protocol
from engine.actions.written_files import file_changes
from engine.conflicts.eligibility import table_eligibility
from engine.log.commits import LogCommit
from engine.schema.types import type_to_json
from engine.snapshot.snapshot import Snapshot
from lakeui.catalog import log_values
from lakeui.catalog.models import CommitFile, Table
from lakeui.catalog.new_rows import NewRow

LONGEST_PATH = 4000

_MAX_PATH = 4000
_EMPTY = CommitInfo()

LiveKey = tuple[str, int, int, int | None, datetime | None]
"""The key of a live file's row.

Path, bytes, rows marked by its vector, rows, modification time.
"""


@dataclass(frozen=True)
class _Files:
    adds: list[AddFile]
    removes: list[RemoveFile]
    changes: list[AddCDCFile]

    @property
    def all(self) -> list[AddFile | RemoveFile | AddCDCFile]:
        return [*self.adds, *self.removes, *self.changes]


def commit_row(table: Table, commit: LogCommit, raw: bytes) -> NewRow:
    """Return the row of a version. `raw` is the beginning of its file."""
    info = commit.commit_info or _EMPTY
    files, changes = _files(commit), file_changes(info.operation, commit.actions)
    touched = files.all
    is_clean = _is_clean(commit, raw)
    text = _cut if is_clean else log_values.text
    return {
        "table_id": table.pk,
        "version": commit.version,
        "committed_at": log_values.moment(commit.timestamp_ms),
        "has_in_commit_timestamp": info.in_commit_timestamp is not None,
        "operation": text(info.operation, 100),
        "operation_parameters": log_values.json_value(
            info.operation_parameters or {}, is_clean=is_clean
        ),
        "operation_metrics": log_values.json_value(info.operation_metrics or {}, is_clean=is_clean),
        "predicate": log_values.predicate(info.operation_parameters),
        "read_version": log_values.integer(info.read_version),
        "isolation_level": text(info.isolation_level, 30),
        "is_blind_append": info.is_blind_append,
        "user_name": text(info.user_name or info.user_id, 255),
        "engine_info": text(info.engine_info, 255),
        "txn_id": text(info.txn_id, 200),
        "user_metadata": text(info.user_metadata),
        "files_added": len(files.adds),
        "files_removed": len(files.removes),
        "files_restated": len(changes.restated),
        "bytes_added": log_values.integer(changes.bytes_added) or 0,
        "bytes_removed": log_values.integer(changes.bytes_removed) or 0,
        "bytes_written": log_values.integer(changes.bytes_written) or 0,
        "rows_added": _live_rows(changes.added),
        "rows_removed": _live_rows(changes.removed),
        "vectors_added": sum(add.deletion_vector is not None for add in files.adds),
        "rows_deleted_by_vectors": _rows_deleted_by_vectors(files.removes, changes.restated),
        "changes_data": any(file.data_change for file in touched),
        "changes_metadata": any(isinstance(action, Metadata) for action in commit.actions),
        "changes_protocol": any(isinstance(action, Protocol) for action in commit.actions),
        "files_mirrored": min(len(touched), settings.MIRROR_MAX_FILES_A_COMMIT),
        "raw": text(raw.decode("utf-8", "replace")),
        "raw_bytes": commit.size_bytes,
    }


def _is_clean(commit: LogCommit, raw: bytes) -> bool:
    """Whether every text of the commit fits unchanged, by its whole raw text."""
    return len(raw) == commit.size_bytes and log_values.is_clean(raw)


def _cut(value: str | None, limit: int | None = None) -> str:
    return (value or "")[:limit]


def file_rows(key: int, commit: LogCommit, raw: bytes) -> list[NewRow]:
    """Return the rows of the files in the commit of this key, up to the cap."""
    touched, is_clean = _files(commit).all, _is_clean(commit, raw)
    return [
        _file_row(key, file, is_clean=is_clean)
        for file in touched[: settings.MIRROR_MAX_FILES_A_COMMIT]
    ]


def _file_row(key: int, file: AddFile | RemoveFile | AddCDCFile, *, is_clean: bool) -> NewRow:
    values = file.partition_values or {}
    return {
        "commit_id": key,
        "action": _action(file).value,
        "path": file.path[:_MAX_PATH] if is_clean else log_values.text(file.path, _MAX_PATH),
        "partition_values": log_values.json_value(values, is_clean=is_clean),
        "size_bytes": log_values.integer(file.size),
        "row_count": None if isinstance(file, AddCDCFile) else log_values.row_count(file.stats),
        "deleted_row_count": _cardinality(file),
        "data_change": file.data_change,
    }


def _action(file: AddFile | RemoveFile | AddCDCFile) -> CommitFile.Action:
    if isinstance(file, AddFile):
        return CommitFile.Action.ADD
    return CommitFile.Action.REMOVE if isinstance(file, RemoveFile) else CommitFile.Action.CDC


def _files(commit: LogCommit) -> _Files:
    files = _Files([], [], [])
    for action in commit.actions:
        if isinstance(action, AddFile):
            files.adds.append(action)
        elif isinstance(action, RemoveFile):
            files.removes.append(action)
        elif isinstance(action, AddCDCFile):
            files.changes.append(action)
    return files


def _live_rows(files: Iterable[AddFile | RemoveFile]) -> int | None:
    """Return the number of unmarked rows in files; None if a file has no statistics."""
    rows = 0
    for file in files:
        count = log_values.row_count(file.stats)
        if count is None or count < _cardinality(file):
            return None
        rows += count - _cardinality(file)
    return log_values.integer(rows)


def _rows_deleted_by_vectors(removes: Iterable[RemoveFile], restated: Iterable[AddFile]) -> int:
    """Count rows newly marked by vectors. A file added with its vector, as by CLONE, has none."""
    before = {remove.path: _cardinality(remove) for remove in removes}
    rows = sum(
        max(0, _cardinality(add) - before[add.path]) for add in restated if add.path in before
    )
    return log_values.integer(rows) or 0


def _cardinality(file: AddFile | RemoveFile | AddCDCFile) -> int:
    vector = None if isinstance(file, AddCDCFile) else file.deletion_vector
    return 0 if vector is None else log_values.integer(vector.cardinality) or 0


def table_fields(snapshot: Snapshot) -> dict[str, Any]:
    """Return the fields of `Table` determined by a snapshot, except the sums over its files."""
    return {"version": snapshot.version, **_identity(snapshot), **_settings(snapshot)}


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


class FileNumbers(NamedTuple):
    """A live file's contribution to the sums. `rows` is None without statistics."""

    size: int
    rows: int | None
    deleted: int | None  # rows that its deletion vector marks; None without a vector


@dataclass(slots=True)
class FileSums:
    """Sums over live files; `rows` over those with a row count in their statistics."""

    files: int = 0
    size: int = 0
    small: int = 0
    rows: int = 0
    without_rows: int = 0
    deleted: int = 0
    vectored: int = 0

    @classmethod
    def from_files(cls, files: pa.Table) -> "FileSums":
        """Sum `snapshot.files()`."""
        size, rows = files.column("size"), files.column("num_records")
        vectors = files.column("deletion_vector")
        return cls(
            files=files.num_rows,
            size=_total(size),
            small=_total(pc.less(size, settings.SMALL_FILE_BYTES)),
            rows=_total(rows),
            without_rows=rows.null_count,
            deleted=_total(count_deleted_rows(files)),
            vectored=files.num_rows - vectors.null_count,
        )

    def count(self, file: FileNumbers, sign: int) -> None:
        """Count an added (1) or removed (-1) file."""
        self.files += sign
        self.size += sign * file.size
        self.small += sign * (file.size < settings.SMALL_FILE_BYTES)
        self.rows += sign * (file.rows or 0)
        self.without_rows += sign * (file.rows is None)
        self.deleted += sign * (file.deleted or 0)
        self.vectored += sign * (file.deleted is not None)

    def fields(self) -> dict[str, Any]:
        """Return the fields of `Table` about them."""
        rows = None if self.without_rows else self.rows - self.deleted
        return {
            "file_count": self.files,
            "size_bytes": self.size,
            "row_count": log_values.integer(rows),
            "small_file_count": self.small,
            "deleted_row_count": self.deleted,
            "vectored_file_count": self.vectored,
        }


def count_deleted_rows(files: pa.Table) -> "pa.ChunkedArray[Any]":
    """Return the number of rows marked by each file's vector, null without one."""
    cardinalities: pa.ChunkedArray[Any] = pc.struct_field(
        files.column("deletion_vector"), "cardinality"
    )
    return cardinalities


def _total(column: "pa.ChunkedArray[Any]") -> int:
    return log_values.integer(pc.sum(column).as_py()) or 0
