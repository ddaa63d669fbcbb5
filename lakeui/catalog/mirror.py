"""The log, copied into rows: the only writer of `Table`'s mirrored fields, `Commit` and its files.

Storage is read first and rows are written after, in transactions of one batch each: a slow store
never blocks the database. An unreadable table keeps its mirrored state and records since when and
why it is stale; nothing is raised, because a page must not fail for a table.
"""

import logging
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Protocol

from django.conf import settings
from django.db import InterfaceError, OperationalError, transaction
from django.db.models import Max, Subquery
from django.db.models.functions import Substr
from django.utils import timezone

from engine.errors import EngineError, FileMissingError
from engine.log.commits import LogCommit, list_versions, read_commit_and_text
from engine.log.management import CATALOG_MANAGED
from engine.log.paths import LogFileKind, commit_path
from engine.log.replay import TableState, replay
from engine.log.segment import LogFile, list_log_files, whole_log
from engine.snapshot.snapshot import Snapshot
from engine.storage.base import Store
from engine.storage.presence import read_ahead
from engine.storage.uri import open_store
from engine.table import DeltaTable
from lakeui.catalog import log_values
from lakeui.catalog.database_catalog import open_table_store
from lakeui.catalog.hours import count_in, count_out
from lakeui.catalog.log_rows import FileSums, MirroredFiles, commit_row, file_rows, table_fields
from lakeui.catalog.models import Commit, CommitFile, LiveFile, Table, TableSync
from lakeui.catalog.new_rows import NewRow, insert_rows
from lakeui.catalog.roots import check_table_uri, storage_options
from lakeui.catalog.table_cache import (
    HELD_TABLES,
    DeadFiles,
    HeldTable,
    UnfitError,
    vacuum_horizon_ms,
)

logger = logging.getLogger(__name__)

MAINTENANCE = {"last_optimize_at": "OPTIMIZE", "last_vacuum_at": "VACUUM END"}

_BATCH, _ROWS_A_READ = 1000, 5000
_BATCH_BYTES = 16 * 1024 * 1024  # of commits held at once, one larger commit excepted
_COMPARED = 4096  # distinctive bytes of a commit: its time, ids and paths
_CUT = 3  # characters at the end that may be cut in one of two equal texts
_Read = tuple[LogCommit, bytes]


class ReadProgress(Protocol):
    """Receives the progress of reading a log; see `TableSync.Stage`."""

    def __call__(self, stage: str, done: int = 0, total: int = 0) -> None:
        """Report `done` parts of a stage."""
        ...


def _nobody(stage: str, done: int = 0, total: int = 0) -> None:
    del stage, done, total


def refresh_table(table: Table, progress: ReadProgress = _nobody) -> int:
    """Mirror the new versions of the log; return how many.

    A failure is recorded on the table, never raised; if the database is unreachable, in the log
    alone.
    """
    return _refresh_despite_database_errors(table, progress, rebuild=False)


def rebuild_table(table: Table) -> int:
    """Delete the mirror of a table and read the log again; return the number of versions."""
    return _refresh_despite_database_errors(table, _nobody, rebuild=True)


def _refresh_despite_database_errors(table: Table, progress: ReadProgress, *, rebuild: bool) -> int:
    try:
        return _refresh_and_record(table, progress, rebuild=rebuild)
    except (OperationalError, InterfaceError):  # the next sync repairs it
        logger.warning("The mirror of %s could not be written", table.name, exc_info=True)
        return 0


def _refresh_and_record(table: Table, progress: ReadProgress, *, rebuild: bool) -> int:
    try:
        return _refresh(table, progress, rebuild=rebuild)
    except (OperationalError, InterfaceError):
        raise
    except EngineError as error:
        _record_failure(table, error.code, error.what, error.remedy)
    except Exception as error:  # one table must not stop the mirror of the others
        logger.exception("The mirror of %s failed", table.name)
        _record_failure(table, "LAKE_INTERNAL", f"{type(error).__name__} while reading the log.")
    return 0


def _refresh(table: Table, progress: ReadProgress, *, rebuild: bool) -> int:
    uri = check_table_uri(table.uri)
    is_plain = table.version is not None and CATALOG_MANAGED not in table.writer_features
    store = (open_store if is_plain else open_table_store)(uri, storage_options(uri))
    holds = None if rebuild or table.version is None else _holds_newest(table, store)
    files = None
    if holds and not table.mirror_error_code:
        mirrored_version = table.version or 0
        first = HELD_TABLES.first_listed(_key(table, store), mirrored_version)
        files = list_log_files(store, first)  # once: mirrored and followed below
        if not any(_is_commit(file) and file.version > mirrored_version for file in files):
            _set(table, **_success_fields(table))
            return 0
    is_stale = rebuild or holds is False  # rebuilt on request, or the directory was replaced
    forgets = is_stale and bool(list_versions(store))  # an unreachable store deletes nothing
    if forgets:
        forget_mirror(table)
    # first: readable even if the snapshot is not
    mirrored, state, commits = _mirror_commits(table, store, progress, files, anew=forgets)
    progress(TableSync.Stage.SNAPSHOT)
    if files is not None and _follow(table, store, files, commits):
        return mirrored
    snapshot = DeltaTable(store).snapshot() if state is None else Snapshot(store, state)
    renewed = table.table_uuid not in ("", snapshot.metadata.id)
    if renewed or snapshot.version < (table.version or 0):  # another table has replaced it
        forget_mirror(table)
        mirrored, *_ = _mirror_commits(table, store, progress, anew=True)
    if mirrored or table.version != snapshot.version or table.mirror_error_code:
        progress(TableSync.Stage.ROWS)
        _write_anew(table, snapshot)
    _set(table, **_success_fields(table))
    return mirrored


def _holds_newest(table: Table, store: Store) -> bool | None:
    """Whether the latest mirrored commit equals the log's, by their beginnings.

    None: one of them is missing.
    """
    version = table.version or 0
    kept = Commit.objects.filter(table=table, version=version)
    row = kept.values_list("raw_bytes", Substr("raw", 1, _COMPARED)).first()
    if row is None:
        return None
    try:
        begin = store.read(commit_path(version), 0, _COMPARED)
    except FileMissingError:
        return None
    raw_bytes, raw = row
    text = log_values.text(begin.decode("utf-8", "replace"))
    same = min(len(text), len(raw)) - _CUT
    return bool(len(begin) == min(raw_bytes, _COMPARED) and text[:same] == raw[:same])


def _mirror_commits(
    table: Table,
    store: Store,
    progress: ReadProgress,
    files: Sequence[LogFile] | None = None,
    *,
    anew: bool = False,
) -> tuple[int, TableState | None, list[LogCommit]]:
    """Mirror the versions after the latest mirrored one; with `anew`, all versions of the log.

    Return their number, the table's state if the log was read from its first version, and the
    commits if `files`, the log's files since the mirrored version, were given and are small.
    Another refresh may have added the latest version since the mirror was deleted.
    """
    mirrored = Commit.objects.filter(table=table).aggregate(newest=Max("version"))["newest"]
    newest = -1 if mirrored is None or anew else mirrored
    listed = list_log_files(store, newest + 1) if files is None else files
    commits = [file for file in listed if _is_commit(file) and file.version > newest]
    whole = whole_log(listed) if newest < 0 else ()
    written = _write_in_batches(table, store, commits, progress)
    if whole:
        return len(commits), replay(store, whole, written), []
    is_small = sum(file.status.size_bytes for file in commits) <= _BATCH_BYTES
    keeps = files is not None and is_small
    return len(commits), None, [commit for commit in written if keeps]


def _is_commit(file: LogFile) -> bool:
    return file.name.kind is LogFileKind.COMMIT


def _write_in_batches(
    table: Table, store: Store, files: Sequence[LogFile], progress: ReadProgress
) -> Iterator[LogCommit]:
    """Yield each commit once it is written."""
    done = 0
    for batch in _batches(files):
        commits = list(_read_commits(store, batch, progress, done, len(files)))
        _write_commits(table, commits)
        yield from (commit for commit, _ in commits)
        done += len(batch)


def _batches(files: Sequence[LogFile]) -> Iterator[Sequence[LogFile]]:
    """Yield batches to be read, held and written at once: some commits, or one large commit."""
    begin = size = 0
    most = settings.MIRROR_COMMITS_A_BATCH
    for place, file in enumerate(files):
        is_full = place - begin >= most
        if place > begin and (is_full or size + file.status.size_bytes > _BATCH_BYTES):
            yield files[begin:place]
            begin, size = place, 0
        size += file.status.size_bytes
    if begin < len(files):
        yield files[begin:]


def _read_commits(
    store: Store, files: Sequence[LogFile], progress: ReadProgress, done: int, total: int
) -> Iterator[_Read]:
    length = settings.MIRROR_MAX_RAW_BYTES

    def read(file: LogFile) -> _Read | None:
        try:
            return read_commit_and_text(store, file, length)
        except FileMissingError:  # log cleanup came between listing and reading
            return None

    for place, commit in enumerate(read_ahead(store, read, files), done):
        progress(TableSync.Stage.COMMITS, place, total)
        if commit is not None:
            yield commit


def _write_commits(table: Table, commits: Sequence[_Read]) -> None:
    with transaction.atomic():
        Table.objects.select_for_update().get(pk=table.pk)
        versions = [commit.version for commit, _ in commits]
        existing = Commit.objects.filter(table=table, version__in=versions)
        have = set(existing.values_list("version", flat=True))  # another refresh came first
        new = [(commit, raw) for commit, raw in commits if commit.version not in have]
        rows = [commit_row(table, commit, raw) for commit, raw in new]
        insert_rows(Commit, rows)
        count_in(rows)
        _note_maintenance(table, rows)
        _note_begin(table, [commit for commit, _ in new])
        keys = dict(existing.values_list("version", "pk"))
        files = [
            file for commit, raw in new for file in file_rows(keys[commit.version], commit, raw)
        ]
        insert_rows(CommitFile, files)


def _write_anew(table: Table, snapshot: Snapshot) -> None:
    files = snapshot.files()
    sums, live = FileSums.from_files(files), MirroredFiles.choose(files)
    dead = DeadFiles.from_snapshot(snapshot, files, _last_vacuum_time(table))
    fields = table_fields(snapshot) | sums.fields() | dead.fields()
    _write_snapshot(table, fields, live)
    held = HeldTable.from_snapshot(snapshot, files, sums, dead, live)
    if held is not None:
        HELD_TABLES.keep(_key(table, snapshot.store), held)


def _last_vacuum_time(table: Table) -> datetime | None:
    return Table.objects.values_list("last_vacuum_at", flat=True).get(pk=table.pk)


def _key(table: Table, store: Store) -> tuple[object, str]:
    return table.pk, store.root


def _follow(
    table: Table, store: Store, files: Sequence[LogFile], read: Sequence[LogCommit]
) -> bool:
    """Bring a cached table's mirror to the latest version; return False if it must be read again.

    `files` are the log's since the held version, `read` those of their commits that were read.
    """
    held = HELD_TABLES.take(_key(table, store))
    if held is None or held.cap != settings.MIRROR_MAX_LIVE_FILES:
        return False
    try:
        _write_changes(table, held, held.commits_since(store, files, read))
    except UnfitError:
        return False
    HELD_TABLES.keep(_key(table, store), held)
    return True


def _write_changes(table: Table, held: HeldTable, commits: Sequence[LogCommit]) -> None:
    """Advance a held table, and write the differences from the mirrored version.

    Raises:
        UnfitError: the mirror is not that of the held table, and nothing was written.
    """
    with transaction.atomic():
        current = Table.objects.select_for_update().get(pk=table.pk)
        written = current.version or 0
        held.advance([commit for commit in commits if commit.version <= written])
        if any(getattr(current, name) != value for name, value in held.fields().items()):
            raise UnfitError
        changes = held.advance([commit for commit in commits if commit.version > written])
        horizon_ms = vacuum_horizon_ms(current.last_vacuum_at, held.dead.retention_ms)
        if held.dead.since_ms != horizon_ms:
            raise UnfitError
        rows = LiveFile.objects.filter(table=table)
        paths, gone = changes.leaving, 0
        for begin in range(0, len(paths), _BATCH):
            gone += rows.filter(path__in=paths[begin : begin + _BATCH]).delete()[0]
        if gone != len(paths):
            raise UnfitError
        coming = MirroredFiles.choose(changes.coming)
        insert_rows(LiveFile, coming.rows(table, set(coming.keys)))
        _set(table, **held.fields(), **_history_fields(table), **_success_fields(table))


def _write_snapshot(table: Table, fields: dict[str, object], live: MirroredFiles) -> None:
    with transaction.atomic():
        current = Table.objects.select_for_update().get(pk=table.pk)
        if current.version is not None and current.version > int(str(fields["version"])):
            return  # another refresh saw more
        _replace_live_files(table, live)
        fields |= {"live_files_mirrored": len(live.keys), **_history_fields(table)}
        _set(table, **fields)


def _history_fields(table: Table) -> dict[str, object]:
    history = Commit.objects.filter(table=table).order_by("-version")
    first = Subquery(history.reverse().values("version")[:1])
    columns = ("committed_at", "operation", "user_name", "engine_info")
    row = history.annotate(first=first).values_list("first", *columns).first()
    earliest, at, operation, user_name, engine_info = row or (None, None, "", "", "")
    return {
        "earliest_version": earliest,
        "last_commit_at": at,
        "last_operation": operation,
        "last_writer": user_name or engine_info,
    }


def _note_maintenance(table: Table, rows: Sequence[NewRow]) -> None:
    """Record when the table was last compacted and cleaned, so that no page has to search for it."""
    for field, operation in MAINTENANCE.items():
        done = [row["committed_at"] for row in rows if row["operation"] == operation]
        latest = max((at for at in done if at is not None), default=None)
        if latest is not None:
            stored: datetime | None = getattr(table, field)
            _set(table, **{field: max(stored or latest, latest)})


def _note_begin(table: Table, commits: Sequence[LogCommit]) -> None:
    """Record when version 0 was written, by its writer: a file's time is that of its copy."""
    for commit in commits:
        if commit.version == 0:
            info = commit.commit_info
            _set(table, begun_at=log_values.moment(info.timestamp if info else None))


def _replace_live_files(table: Table, live: MirroredFiles) -> None:
    """Write the difference alone: most files outlive a commit."""
    rows = LiveFile.objects.filter(table=table)
    columns = ("path", "size_bytes", "deleted_row_count", "row_count", "modified_at", "pk")
    stored = {tuple(key): pk for *key, pk in rows.values_list(*columns).iterator(_ROWS_A_READ)}
    gone = [stored[key] for key in stored.keys() - set(live.keys)]
    for begin in range(0, len(gone), _BATCH):
        LiveFile.objects.filter(pk__in=gone[begin : begin + _BATCH]).delete()
    insert_rows(LiveFile, live.rows(table, set(live.keys) - stored.keys()))


def forget_mirror(table: Table) -> None:
    """Delete the mirror of a table's log; jobs, conflicts and roles stay."""
    with transaction.atomic():
        Table.objects.select_for_update().get(pk=table.pk)
        count_out(table)
        CommitFile.objects.filter(commit__table=table).delete()
        Commit.objects.filter(table=table).delete()
        LiveFile.objects.filter(table=table).delete()
        gone = dict.fromkeys(("version", "begun_at", *MAINTENANCE))
        _set(table, live_files_mirrored=0, **gone)


def _success_fields(table: Table) -> dict[str, object]:
    now = timezone.now()
    recovered: dict[str, object] = {}
    if table.mirror_failed_at is not None or table.mirror_tries:
        recovered = {"mirror_failed_at": None, "mirror_tries": 0}
    said = {"mirror_error_code": "", "mirror_error": ""}
    return {"mirrored_at": now, "mirror_tried_at": now, **said, **recovered}


_REMEDIES = {
    "DELTA_LOG_MALFORMED": "Repair the log with the engine that wrote it.",
    "DELTA_VERSIONS_NOT_CONTIGUOUS": "Restore the missing files of the log from a backup.",
    "DELTA_TABLE_NOT_FOUND": "Check the location, or unregister the table.",
    "DELTA_UNSUPPORTED_FEATURES": "Read the table with an engine that supports them.",
    "LAKE_FILE_MISSING": "Restore the missing file from a backup.",
    "LAKE_INTERNAL": "Report it with the log of the light worker.",
}
"""What to do about an error that brings no remedy of its own, by its code."""
_CHECK_STORAGE = "Check the storage and its credentials."


def _record_failure(table: Table, code: str, what: str, remedy: str = "") -> None:
    """Record an error with its remedy, which every reader shows as it is.

    `mirror_failed_at` is when the trouble began; `mirrored_at` stays the age of what is shown.
    """
    by_code = _CHECK_STORAGE if code.startswith("LAKE_STORAGE") else _REMEDIES.get(code, "")
    message = f"{what} {remedy or by_code}".strip()
    now = timezone.now()
    since = table.mirror_failed_at if table.mirror_error_code == code else None
    _set(
        table,
        mirror_tried_at=now,
        mirror_tries=table.mirror_tries + 1 if since else 1,
        mirror_error_code=log_values.text(code, 100),
        mirror_error=log_values.text(message, 4000),
        mirror_failed_at=since or now,
    )


def _set(table: Table, **fields: object) -> None:
    Table.objects.filter(pk=table.pk).update(**fields)
    for name, value in fields.items():
        setattr(table, name, value)
