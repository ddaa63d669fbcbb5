"""Checks that added files are durable, and still exist, before the log names them.

No log protects staged files: another engine's VACUUM with a short retention, or an expiry rule of
the store, may delete them before the commit.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial

from engine.actions.codec import Action
from engine.actions.commit_info import VACUUM_END, VACUUM_START
from engine.actions.files import AddCDCFile, AddFile, RemoveFile
from engine.clock import Clock
from engine.deletion_vectors.files import locate
from engine.errors import EngineError, FileMissingError, PathOutsideRootError
from engine.log.commits import LogCommit
from engine.storage.base import Store
from engine.storage.presence import find_missing_files, is_remote
from engine.storage.uri import resolve_log_path
from engine.transaction.vacuums import VacuumsUnderWay

LONG_WAIT_S = 1.0
"""Files seen within this time are not checked again."""
_NAMED = 100


class StagedFilesGoneError(EngineError, code="LAKE_STAGED_FILES_GONE", sqlstate="40001"):
    """Files a commit was to add have been deleted since they were written."""

    def __init__(self, table: str, missing: Sequence[str], staged_count: int) -> None:
        super().__init__(
            f"{len(missing)} of the {staged_count} files staged for {table} are gone,"
            f" {missing[0]} among them: nothing was committed.",
            "Run it again. Keep VACUUM with a short retention, and rules of the store that expire"
            " files, away from tables that are being written.",
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

    def meet(self, commit: LogCommit) -> None:
        """Process a winning commit: after a VACUUM's, the next check covers all files."""
        if commit.operation in (VACUUM_START, VACUUM_END):
            self._vacuums.meet(commit)
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
