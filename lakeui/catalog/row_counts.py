"""The rows inserted, changed and deleted by a version, as far as its writer recorded them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from engine.vocabulary import Family, NewFiles, Operation, operation_named
from lakeui.catalog.models import Commit

_INSERTED = ("numTargetRowsInserted", "numOutputRows", "num_added_rows", "numInsertedRows")
_UPDATED = ("numTargetRowsUpdated", "numUpdatedRows", "num_updated_rows")
_COPIED = ("numCopiedRows",)
_DELETED = ("numTargetRowsDeleted", "numDeletedRows", "num_deleted_rows")


@dataclass(frozen=True, slots=True)
class RowCounts:
    """Row counts of a version; None: not recorded. All three are 0 if no row changed.

    `is_overwrite`: the deleted rows were replaced by the inserted ones.
    """

    inserted: int | None
    updated: int | None
    deleted: int | None
    is_overwrite: bool = False

    @property
    def is_recorded(self) -> bool:
        return any(count is not None for count in (self.inserted, self.updated, self.deleted))


NO_ROWS = RowCounts(0, 0, 0)
_UNKNOWN = RowCounts(None, None, None)


def rows_of(commit: Commit) -> RowCounts:
    """Return counts from a version's metrics; else from the statistics of its changed files."""
    operation = operation_named(commit.operation)
    if _overwrites(commit, operation):
        return _count_replaced_rows(
            commit, rows_in(commit.operation, commit.operation_metrics or {})
        )
    if not operation.changes_rows:
        return _UNKNOWN if commit.changes_data and _touches_files(commit) else NO_ROWS
    counts = rows_in(commit.operation, commit.operation_metrics or {})
    return counts if counts.is_recorded else _count_from_files(commit, operation)


def rows_in(operation: str, metrics: Mapping[str, Any]) -> RowCounts:
    """Return counts from the metrics of an operation, by its name or a job's kind."""
    named = operation_named(operation)
    if not named.changes_rows:
        return _UNKNOWN
    writes, merges = named.family is Family.WRITE, named.family is Family.MERGE
    names = _INSERTED[:1] if merges else _INSERTED
    inserted = _first(metrics, names) if writes or merges else None
    if writes and inserted is not None:
        inserted = max(0, inserted - (_first(metrics, _COPIED) or 0))  # written, but there before
    return RowCounts(inserted, _first(metrics, _UPDATED), _first(metrics, _DELETED))


def _overwrites(commit: Commit, operation: Operation) -> bool:
    """Whether new files replaced old ones; a writer may restate files with vectors instead."""
    if operation.family is not Family.WRITE or _brings_back(operation):
        return False
    return commit.changes_data and commit.files_removed > 0


def _brings_back(operation: Operation) -> bool:
    """Return whether the files that it adds hold rows that were there: nothing is inserted."""
    return operation.files in (NewFiles.EXISTING, NewFiles.COPIED)


def _count_replaced_rows(commit: Commit, counts: RowCounts) -> RowCounts:
    """Complete the counts of an overwrite, unless a condition may have copied parts of files."""
    is_whole = not commit.predicate and not commit.files_restated
    inserted, deleted = counts.inserted, counts.deleted
    return replace(
        counts,
        inserted=commit.rows_added if inserted is None and is_whole else inserted,
        deleted=commit.rows_removed if deleted is None and is_whole else deleted,
        is_overwrite=True,
    )


def _count_from_files(commit: Commit, operation: Operation) -> RowCounts:
    """Derive the counts from files, unless a file was copied in part or restated."""
    if not _touches_files(commit):
        return NO_ROWS
    if not commit.files_removed:
        return RowCounts(commit.rows_added, None, None)
    if _brings_back(operation) and not commit.files_restated:
        is_recorded = None not in (commit.rows_added, commit.rows_removed)
        return RowCounts(commit.rows_added, None, commit.rows_removed) if is_recorded else _UNKNOWN
    is_whole = operation.family is Family.DELETE and not commit.files_added
    return RowCounts(None, None, commit.rows_removed) if is_whole else _UNKNOWN


def _touches_files(commit: Commit) -> bool:
    return bool(commit.files_added or commit.files_removed)


def _first(metrics: Mapping[str, Any], names: Iterable[str]) -> int | None:
    for name in names:
        try:
            return int(metrics[name])
        except (KeyError, TypeError, ValueError):
            continue
    return None
