"""Options for running a command, and the operations running in this process.

No log names the staged files of a running operation yet, so VACUUM asks for the oldest start.
"""

import os
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypedDict

from engine.commands.model import Optimize
from engine.errors import RequestError
from engine.operations.result import OperationResult
from engine.spark.jobs import ProgressCallback
from engine.storage.uri import real_place
from engine.table import DeltaTable
from engine.transaction.observer import TransactionObserver

RunningSince = Callable[[], int | None]
"""Returns the start of the oldest operation that may write elsewhere, None if there is none."""

Resolve = Callable[[str], DeltaTable]
"""Opens a table named by a statement."""
FollowUpRunner = Callable[[Optimize], OperationResult | None]
"""Runs a compaction at once, or leaves it to another run and returns None."""

_running: dict[str, dict[str, tuple[int, str]]] = {}
_lock = threading.Lock()


def nobody_runs() -> int | None:
    """Return None, for callers that know of no other process."""
    return None


@dataclass(frozen=True, slots=True)
class RunOptions:
    """Options of one run of a command.

    Attributes:
        txn_id: the id of the job: with `since_version`, a run does not write again if its commit is
            in the log.
        retries: the number of retries after a retryable conflict.
        observer: is notified of each phase of each transaction.
        progress: receives progress, from the run's thread and from a watching one; it may raise
            `OperationCancelledError` until the commit.
        dry_run: plan only, write nothing.
        sources: rows of the program by their names in statements: Arrow tables, pandas or polars
            DataFrames, lists of dictionaries.
        resolve: opens the tables named by a source; by default by location.
        open_changed: opens the tables changed by the steps of a script; by default by location.
        since_version: the table's version before the first run of this job.
        since_versions: the same for the other tables of a script, by location.
        running_since: returns the earliest time at which other jobs on this table may have staged
            files not yet in a log, None for never. VACUUM spares them; it asks after listing the
            files, so later jobs need no protection.
        writers_elsewhere: other writers running on the table, if the caller knows more of them than
            this process; a dry run reports them.
        application: an application's id and the version of this write: recorded in the commit; the
            run does nothing if the log has this version or a later one.
        user_metadata: recorded in the commit.
        user_name: who requested the run, recorded in the commit.
        in_process_bytes: the size limit in bytes for DELETE, UPDATE and MERGE by Arrow in this
            process, if Arrow does exactly the same as Spark, and for small INSERT VALUES and for
            few rows computed by Spark; 0 leaves everything to Spark.
        max_rows_per_file: the maximum number of rows in a written data file; 0 for no limit.
            Compactions ignore it.
        data_change: false if the caller vouches that its INSERT or overwrite only rearranges rows:
            its files are marked so, and change feeds and streams leave them out. Conflicts are
            checked as for any write.
        count_bytes: the size limit in bytes of the files a dry run of DELETE, UPDATE or MERGE reads
            to count the changed rows; 0 counts none.
        early_conflicts: check new commits while Spark works, and abort as soon as a conflict is
            certain.
        then: receives the compaction due after a write; by default it runs at once in this thread.
            Its failure is in the result's `follow_up` and fails nothing else.
    """

    txn_id: str | None = None
    retries: int = 0
    observer: TransactionObserver | None = None
    progress: ProgressCallback | None = None
    dry_run: bool = False
    sources: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)
    resolve: Resolve | None = None
    open_changed: Resolve | None = None
    since_version: int | None = None
    since_versions: Mapping[str, int] = field(default_factory=dict)
    running_since: RunningSince = nobody_runs
    writers_elsewhere: Sequence[str] | None = None
    application: tuple[str, int] | None = None
    user_metadata: str | None = None
    user_name: str | None = None
    in_process_bytes: int = 64 * 1024 * 1024
    max_rows_per_file: int = 0
    data_change: bool = True
    count_bytes: int = 256 * 1024 * 1024
    early_conflicts: bool = True
    then: FollowUpRunner | None = None


class RunKeywords(TypedDict, total=False):
    """The options accepted by `run` as keywords."""

    txn_id: str | None
    retries: int
    observer: TransactionObserver | None
    progress: ProgressCallback | None
    dry_run: bool
    sources: Mapping[str, Any]
    resolve: Resolve | None


class NeedsSparkError(RequestError):
    """An operation needs Spark, in a run without a session."""

    REMEDY = (
        "Pass a session from engine.spark.session.build_session, or run it as a job on a "
        "Spark worker."
    )

    def __init__(self, what: str, remedy: str = REMEDY) -> None:
        super().__init__(what, remedy, field="kind")


@contextmanager
def track_operation(uri: str, started_ms: int, what: str = "a write") -> Iterator[None]:
    """Register a writing operation on a table for the duration of the block."""
    key, place = uuid.uuid4().hex, real_place(uri)
    with _lock:
        _running.setdefault(place, {})[key] = started_ms, what
    try:
        yield
    finally:
        with _lock:
            _running.get(place, {}).pop(key, None)  # missing in a forked child
            if not _running.get(place):
                _running.pop(place, None)


def oldest_start_ms(uri: str) -> int | None:
    """Return the start time of the oldest running operation on a table, None if there is none."""
    place = real_place(uri)
    with _lock:
        return min((since for since, _ in _running.get(place, {}).values()), default=None)


def list_active_writers(uri: str) -> tuple[str, ...]:
    """Return the operations running on a table, oldest first."""
    place = real_place(uri)
    with _lock:
        return tuple(what for _, what in sorted(_running.get(place, {}).values()))


def _begin_anew() -> None:
    """Reset the register in a forked child: the parent's threads and lock do not exist there."""
    global _lock
    _lock = threading.Lock()
    _running.clear()


os.register_at_fork(after_in_child=_begin_anew)
