"""Checks that added files are durable, and still exist, before the log names them.

No log protects staged files: another engine's VACUUM with a short retention, or an expiry rule of
the store, may delete them before the commit.

A VACUUM lists the unneeded files, commits VACUUM START, reads the log once more, deletes, and
commits VACUUM END. A commit in between could name a file deleted right after its check. So a commit
of files that such a VACUUM may delete waits for its end, and is refused after a while.
"""

import itertools
from collections.abc import Collection, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial

from engine.actions.codec import Action
from engine.actions.commit_info import VACUUM_END, VACUUM_START, CommitInfo
from engine.actions.files import AddCDCFile, AddFile, RemoveFile
from engine.clock import Clock
from engine.deletion_vectors.files import locate
from engine.errors import EngineError, FileMissingError, PathOutsideRootError
from engine.log.commits import LogCommit
from engine.storage.base import Store
from engine.storage.presence import find_missing_files, is_remote
from engine.storage.uri import resolve_log_path

SPARED_FROM = "sparedFromMillis"
"""Parameter of VACUUM START: the start of the oldest known writer; younger files stay."""
_RETENTIONS = ("specifiedRetentionMillis", "defaultRetentionMillis")
_LONGEST_WAIT_S = 30.0
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.05, 1.0


class VacuumUnderWayError(EngineError, code="LAKE_VACUUM_UNDER_WAY", sqlstate="40001"):
    """A VACUUM with a short retention may be deleting files a commit was to add."""

    def __init__(self, table: str, version: int) -> None:
        super().__init__(
            f"A VACUUM of {table} started at version {version} and has not recorded its end. "
            "Its retention is shorter than the duration of this write, so it may be deleting "
            "staged files. Nothing was committed.",
            "Run it again. Do not run VACUUM with a short retention on a table that is being "
            "written.",
        )
        self.table, self.version = table, version


@dataclass
class VacuumsUnderWay:
    """VACUUMs begun but not ended by winning commits: versions, and the age of their files."""

    _under_way: dict[str, tuple[int, int]] = field(default_factory=dict)

    def note_commit(self, commit: LogCommit) -> None:
        """Process a winning commit, which may start or end a VACUUM."""
        if commit.operation == VACUUM_START:
            self._under_way[_key(commit)] = commit.version, _takes_before_ms(commit)
        elif commit.operation == VACUUM_END and self._under_way:
            key = _key(commit)
            self._under_way.pop(key if key in self._under_way else next(iter(self._under_way)))

    def find_vacuum(self, modified_ms: int) -> int | None:
        """Return the starting version of a VACUUM that may delete a file this old, or None."""
        takers = (
            version for version, before_ms in self._under_way.values() if modified_ms < before_ms
        )
        return next(takers, None)

    def __bool__(self) -> bool:
        return bool(self._under_way)


def pauses_s() -> Iterator[float]:
    """Yield the pauses in seconds between looks for a VACUUM's end, up to a total wait."""
    waited = 0.0
    for tries in itertools.count():
        pause = min(_FIRST_PAUSE_S * 2**tries, _LONGEST_PAUSE_S)
        waited += pause
        if waited > _LONGEST_WAIT_S:
            return
        yield pause


def _key(commit: LogCommit) -> str:
    """Return the key common to the start and end of one VACUUM by this engine."""
    txn_id = commit.commit_info.txn_id if commit.commit_info else None
    return (txn_id or "").rpartition(":")[0] or f"version {commit.version}"


def _takes_before_ms(commit: LogCommit) -> int:
    """Return the time limit of its deletions, in ms: older files go; 0 if its retention is unknown."""
    info = commit.commit_info or CommitInfo()
    given = info.operation_parameters or {}
    retention_ms = next(
        (ms for name in _RETENTIONS if (ms := _number(given.get(name))) is not None), None
    )
    if retention_ms is None:
        return 0
    began_ms = commit.timestamp_ms if info.timestamp is None else info.timestamp
    spared_ms = _number(given.get(SPARED_FROM))
    before_ms = began_ms - retention_ms
    return before_ms if spared_ms is None else min(before_ms, spared_ms)


def _number(value: object) -> int | None:
    try:
        return int(str(value))
    except ValueError:
        return None


LONG_WAIT_S = 1.0
"""Files seen within this time are not checked again."""
_NAMED = 100


class StagedFilesGoneError(EngineError, code="LAKE_STAGED_FILES_GONE", sqlstate="40001"):
    """Files a commit was to add have been deleted since they were written."""

    def __init__(self, table: str, missing: Sequence[str], staged_count: int) -> None:
        super().__init__(
            f"{len(missing)} of the {staged_count} files staged for {table} are missing, "
            f"including {missing[0]}. Nothing was committed.",
            "Run it again. Do not run VACUUM with a short retention on a table that is being "
            "written, and do not let the store expire its files.",
        )
        self.table, self.files = table, tuple(missing[:_NAMED])


class StagedFileCheck:
    """Checks added files before the first attempt and before each attempt after a long wait.

    `live` are log paths of files already in the table, `neighbor_count` is the number of its files.
    """

    def __init__(
        self, store: Store, clock: Clock, live: Collection[str] = (), neighbor_count: int = 0
    ) -> None:
        self._store, self._clock = store, clock
        self._live, self._neighbor_count = live, neighbor_count
        self._seen_s: float | None = None
        self._vacuums = VacuumsUnderWay()

    @contextmanager
    def check_presence(self, actions: Sequence[Action]) -> Iterator[None]:
        """Check that the files exist, unless checked recently.

        An object store is queried while the body runs, to save time.

        Raises:
            StagedFilesGoneError: some are missing.
            StorageError: the store did not answer.
        """
        now_s = self._clock.monotonic_s()
        if self._seen_s is not None and now_s - self._seen_s < LONG_WAIT_S:
            yield
            return
        paths = list_staged_paths(self._store, actions, self._live)
        look = partial(find_missing_files, self._store, paths, self._neighbor_count)
        if is_remote(self._store):
            with ThreadPoolExecutor(1) as pool:
                asked = pool.submit(look)
                yield
                missing = asked.result()
        else:
            yield
            missing = look()
        if missing:
            raise StagedFilesGoneError(self._store.root, missing, len(paths))
        self._seen_s = now_s

    def note_commit(self, commit: LogCommit) -> None:
        """Process a winning commit: after a VACUUM's, the next check covers all files."""
        if commit.operation in (VACUUM_START, VACUUM_END):
            self._vacuums.note_commit(commit)
            self._seen_s = None

    def find_conflicting_vacuum(self, actions: Sequence[Action]) -> int | None:
        """Return the starting version of a VACUUM that may be deleting one of the files, or None.

        Missing files are left to the next check.
        """
        if not self._vacuums:
            return None
        statuses = map(
            self._store.stat, sorted(list_staged_paths(self._store, actions, self._live))
        )
        takers = (
            self._vacuums.find_vacuum(file.modified_ms) for file in statuses if file is not None
        )
        return next((version for version in takers if version is not None), None)


def make_staged_durable(
    store: Store, actions: Iterable[Action], live: Collection[str] = ()
) -> None:
    """Make the data, change and deletion-vector files of the actions durable.

    `live` are the paths of files already in the table. Missing files are skipped: the check right
    before the commit reports them.
    """
    paths = sorted(list_staged_paths(store, actions, live))
    if not paths:
        return
    try:
        store.make_durable(paths)
    except FileMissingError:
        store.make_durable([path for path in paths if store.stat(path) is not None])


def list_staged_paths(
    store: Store, actions: Iterable[Action], live: Collection[str] = ()
) -> set[str]:
    """List the decoded paths of files below the table added by actions.

    Not included are files in `live` and files removed by the same commit, which the table already
    has under another deletion vector, and files outside the table (a clone's), which belong to
    another one.
    """
    staged = tuple(actions)
    removed = {action.path for action in staged if isinstance(action, RemoveFile)}
    return {path for action in staged for path in _paths_of(store, action, live, removed)}


def _paths_of(
    store: Store, action: Action, live: Collection[str], removed: Collection[str]
) -> Iterator[str]:
    if not isinstance(action, AddFile | AddCDCFile):
        return
    try:
        if action.path not in live and action.path not in removed:
            yield resolve_log_path(store.root, action.path).path
    except PathOutsideRootError:
        return
    vector = action.deletion_vector if isinstance(action, AddFile) else None
    if vector is not None and vector.storage_type == "u":
        yield locate(store.root, vector).path
