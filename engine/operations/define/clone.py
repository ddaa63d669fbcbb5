"""CREATE TABLE … CLONE: a table over another one's files, or over copies of them; without Spark.

The log of a shallow clone names the source's files by absolute paths. The source does not protect
them: its VACUUM deletes every file it no longer needs. A deep clone copies the files below its own
root before its commit, and the commit is checked against everything committed in the meantime.

A copy's name is derived from the source path, the table's id, and the size and time in the source's
log: equal names mean equal content, even if a table was recreated with the same file names. A
repeated run therefore finds the copies of an earlier one, checks their size, and never overwrites
the clone's own files. VACUUM removes unused copies.
"""

import hashlib
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from functools import cache
from threading import Event
from urllib.parse import quote

import msgspec

from engine.actions.codec import Action
from engine.actions.files import AddFile, DeletionVectorDescriptor
from engine.actions.table import Protocol
from engine.commands.definition import Clone
from engine.commands.names import table_sql
from engine.deletion_vectors.bitmap import encode_z85
from engine.deletion_vectors.files import locate, relative_path
from engine.errors import (
    DataFileMissingError,
    InvalidPropertyError,
    OperationCancelledError,
    RequestError,
    TableExistsError,
)
from engine.log.segment import list_log_files
from engine.operations.execution import Execution
from engine.operations.restored_files import SharedFiles
from engine.operations.result import OperationResult, PlannedFile, plan_of
from engine.operations.vacuum_plan import paths_of
from engine.operations.write_rows import removal
from engine.protocol.clustering import CLUSTERING_DOMAIN
from engine.protocol.features import has_feature, list_supported_features, upgrade
from engine.schema.column_mapping import MODE_KEY
from engine.snapshot.data_files import add_row_counts, count_rows
from engine.snapshot.new_table import add_defaults
from engine.snapshot.snapshot import Snapshot
from engine.spark.file_writer import PATH_SAFE
from engine.spark.jobs import Progress
from engine.spark.write.identity import restore_latest_marks
from engine.storage.base import FileStatus, Store
from engine.storage.uri import ResolvedPath, local_path, open_store, resolve_log_path
from engine.table import DeltaTable
from engine.transaction.optimistic_transaction import OptimisticTransaction

_DIGEST_CHARACTERS = 16

STAGE = "copy files"
AT_ONCE = 8
TRUSTED_MS = 24 * 3600 * 1000
"""Maximum age of an earlier run's copy: a VACUUM might be removing an older one."""
_PIECE_BYTES = 8 * 1024 * 1024
_LOOK_SECONDS = 1.0

_TIMES = (
    "delta.inCommitTimestampEnablementVersion",
    "delta.inCommitTimestampEnablementTimestamp",
)
_ROW_COLUMNS = (
    "delta.rowTracking.materializedRowIdColumnName",
    "delta.rowTracking.materializedRowCommitVersionColumnName",
)
_PROTECTION = "checkpointProtection"
_OF_ITS_OWN = (*_TIMES, *_ROW_COLUMNS, "delta.requireCheckpointProtectionBeforeVersion")
"""Properties about a table's own history and rows, which a clone does not inherit."""
_FORMATS = "delta.universalFormat.enabledFormats"  # its metadata names only the source's files
_KEPT = (*_OF_ITS_OWN, "delta.enableInCommitTimestamps")


@dataclass(frozen=True, slots=True)
class FileCopy:
    """A file and the path of its copy below the clone."""

    source: ResolvedPath
    path: str


@dataclass(frozen=True, slots=True)
class CopiedFile:
    """A live file as the clone's log names it, and the copies to make for it."""

    add: AddFile
    copies: tuple[FileCopy, ...]


@dataclass(frozen=True)
class _Change:
    """The changes a clone makes to its target: terms, added files and removed files.

    `copies` are the files a deep clone must copy for the added files.
    """

    terms: Sequence[Action]
    added: Sequence[AddFile]
    removed: Sequence[AddFile] = ()
    copies: Sequence[FileCopy] = ()

    @property
    def copied(self) -> list[AddFile]:
        """The added files whose data is copied, not those with only a new deletion vector."""
        paths = {quote(copy.path, safe=PATH_SAFE) for copy in self.copies}
        return [add for add in self.added if add.path in paths]


def clone(command: Clone, execution: Execution) -> OperationResult:
    """Run a CLONE.

    Raises:
        TableExistsError: the target exists, and the command does not replace it.
        TableNotFoundError, VersionNotFoundError, TimestampOutOfRangeError: the source does not
            exist.
        RequestError: source and target overlap.
        InvalidPropertyError: the target maps its columns in another way.
        PathOutsideRootError: the source itself has files outside every allowed root.
        DataFileError: a file to copy or to share is gone.
        RequestError: a VACUUM of the source may be deleting files now.
        ConflictError: another transaction committed to the target.
    """
    exists = bool(list_log_files(execution.table.store))
    if exists and command.if_not_exists:
        return OperationResult(message="The table already exists: nothing was done.")
    if exists and not command.replace:
        msg = f"There is already a Delta table at {execution.table.uri}."
        raise TableExistsError(msg, "Choose another location, or use CREATE OR REPLACE.")
    owner = _owner(command, execution)
    source = owner.snapshot(version=command.version, timestamp=command.timestamp)
    txn = execution.begin() if exists else _begin_create(execution)
    current = txn.snapshot
    change = _change(source, current, execution.now_ms, deep=command.deep)
    if execution.options.dry_run:
        return _plan(source, change, deep=command.deep)
    if change.copies:
        copy_files(execution, change.copies, owner.storage_options)
    if not command.deep:
        observer = execution.options.observer
        txn.observe(SharedFiles(owner, source, execution.now_ms, observer))
    if exists:
        txn.read_whole_table()
    txn.stage(*change.terms, *map(removal, change.removed), *change.added)
    parameters = {
        "source": table_sql(command.source_table),
        "sourceVersion": source.version,
        "isShallow": not command.deep,
    }
    same = not txn.actions
    result = execution.commit(txn, "CLONE", parameters, _metrics(source, change))
    message = f"The table is already a clone of version {source.version} of {source.table_uri}."
    return result.replace_message(message) if same else result


def _owner(command: Clone, execution: Execution) -> DeltaTable:
    """Open the table to clone."""
    target = execution.table
    table = execution.named_tables.open(command.source_table)
    ours, theirs = _real(target.uri), _real(table.uri)
    if ours.startswith(theirs) or theirs.startswith(ours):
        msg = f"{table.uri} and {target.uri} are the same table, or one is inside the other."
        raise RequestError(msg, "Clone to a separate location.", field="source_table")
    return table


def _real(uri: str) -> str:
    place = local_path(uri)
    return f"{uri if place is None else place.resolve()}/"


def _begin_create(execution: Execution) -> OptimisticTransaction:
    return OptimisticTransaction(
        execution.table,
        None,
        txn_id=execution.options.txn_id,
        observer=execution.options.observer,
        clock=execution.table.clock,
    )


def _change(source: Snapshot, current: Snapshot | None, now_ms: int, *, deep: bool) -> _Change:
    live = source.add_files()
    protocols = [source.protocol, *([current.protocol] if current else [])]
    if any(has_feature(protocol, "rowTracking") for protocol in protocols):
        store, roots = source.store, source.allowed_roots
        live = add_row_counts(live, lambda add: count_rows(store, add.path, roots))
    if deep:
        files = [copy_file(source, add) for add in live]
    else:
        files = [CopiedFile(share_file(source, add), ()) for add in live]
    adds = [file.add for file in files]
    change = _plan_replace(source, current, adds) if current else _new(source, adds, now_ms)
    return replace(change, copies=_plan_copies(files, change.added, current)) if deep else change


def _plan_copies(
    files: Sequence[CopiedFile], added: Sequence[AddFile], current: Snapshot | None
) -> list[FileCopy]:
    """List the copies to make for the added files, without files the table already has."""
    present: set[str] = set()
    if current is not None:
        root = current.table_uri
        present.update(path for add in current.add_files() for path in paths_of(root, add))
    coming = {add.key for add in added}
    copies = {copy.path: copy for file in files if file.add.key in coming for copy in file.copies}
    return [copy for path, copy in copies.items() if path not in present]


def _new(source: Snapshot, adds: Sequence[AddFile], now_ms: int) -> _Change:
    """Plan a clone into a new table: the source's terms under a new table id."""
    metadata = msgspec.structs.replace(
        source.metadata,
        id=str(uuid.uuid4()),
        name=None,
        description=None,
        created_time=now_ms,
        configuration=_configuration(source, {}),
    )
    terms: list[Action] = [_drop_checkpoint_protection(source.protocol), metadata]
    if (domain := source.domains.get(CLUSTERING_DOMAIN)) is not None:
        terms.append(domain)
    return _Change(terms, adds)


def _plan_replace(source: Snapshot, current: Snapshot, adds: Sequence[AddFile]) -> _Change:
    """Plan a clone into an existing table: it keeps its id, name, features and shared files."""
    if current.mapping_mode != source.mapping_mode:
        msg = (
            f"{current.table_uri} maps its columns by {current.mapping_mode}, but "
            f"{source.table_uri} maps them by {source.mapping_mode}."
        )
        raise InvalidPropertyError(msg, "Clone into a new table.", field=MODE_KEY)
    before = {add.key: add for add in current.add_files()}
    after = {add.key: add for add in adds}
    tracked = has_feature(source.protocol, "rowTracking")
    return _Change(
        list(_iter_succession_actions(source, current)),
        [add for key, add in after.items() if not _serves(before.get(key), add, tracked=tracked)],
        [add for key, add in before.items() if key not in after],
    )


def _serves(have: AddFile | None, source_file: AddFile, *, tracked: bool) -> bool:
    """Return whether an existing file can stay unchanged."""
    if have is None or (tracked and have.base_row_id is None):
        return False
    return all(
        getattr(have, name) == getattr(source_file, name)
        for name in ("partition_values", "stats", "size", "modification_time")
    )


def _iter_succession_actions(source: Snapshot, current: Snapshot) -> Iterator[Action]:
    required = list_supported_features(source.protocol) - {_PROTECTION}
    if missing := required - list_supported_features(current.protocol):
        yield upgrade(current.protocol, missing)
    schema = restore_latest_marks(source.schema, current.schema)
    metadata = msgspec.structs.replace(
        source.metadata,
        schema_string=source.metadata.schema_string
        if schema == source.schema
        else schema.to_json(),
        id=current.metadata.id,
        name=current.metadata.name,
        description=current.metadata.description,
        created_time=current.metadata.created_time,
        configuration=_configuration(source, current.metadata.configuration),
    )
    if metadata != current.metadata:
        yield metadata
    ours, theirs = (snapshot.domains.get(CLUSTERING_DOMAIN) for snapshot in (current, source))
    if theirs is not None and theirs != ours:
        yield theirs
    if ours is not None and theirs is None:
        yield msgspec.structs.replace(ours, removed=True)


def _configuration(source: Snapshot, own: Mapping[str, str]) -> dict[str, str]:
    """Merge the source's properties with the target's own history and row properties."""
    theirs = source.metadata.configuration
    taken = {key: value for key, value in theirs.items() if key not in (*_OF_ITS_OWN, _FORMATS)}
    kept = {key: own[key] for key in _KEPT if key in own}
    return add_defaults({**taken, **kept}, ["-"], ())


def _drop_checkpoint_protection(protocol: Protocol) -> Protocol:
    """Remove checkpoint protection: it protects the source's history only."""
    features = [
        writer_feature
        for writer_feature in protocol.writer_features or ()
        if writer_feature != _PROTECTION
    ]
    if protocol.writer_features is None:
        return protocol
    return msgspec.structs.replace(protocol, writer_features=features)


def _metrics(source: Snapshot, change: _Change) -> dict[str, int | str]:
    return {
        "sourceTableSize": source.size_bytes,
        "sourceNumOfFiles": source.file_count,
        "numRemovedFiles": len(change.removed),
        "numCopiedFiles": len(change.copied),
        "removedFilesSize": sum(add.size for add in change.removed),
        "copiedFilesSize": sum(add.size for add in change.copied),
    }


def _plan(source: Snapshot, change: _Change, *, deep: bool) -> OperationResult:
    came = change.copied if deep else change.added
    files = [PlannedFile.from_add(add, "copied" if deep else "shared") for add in came]
    files += [PlannedFile.from_add(add, "removed") for add in change.removed]
    summary = (
        f"The table would {'copy' if deep else 'share'} {len(came)} files of version"
        f" {source.version} of {source.table_uri}; {len(change.removed)} of its own files "
        "would be removed."
    )
    return OperationResult(plan=plan_of(summary, files, version=source.version))


def share_file(owner: Snapshot, add: AddFile) -> AddFile:
    """Return a table's live file, with its deletion vector, as an action for another table's log.

    Row ids are left out: they number the rows of their own table.

    Raises:
        PathOutsideRootError: the file lies outside the table and its allowed roots.
    """
    place = resolve_log_path(owner.table_uri, add.path, owner.allowed_roots)
    return msgspec.structs.replace(
        add,
        path=_absolute(place),
        deletion_vector=_share_vector(owner, add.deletion_vector),
        data_change=True,
        base_row_id=None,
        default_row_commit_version=None,
    )


def _share_vector(
    owner: Snapshot, vector: DeletionVectorDescriptor | None
) -> DeletionVectorDescriptor | None:
    if vector is None or vector.storage_type == "i":
        return vector
    place = _absolute(locate(owner.table_uri, vector, owner.allowed_roots))
    return msgspec.structs.replace(vector, storage_type="p", path_or_inline_dv=place)


def _absolute(place: ResolvedPath) -> str:
    scheme, _, rest = place.root.rpartition("://")
    return f"{scheme or 'file'}://{quote(f'{rest}/{place.path}', safe=PATH_SAFE)}"


def copy_file(owner: Snapshot, add: AddFile) -> CopiedFile:
    """Return a table's live file, with its deletion vector, as an action for its deep clone's log.

    Row ids are left out: they number the rows of their own table.

    Raises:
        PathOutsideRootError: the file lies outside the table and its allowed roots.
    """
    place = resolve_log_path(owner.table_uri, add.path, owner.allowed_roots)
    data = FileCopy(place, _copy_name(place, owner.metadata.id, add))
    vector, copies = _copy_vector(owner, add.deletion_vector)
    ours = msgspec.structs.replace(
        add,
        path=quote(data.path, safe=PATH_SAFE),
        deletion_vector=vector,
        data_change=True,
        base_row_id=None,
        default_row_commit_version=None,
    )
    return CopiedFile(ours, (data, *copies))


def _copy_vector(
    owner: Snapshot, vector: DeletionVectorDescriptor | None
) -> tuple[DeletionVectorDescriptor | None, tuple[FileCopy, ...]]:
    if vector is None or vector.storage_type == "i":
        return vector, ()
    place = locate(owner.table_uri, vector, owner.allowed_roots)
    name = encode_z85(uuid.uuid5(uuid.NAMESPACE_URL, f"{owner.metadata.id} {_whole(place)}").bytes)
    ours = msgspec.structs.replace(vector, storage_type="u", path_or_inline_dv=name)
    return ours, (FileCopy(place, relative_path(name)),)


def _copy_name(place: ResolvedPath, table_id: str, add: AddFile) -> str:
    directory, _, name = place.path.rpartition("/")
    content = f"{table_id} {add.size} {add.modification_time} {_whole(place)}"
    digest = hashlib.sha256(content.encode()).hexdigest()[:_DIGEST_CHARACTERS]
    return f"{directory}/{digest}-{name}".lstrip("/")


def _whole(place: ResolvedPath) -> str:
    return f"{place.root}/{place.path}"


def copy_files(
    execution: Execution, copies: Sequence[FileCopy], storage_options: Mapping[str, str]
) -> int:
    """Copy the missing files; return the number of files copied.

    Raises:
        DataFileMissingError: a file of the source is gone.
        OperationCancelledError: the caller cancelled; no partial copies remain.
    """
    stopped = Event()
    copying = _Copying(execution, storage_options, stopped)
    outcomes = _all_of(execution, copies, copying.copy, stopped)
    again = [
        copy for copy, copied in outcomes if not copied
    ]  # a VACUUM may have deleted them meanwhile
    outcomes += _all_of(execution, again, copying.copy, stopped) if again else []
    copied = len([copy for copy, done in outcomes if done])
    execution.report_finding(f"{copied:,} of {len(copies):,} files were left to copy", STAGE)
    return copied


class _Copying:
    def __init__(
        self, execution: Execution, storage_options: Mapping[str, str], stopped: Event
    ) -> None:
        self._target, self._stopped = execution.table.store, stopped
        self._fresh_from_ms = execution.now_ms - TRUSTED_MS
        self._source_at = cache(lambda root: open_store(root, storage_options))

    def copy(self, copy: FileCopy) -> bool:
        """Copy one file; return False if the copy exists."""
        source: Store = self._source_at(copy.source.root)
        original, there = source.stat(copy.source.path), self._target.stat(copy.path)
        if original is None:
            msg = f"{copy.source.path} of {copy.source.root} is missing and cannot be cloned."
            raise DataFileMissingError(msg, "Clone a version whose files have not been vacuumed.")
        if there is not None and self._is_copy(there, original):
            return False
        self._target.put_stream(copy.path, self._pieces(source, copy.source.path))
        return True

    def _is_copy(self, there: FileStatus, original: FileStatus) -> bool:
        """Return whether a file is an earlier run's copy, recent enough to be safe from VACUUM."""
        return there.size_bytes == original.size_bytes and there.modified_ms >= self._fresh_from_ms

    def _pieces(self, source: Store, path: str) -> Iterator[bytes]:
        with source.open_input(path) as file:
            while piece := file.read(_PIECE_BYTES):
                if self._stopped.is_set():
                    msg = "The copy was stopped."
                    raise OperationCancelledError(msg)
                yield piece


def _all_of(
    execution: Execution,
    copies: Sequence[FileCopy],
    copy: Callable[[FileCopy], bool],
    stopped: Event,
) -> list[tuple[FileCopy, bool]]:
    """Run all copies; return each and whether it was made, reporting progress from this thread."""
    outcomes: list[tuple[FileCopy, bool]] = []
    left, running = iter(copies), dict[Future[bool], FileCopy]()
    with ThreadPoolExecutor(AT_ONCE, "copy") as pool:
        try:
            while True:
                for file_copy in left:
                    running[pool.submit(copy, file_copy)] = file_copy
                    if len(running) == 2 * AT_ONCE:
                        break
                if not running:
                    return outcomes
                ended, _ = wait(running, _LOOK_SECONDS, FIRST_COMPLETED)
                outcomes += [(running.pop(future), future.result()) for future in ended]
                execution.progress(Progress(STAGE, len(outcomes), len(copies), "files"))
        except BaseException:
            stopped.set()
            raise
