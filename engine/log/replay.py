"""Replay: the state of a table at a version, from its log (protocol: Action Reconciliation).

The latest action wins. A file is identified by path and deletion vector; the latest `add` or
`remove` of this pair decides whether it is live. Checkpointed files stay in Arrow: files touched by
commits are removed by an anti-join, added ones are appended. A table's definition, its protocol and
metadata, is read without its files.

Small checkpoints of local tables are cached for the next time their table is opened. A checkpoint
is immutable: a file of another size, time or inode is another one. The log itself is listed each
time, and its commits are read.
"""

import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engine.actions.codec import Action
from engine.actions.commit_info import CheckpointMetadata, CommitInfo, Sidecar, UnknownAction
from engine.actions.files import AddCDCFile, AddFile, FileKey, RemoveFile
from engine.actions.table import DomainMetadata, Metadata, Protocol, SetTransaction
from engine.clock import SystemClock
from engine.errors import (
    EngineError,
    FileMissingError,
    LogGapError,
    MalformedLogError,
    VersionNotFoundError,
)
from engine.log.checkpoint_reader import CheckpointContent, read_checkpoint, read_manifest
from engine.log.commits import LogCommit, iter_actions, iter_commits
from engine.log.file_table import (
    FILES,
    NO_FILES,
    NO_TOMBSTONES,
    TOMBSTONES,
    files_table,
    tombstones_table,
)
from engine.log.paths import LogFileKind
from engine.log.segment import (
    Checkpoint,
    LogFile,
    LogSegment,
    later_ms,
    list_log_files,
    list_segment,
    newer_segment,
)
from engine.log.subjects import each_once, remove_repeats
from engine.log.tip import Tip, has_none, is_same_log
from engine.storage.base import FileStatus, Store
from engine.storage.local import LocalStore

_MOST_BYTES, _MOST_KEPT = 1024 * 1024, 32
"""Limits of a cached file's size and of the number of files."""
_SETTLED_MS = 50
"""Two writes to a file within one tick of the system's clock are indistinguishable."""

_kept: dict[tuple[str, FileStatus], CheckpointContent] = {}


def read_again(store: Store, checkpoint: Checkpoint) -> CheckpointContent:
    """Read a checkpoint like `read_checkpoint`, cached if this very file was read recently.

    Raises:
        MalformedLogError: as in `read_checkpoint`.
    """
    file = checkpoint.files[0].status
    if (
        not isinstance(store, LocalStore)
        or len(checkpoint.files) > 1
        or file.size_bytes > _MOST_BYTES
    ):
        return read_checkpoint(store, checkpoint)
    content = _kept.get((store.root, file))
    if content is None:
        is_settled = file.modified_ms < SystemClock().now_ms() - _SETTLED_MS
        content = read_checkpoint(store, checkpoint)
        if is_settled and _is_small(content):
            for oldest in list(_kept)[: len(_kept) + 1 - _MOST_KEPT]:
                _kept.pop(oldest, None)
            _kept[store.root, file] = content
    return content


def _is_small(content: CheckpointContent) -> bool:
    """Return whether a checkpoint has no sidecars and takes little memory."""
    has_sidecars = any(isinstance(action, Sidecar) for action in content.actions)
    return not has_sidecars and content.files.nbytes + content.tombstones.nbytes <= _MOST_BYTES


_log = logging.getLogger(__name__)
_MAX_CHUNKS = 256  # each refresh adds a chunk
_MOST_OBJECTS = 65_536  # files as objects, before conversion to rows
_WRITE_IT_AGAIN = "Write a new checkpoint with the engine that wrote the table."
_DELETE_IT = "Delete it: the commits in the log have the same actions."


class SchemaNotSaidError(MalformedLogError, code="DELTA_SCHEMA_NOT_SET", sqlstate="KD008"):
    """The latest metaData action of a version has no schema: a later version may have it."""

    def __init__(self, table: str, version: int) -> None:
        super().__init__(
            f"Version {version} of {table} has a metaData action without a schemaString.",
            "Read a version that has a schema, or repair this version with the engine that "
            "wrote it.",
        )


@dataclass(frozen=True)
class TableState:
    """A version of a table according to its log, without the content of its files."""

    version: int
    protocol: Protocol
    metadata: Metadata
    set_transactions: dict[str, SetTransaction] = field(default_factory=dict)
    domains: dict[str, DomainMetadata] = field(default_factory=dict)
    files: pa.Table = field(default_factory=FILES.empty_table)
    tombstones: pa.Table = field(default_factory=TOMBSTONES.empty_table)
    checkpoint_version: int | None = None
    commit_info: CommitInfo | None = None  # this version's, None if its commit was not read
    file_time_ms: int | None = None  # this version's file time, None if not listed
    last_file: FileStatus | None = None  # its commit, or else its checkpoint

    @property
    def tip(self) -> Tip | None:
        """The log's latest commit, by which the log is recognized."""
        if self.last_file is None:
            return None
        return Tip(self.version, self.last_file, self.commit_info)

    def is_same(self, other: "TableState") -> bool:
        """Return whether two states have the same files and the same definition."""
        return self.has_same_files(other) and (self.metadata, self.protocol, self.domains) == (
            other.metadata,
            other.protocol,
            other.domains,
        )

    def has_same_files(self, other: "TableState") -> bool:
        """Return whether two states are of one table, with the same files and vectors."""
        return self.metadata.id == other.metadata.id and self.file_keys == other.file_keys

    @property
    def file_keys(self) -> set[FileKey]:
        """The live files, each by its path and the id of its deletion vector."""
        columns = (self.files.column(name).to_pylist() for name in ("path", "dv_id"))
        return set(zip(*columns, strict=True))


def load_table_state(store: Store, version: int | None = None) -> TableState:
    """Load the state at a version, by default the latest.

    An unreadable checkpoint is skipped if older files suffice: commits are authoritative,
    checkpoints only save reading them. A log cleaned after its listing is listed once more.

    Raises:
        TableNotFoundError, VersionNotFoundError, LogGapError: as in `list_segment`.
        MalformedLogError: the log breaks the protocol.
        FileMissingError: files of the log kept disappearing while they were read.
    """
    segment = list_segment(store, version)
    try:
        return _load_with_fallback(store, version, segment)
    except FileMissingError:
        return _load_with_fallback(store, version, list_segment(store, version))
    except MalformedLogError:
        with suppress(EngineError):  # the first error is more helpful
            listed_again = list_segment(store, version)
            if listed_again != segment:
                return _load_with_fallback(store, version, listed_again)
        raise


def _load_with_fallback(store: Store, version: int | None, segment: LogSegment) -> TableState:
    try:
        return load_state(store, segment)
    except MalformedLogError as damage:
        while segment.checkpoint is not None:
            before = segment.checkpoint.version
            try:
                segment = list_segment(store, version, checkpoint_before=before)
                state = load_state(store, segment)
            except (LogGapError, VersionNotFoundError):
                break
            except MalformedLogError:
                continue
            _log.warning("The checkpoint of version %s was passed over: %s", before, damage)
            return state
        raise


def list_newer(store: Store, state: TableState) -> LogSegment | None:
    """List the commits after a state.

    Return None if they do not follow without a gap, or if the log may not be the one the state was
    read from: then use `list_segment`. On a local store, file names tell whether there are any.
    """
    if has_none(store, state.tip):
        return LogSegment(state.version, None, ())
    files = list_log_files(store, state.version)
    tip = state.tip
    file = next(
        (log_file.status for log_file in files if tip and log_file.path == tip.file.path), None
    )
    if tip is None or file is None or not is_same_log(store, tip, file):
        return None
    return newer_segment(files, state.version)


def replay(store: Store, files: Sequence[LogFile], commits: Iterable[LogCommit]) -> TableState:
    """Replay commits read elsewhere: every commit of a log, from its first.

    Args:
        store: the table's store.
        files: the commits as listed.
        commits: their content, in order.

    Raises:
        LogGapError: a commit is missing.
        MalformedLogError: as in `load_state`.
    """
    segment = LogSegment(files[-1].version, None, tuple(files))
    return _replay_commits(store, segment, None, _each_of(store, files, commits))


def _each_of(
    store: Store, files: Sequence[LogFile], commits: Iterable[LogCommit]
) -> Iterator[Iterable[Action]]:
    following = iter(commits)
    for file in files:
        commit = next(following, None)
        if commit is None or commit.version != file.version:
            msg = f"{file.path} of {store.root} was deleted while the log was being read."
            raise LogGapError(msg, "Read it again.")
        yield commit.actions


def load_state(store: Store, segment: LogSegment, previous: TableState | None = None) -> TableState:
    """Load the state of a segment, continuing from a previous state if given.

    Raises:
        MalformedLogError: the log breaks the protocol, or lacks the protocol or the metadata.
    """
    try:
        return _replay_commits(store, segment, previous)
    except (MalformedLogError, FileMissingError) as damage:
        if not segment.compactions:
            raise
        try:
            state = _replay_commits(store, replace(segment, compactions=()), previous)
        except FileMissingError as gone:
            msg = f"{damage.what} The commits that could replace it are gone: {gone.what}"
            raise MalformedLogError(msg, "Restore the files of the log from a backup.") from damage
        _log.warning("Log compactions of %s were passed over: %s", store.root, damage)
        return state


def _replay_commits(
    store: Store,
    segment: LogSegment,
    previous: TableState | None,
    commits: Iterable[Iterable[Action]] | None = None,
) -> TableState:
    replay, latest_ms = _Replay(), None
    if previous is not None and previous.version <= segment.version and segment.checkpoint is None:
        segment, latest_ms = segment.tail(previous.version), previous.file_time_ms
        replay.start_from(previous)
    elif segment.checkpoint is not None:
        replay.start_from_checkpoint(store, segment)
    files = _commit_files(segment)
    if commits is None:
        commits = iter_commits(store, [file.status for file in files])
    for file, actions in zip(files, commits, strict=True):
        is_compaction = file.name.kind is LogFileKind.COMPACTED
        replay.apply(each_once(actions, file.path, _DELETE_IT) if is_compaction else actions)
    for commit in segment.commits:
        latest_ms = later_ms(commit.status.modified_ms, latest_ms)
    if latest_ms is None and segment.tip is not None:
        latest_ms = segment.tip.status.modified_ms
    last = _last_file(segment) or (previous.last_file if previous is not None else None)
    return replay.state(store.root, segment.version, latest_ms, last)


def _last_file(segment: LogSegment) -> FileStatus | None:
    file = segment.commits[-1] if segment.commits else segment.tip
    if file is None and segment.checkpoint is not None:
        file = segment.checkpoint.files[0]
    return None if file is None else file.status


def _commit_files(segment: LogSegment) -> list[LogFile]:
    """Choose the files to read: compactions where they cover several commits, commits elsewhere.

    The latest commit is always read itself: only it has its `commitInfo`.
    """
    best: dict[int, LogFile] = {}
    for compaction in segment.compactions:
        if compaction.name.end_version < segment.version:
            longest = best.get(compaction.version, compaction)
            best[compaction.version] = max(
                longest, compaction, key=lambda file: file.name.end_version
            )
    files: list[LogFile] = []
    reached = -1
    for commit in segment.commits:
        if commit.version <= reached:
            continue
        file = best.get(commit.version, commit)
        files.append(file)
        reached = file.name.end_version
    return files


class _Replay:
    """The conversation of one replay: oldest first, the latest wins."""

    def __init__(self) -> None:
        self._protocol: Protocol | None = None
        self._metadata: Metadata | None = None
        self._transactions: dict[str, SetTransaction] = {}
        self._domains: dict[str, DomainMetadata] = {}
        self._files: pa.Table = NO_FILES
        self._tombstones: pa.Table = NO_TOMBSTONES
        self._newest: dict[FileKey, AddFile | RemoveFile] = {}
        self._checkpoint_version: int | None = None
        self._commit_info: CommitInfo | None = None

    def start_from(self, state: TableState) -> None:
        self._protocol, self._metadata = state.protocol, state.metadata
        self._transactions, self._domains = dict(state.set_transactions), dict(state.domains)
        self._files, self._tombstones = state.files, state.tombstones
        self._checkpoint_version, self._commit_info = state.checkpoint_version, state.commit_info

    def start_from_checkpoint(self, store: Store, segment: LogSegment) -> None:
        if segment.checkpoint is None:
            return
        content = read_again(store, segment.checkpoint)
        self._checkpoint_version = segment.checkpoint.version
        self._files, self._tombstones = content.files, content.tombstones
        for action in content.actions:
            self._apply_one(action)

    def apply(self, actions: Iterable[Action]) -> None:
        self._commit_info = None
        for action in actions:
            self._apply_one(action)
            if len(self._newest) >= _MOST_OBJECTS:
                self._fold()

    def _apply_one(self, action: Action) -> None:
        match action:
            case AddFile() | RemoveFile():
                keep_newest(self._newest, action)
            case Protocol():
                self._protocol = action
            case Metadata():
                self._metadata = action
            case SetTransaction():
                self._transactions[action.app_id] = action
            case DomainMetadata():
                self._domains[action.domain] = action
            case CommitInfo():
                self._commit_info = action
            case AddCDCFile() | CheckpointMetadata() | Sidecar() | UnknownAction():
                return

    def state(
        self, table: str, version: int, file_time_ms: int | None, last_file: FileStatus | None
    ) -> TableState:
        if self._protocol is None or self._metadata is None:
            lacks = "protocol" if self._protocol is None else "metaData"
            msg = f"The log of {table} has no {lacks} action up to version {version}."
            raise MalformedLogError(msg, "Restore the missing files of the log from a backup.")
        if not self._metadata.schema_string:
            raise SchemaNotSaidError(table, version)
        self._fold()
        if self._metadata.partition_columns and self._files.column("partition_values").null_count:
            msg = f"A checkpoint of {table} lists files without their partitionValues."
            raise MalformedLogError(msg, _WRITE_IT_AGAIN)
        return TableState(
            version,
            self._protocol,
            self._metadata,
            self._transactions,
            {name: domain for name, domain in self._domains.items() if not domain.removed},
            self._files,
            self._tombstones,
            self._checkpoint_version,
            None
            if self._commit_info is None
            else msgspec.structs.replace(self._commit_info, version=version),
            file_time_ms,
            last_file,
        )

    def _fold(self) -> None:
        """Move actions since the last fold into the tables, which need a tenth of the memory."""
        adds = [action for action in self._newest.values() if isinstance(action, AddFile)]
        removes = [action for action in self._newest.values() if isinstance(action, RemoveFile)]
        self._files = _merge(self._files, files_table(adds), self._newest)
        self._tombstones = _merge(self._tombstones, tombstones_table(removes), self._newest)
        self._newest = {}


def keep_newest(newest: dict[FileKey, AddFile | RemoveFile], action: AddFile | RemoveFile) -> None:
    """Replace the earlier action on the same file; the latest is also last in order."""
    newest.pop(action.key, None)
    newest[action.key] = action


def _merge(
    base: pa.Table, newer: pa.Table, touched: dict[FileKey, AddFile | RemoveFile]
) -> pa.Table:
    """Merge newer rows into the base, replacing touched ones."""
    if base.num_rows and touched:
        base = _remove_touched_files(base, touched)
    merged = pa.concat_tables([base, newer]) if newer.num_rows else base
    return merged.combine_chunks() if merged.column("path").num_chunks > _MAX_CHUNKS else merged


def _remove_touched_files(base: pa.Table, touched: dict[FileKey, AddFile | RemoveFile]) -> pa.Table:
    """Remove touched files by an anti-join on (path, dv_id): by path first, then exactly."""
    paths = pa.array([path for path, _ in touched], pa.string())
    maybe = pc.is_in(base.column("path"), value_set=paths)
    rows = pc.indices_nonzero(maybe).to_pylist()
    if not rows:
        return base
    candidates = base.select(["path", "dv_id"]).take(pa.array(rows))
    keys = zip(candidates.column(0).to_pylist(), candidates.column(1).to_pylist(), strict=True)
    gone = [row for row, key in zip(rows, keys, strict=True) if key in touched]
    if not gone:
        return base
    keep = np.ones(base.num_rows, dtype=bool)
    keep[gone] = False
    return base.filter(pa.array(keep))


_OF_FILES = (b'{"add"', b'{"remove"', b'{"cdc"', b'{"commitInfo"', b'{"txn"')


@dataclass(frozen=True, slots=True)
class TableDefinition:
    """Protocol and metadata as of a version."""

    version: int
    protocol: Protocol
    metadata: Metadata


def load_definition(store: Store, version: int | None = None) -> TableDefinition:
    """Load the definition at a version, by default the latest, without a checkpoint's files.

    If this fails, the whole state is read. Errors as in `engine.log.replay.load_table_state`.
    """
    segment = list_segment(store, version)
    try:
        definition = _newest(store, segment)
    except (FileMissingError, MalformedLogError):
        definition = None
    if definition is not None:
        return definition
    state = load_table_state(store, version)
    return TableDefinition(state.version, state.protocol, state.metadata)


def _newest(store: Store, segment: LogSegment) -> TableDefinition | None:
    protocol: Protocol | None = None
    metadata: Metadata | None = None
    for action in _actions(store, segment):
        if isinstance(action, Protocol):
            protocol = action
        elif isinstance(action, Metadata):
            metadata = action
    if protocol is None or metadata is None or not metadata.schema_string:
        return None
    return TableDefinition(segment.version, protocol, metadata)


def _actions(store: Store, segment: LogSegment) -> Iterator[Action]:
    if segment.checkpoint is not None:
        paths = [file.path for file in segment.checkpoint.files]
        said = [action for path in paths for action in read_manifest(store, path)]
        yield from remove_repeats(said, paths[0], "Delete the checkpoint.")
    for commit in segment.commits:
        yield from iter_actions(store, commit.path, commit.status.size_bytes, _OF_FILES)
