"""Copies of files into a table, several at a time, through this process.

No log names a copy before the commit. A copy made by an earlier run is recognized by name and size.
A failed run leaves its copies for the next one; VACUUM removes unused copies.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from functools import cache
from threading import Event

from engine.errors import DataFileMissingError, OperationCancelledError
from engine.operations.copied_files import FileCopy
from engine.operations.execution import Execution
from engine.spark.jobs import Progress
from engine.storage.base import FileStatus, Store
from engine.storage.uri import open_store

STAGE = "copy files"
AT_ONCE = 8
TRUSTED_MS = 24 * 3600 * 1000
"""Maximum age of an earlier run's copy: a VACUUM might be removing an older one."""
_PIECE_BYTES = 8 * 1024 * 1024
_LOOK_SECONDS = 1.0


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
    execution.report_finding(f"{copied:,} of {len(copies):,} files were to be copied", STAGE)
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
            msg = f"{copy.source.path} of {copy.source.root} is gone, and cannot be cloned."
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
                    msg = "The copying was stopped."
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
