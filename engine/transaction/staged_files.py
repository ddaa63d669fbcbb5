"""Files that a commit adds survive the machine, and are still there, before a log entry names them.

No log protects what is staged: another engine's VACUUM with a short retention, or a rule of the store
that expires objects, may take it before its commit.
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
"""Files that were seen less than this ago are not looked for again."""
_NAMED = 100


class StagedFilesGoneError(EngineError):
    """Files that a commit was to add have been deleted since they were written."""

    code = "LAKE_STAGED_FILES_GONE"
    sqlstate = "40001"

    def __init__(self, table: str, missing: Sequence[str], staged_count: int) -> None:
        super().__init__(
            f"{len(missing)} of the {staged_count} files staged for {table} are gone,"
            f" {missing[0]} among them: nothing was committed.",
            "Run it again. Keep VACUUM with a short retention, and rules of the store that expire"
            " files, away from tables that are being written.",
        )
        self.table, self.files = table, tuple(missing[:_NAMED])


class StagedFileCheck:
    """Looks for what a commit adds before each attempt that follows a long wait, the first included.

    `live` are paths of the log that the table has already, `neighbor_count` how many files it has.
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
        """Make sure that the files are there, as far as that is not known.

        An object store is asked while the body runs, so that it takes no turn of its own.

        Raises:
            StagedFilesGoneError: some are not.
            StorageError: the store could not say.
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
        """A winning commit: after a VACUUM's the next check looks for all files."""
        if commit.operation in (VACUUM_START, VACUUM_END):
            self._vacuums.meet(commit)
            self._seen_s = None

    def find_conflicting_vacuum(self, actions: Sequence[Action]) -> int | None:
        """The version at which a VACUUM began that may be deleting one of the files; None for none.

        Files that are gone already are the next check's.
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
    """Have the data, change and deletion-vector files that actions add survive the machine.

    Paths in `live` are those of files that the table has already. One that does not exist has
    nothing to lose: it is looked for right before the commit.
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
    """The files below the table that actions add to it, decoded.

    Not those in `live`, nor those that the same commit removes: the table has them, under another
    deletion vector. Files outside the table (a clone's) are their owner's.
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
