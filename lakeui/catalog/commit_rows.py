"""A commit of the log as rows: itself, and the files it touched up to a cap."""

from collections.abc import Iterable
from dataclasses import dataclass

from django.conf import settings

from engine.actions.commit_info import CommitInfo
from engine.actions.files import AddCDCFile, AddFile, RemoveFile
from engine.actions.table import Metadata, Protocol
from engine.actions.written_files import file_changes
from engine.log.commits import LogCommit
from lakeui.catalog import log_values
from lakeui.catalog.models import CommitFile, Table
from lakeui.catalog.new_rows import NewRow

_MAX_PATH = 4000
_EMPTY = CommitInfo()


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
