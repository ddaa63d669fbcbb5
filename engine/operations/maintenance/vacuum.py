"""VACUUM: deletes files not referenced by any version within the retention period.

It needs no Spark. The log is read again right before and during the deletion, so files restored by
a concurrent commit stay. VACUUM START warns concurrent RESTOREs.
"""

import math
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from engine.actions.commit_info import VACUUM_END, VACUUM_START
from engine.actions.files import AddCDCFile, AddFile
from engine.clock import CLOCK_SLACK_MS, surely_ms
from engine.commands.maintenance import HOUR_MS
from engine.commands.model import Vacuum
from engine.errors import EngineError, FileMissingError, TableReplacedError
from engine.log.commits import LogCommit, list_versions, read_commit
from engine.log.tip import is_replaced
from engine.operations.execution import Execution
from engine.operations.result import LISTED_FILES, OperationResult, Plan, PlannedFile
from engine.operations.run_options import oldest_start_ms
from engine.operations.vacuum_plan import (
    NeededFiles,
    Removals,
    decode_fully,
    doubt_all,
    find_unneeded,
    fold_to_listing,
    list_removed_paths,
    needs_of,
    paths_of,
    read_removals,
    reason_for,
)
from engine.snapshot.snapshot import Snapshot
from engine.spark.jobs import Progress
from engine.storage.base import FileStatus
from engine.storage.presence import StoreListing, delete_files
from engine.transaction.log_tail import iter_newer
from engine.transaction.staged_files import SPARED_FROM

_BATCH, _NAMED = 500, 5
_REMOVE = b'{"remove":'


def vacuum(command: Vacuum, execution: Execution) -> OperationResult:
    """Run a VACUUM, or plan it in a dry run.

    Raises:
        RetentionTooShortError: shorter than the table's retention, without an explicit override.
        MalformedLogError: the files of an old version are unknown: nothing is deleted.
        StorageError: a file could not be deleted; earlier ones are gone.
        TableReplacedError: another table replaced this one; none of its files is deleted.
    """
    snapshot = execution.table.snapshot()
    retention_ms = command.retention_ms(
        snapshot.table_uri, snapshot.properties.deleted_file_retention_ms
    )
    keep_from_ms = execution.table.clock.now_ms() - surely_ms(retention_ms)
    needed_from_ms = keep_from_ms if retention_ms else math.inf  # quick commits are dated ahead
    removals = read_removals(snapshot.store)
    needs = needs_of(snapshot, removals, needed_from_ms)
    listing, needs = _list_candidates(command, execution, removals, needs)
    unneeded, spare_from_ms = _find(execution, listing, needs, keep_from_ms)
    missing = _MissingFiles.find(needs, listing)
    if execution.options.dry_run:
        return _plan(snapshot, unneeded, removals, needs, retention_ms, missing)
    if execution.options.txn_id is None:  # one id for its start and its end
        execution = replace(execution, options=replace(execution.options, txn_id=str(uuid.uuid4())))
    start = _log_start(command, execution, snapshot, unneeded, spare_from_ms)
    doomed = unneeded
    if start.version != snapshot.version + 1:  # other commits landed since the files were found
        now = needs_of(execution.table.snapshot(), removals, needed_from_ms)
        needs = doubt_all(now.fold_names() if needs.folds else now)
        doomed = [file for file in unneeded if not needs.has(file.path)]
    try:
        deleted = _delete(execution, doomed, snapshot, needs)
    except TableReplacedError:
        raise  # the new table has no VACUUM to end
    except EngineError:
        uncancelled = replace(execution.options, progress=None, observer=None)
        unheeded = replace(execution, options=uncancelled)
        _log_end(unheeded, "FAILED", doomed)
        raise
    end = _log_end(execution, "COMPLETED", deleted)
    return OperationResult(
        version=end.version,
        metrics={**start.metrics, **end.metrics},
        attempts=start.attempts + end.attempts,
        versions=start.versions + end.versions,
        message=missing.add_to(
            "" if deleted else f"{_describe_kept_files(retention_ms)}: nothing was deleted."
        ),
    )


@dataclass(frozen=True, slots=True)
class _MissingFiles:
    """Live files missing from the table's directory, and listed files that may be the same."""

    missing: Sequence[str] = ()
    spared: Sequence[str] = ()

    @classmethod
    def find(cls, needs: NeededFiles, listing: StoreListing) -> "_MissingFiles":
        """Find the files missing from a listing of the whole directory."""
        if not needs.missing:
            return cls()
        return cls(needs.missing, sorted(filter(needs.may_be_missing, listing.paths)))

    def add_to(self, text: str) -> str:
        """Append a sentence on missing files to a summary."""
        return " ".join(sentence for sentence in (text, *self._sentences()) if sentence)

    def facts(self) -> dict[str, list[str]]:
        """Return the facts for a plan, JSON-ready; {} if no file is missing."""
        facts = {"missing_files": self.missing, "spared_files": self.spared}
        return {name: list(paths[:LISTED_FILES]) for name, paths in facts.items() if paths}

    def _sentences(self) -> Iterator[str]:
        if self.missing:
            yield (
                f"Missing from the table's directory: {_join_paths(self.missing)}, which the "
                "latest version needs."
            )
        if self.spared:
            yield (
                "Kept, because their names differ from missing files only in escape "
                f"sequences: {_join_paths(self.spared)}."
            )


def _join_paths(paths: Sequence[str]) -> str:
    more = f" and {len(paths) - _NAMED:,} more" if len(paths) > _NAMED else ""
    return ", ".join(path[:300] for path in paths[:_NAMED]) + more


def _list_candidates(
    command: Vacuum, execution: Execution, removals: Removals, needs: NeededFiles
) -> tuple[StoreListing, NeededFiles]:
    """List the deletable files (all files, or those removed by the log) with the needed ones."""

    def note(count: int) -> None:
        execution.progress(Progress("list files", count, 0, "files"))

    note(0)
    store = execution.table.store
    if command.lite:
        return StoreListing(store, list_removed_paths(removals, needs)), doubt_all(needs)
    listing = StoreListing.list_store(store, note)
    return listing, fold_to_listing(needs, listing)


def _find(
    execution: Execution, listing: StoreListing, needs: NeededFiles, keep_from_ms: int
) -> tuple[list[FileStatus], int | None]:
    """Find the files to delete, and the time since which running operations may have written files.

    Running operations are queried after the listing: a later one has no files in it.
    """
    starts = [execution.options.running_since(), oldest_start_ms(execution.table.uri)]
    oldest_ms = min((start for start in starts if start is not None), default=None)
    spare_from_ms = None if oldest_ms is None else oldest_ms - CLOCK_SLACK_MS
    return find_unneeded(listing, needs, keep_from_ms, spare_from_ms), spare_from_ms


def _delete(
    execution: Execution, doomed: Sequence[FileStatus], snapshot: Snapshot, needs: NeededFiles
) -> list[FileStatus]:
    """Delete files, except those named by commits after the snapshot; return the deleted ones.

    Raises:
        TableReplacedError: another table replaced this one. Earlier files are gone.
    """
    store, version, tip = execution.table.store, snapshot.version, snapshot.state.tip
    spared: set[str] = set()
    deleted: list[FileStatus] = []
    for start in range(0, len(doomed), _BATCH):
        execution.progress(Progress("delete files", start, len(doomed), "files"))
        for commit in iter_newer(store, version):
            version = commit.version
            spared.update(
                needs.key(decode_fully(path)) for path in _iter_added_paths(store.root, commit)
            )
        if tip is not None and is_replaced(store, tip):
            raise TableReplacedError(store.root, snapshot.version)
        batch = [
            file
            for file in doomed[start : start + _BATCH]
            if needs.key(decode_fully(file.path)) not in spared
        ]
        delete_files(store, [file.path for file in batch])
        deleted += batch
    return deleted


def _iter_added_paths(root: str, commit: LogCommit) -> Iterator[str]:
    for action in commit.actions:
        if isinstance(action, AddFile | AddCDCFile):
            yield from paths_of(root, action)


def _log_start(
    command: Vacuum,
    execution: Execution,
    snapshot: Snapshot,
    unneeded: Sequence[FileStatus],
    spare_from_ms: int | None,
) -> OperationResult:
    default_ms = snapshot.properties.deleted_file_retention_ms
    parameters: dict[str, object] = {
        "retentionCheckEnabled": not command.override_retention,
        "defaultRetentionMillis": default_ms,
    }
    if command.retention_hours is not None:
        parameters["specifiedRetentionMillis"] = round(command.retention_hours * HOUR_MS)
    if spare_from_ms is not None:
        parameters[SPARED_FROM] = spare_from_ms
    metrics: dict[str, int | str] = {
        "numFilesToDelete": len(unneeded),
        "sizeOfDataToDelete": sum(file.size_bytes for file in unneeded),
    }
    return execution.note(VACUUM_START, "start", parameters, metrics)


def _log_end(execution: Execution, status: str, deleted: Sequence[FileStatus]) -> OperationResult:
    metrics: dict[str, int | str] = {}
    if status == "COMPLETED":
        folders = {file.path.rpartition("/")[0] for file in deleted}
        metrics = {"numDeletedFiles": len(deleted), "numVacuumedDirectories": len(folders)}
    step = "end" if status == "COMPLETED" else "failed"
    return execution.note(VACUUM_END, step, {"status": status}, metrics)


def _plan(
    snapshot: Snapshot,
    unneeded: Sequence[FileStatus],
    removals: Removals,
    needs: NeededFiles,
    retention_ms: int,
    missing: _MissingFiles,
) -> OperationResult:
    lost = _versions_lost(snapshot, removals, {file.path for file in unneeded})
    summary = (
        f"{len(unneeded)} files would be deleted, and {len(lost)} versions would no longer be "
        "readable."
        if unneeded
        else f"{_describe_kept_files(retention_ms)}: nothing would be deleted."
    )
    plan = Plan(
        missing.add_to(summary),
        tuple(
            PlannedFile(file.path, file.size_bytes, reason_for(file, needs))
            for file in unneeded[:LISTED_FILES]
        ),
        len(unneeded),
        sum(file.size_bytes for file in unneeded),
        rows=None if unneeded else 0,
        facts={
            "versions_lost": _ranges(lost),
            "retention_hours": retention_ms / HOUR_MS,
            **missing.facts(),
        },
    )
    return OperationResult(plan=plan)


def _describe_kept_files(retention_ms: int) -> str:
    return f"Every file is needed, or younger than the retention of {retention_ms / HOUR_MS:g} h"


def _versions_lost(snapshot: Snapshot, removals: Removals, doomed: set[str]) -> list[int]:
    """Return the versions with a doomed file, walking back from the latest version."""
    store = snapshot.store
    missing: set[str] = set()
    lost: list[int] = []
    for version in reversed(list_versions(store)):
        if version > snapshot.version:
            continue
        if missing:
            lost.append(version)
            try:
                commit = read_commit(store, version, passed_over=_REMOVE)
            except FileMissingError:
                break
            added = (action for action in commit.actions if isinstance(action, AddFile))
            missing.difference_update(path for file in added for path in paths_of(store.root, file))
        missing |= doomed.intersection(removals.by_version.get(version, ()))
    return sorted(lost)


def _ranges(versions: Sequence[int]) -> list[list[int]]:
    """Join consecutive versions to ranges: [1, 2, 3, 7] becomes [[1, 3], [7, 7]]."""
    ranges: list[list[int]] = []
    for version in versions:
        if ranges and ranges[-1][1] == version - 1:
            ranges[-1][1] = version
        else:
            ranges.append([version, version])
    return ranges
