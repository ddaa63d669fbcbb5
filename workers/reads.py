"""Processes that read rows for people, with limits on memory and priority.

A prefork pool ends a process at the time limit of its message, and cannot end a thread. The parent
of an ended process writes the missing answer.
"""

import fcntl
import logging
import os
import resource
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol
from uuid import UUID

from celery import Task
from celery.exceptions import TimeLimitExceeded, WorkerLostError
from celery.signals import task_failure, task_revoked, worker_init, worker_process_init
from django.conf import settings
from django.db import close_old_connections
from django.utils import timezone

from engine.errors import EngineError
from lakeui.catalog import log_values
from lakeui.catalog.models import RowRead
from lakeui.catalog.reads import ReadLostError, ReadStoppedError, stop_read
from lakeui.task_names import PREVIEW_TABLE, READ_CONFLICT_ROWS, READS_QUEUE, RUN_JOB, TRY_FIXES
from workers.failures import INTERNAL
from workers.job_run import end_dry_run

logger = logging.getLogger(__name__)

READS = (PREVIEW_TABLE, READ_CONFLICT_ROWS, TRY_FIXES)
_NICE = 10
_bounded = False
_places = 0
_places_file = tempfile.TemporaryFile()  # noqa: SIM115 - open as long as the worker lives


class BoundedTask(Task):  # type: ignore[type-arg]  # not generic at run time
    """A task of a process with little memory. Celery ends a whole worker for a `MemoryError`."""

    abstract = True

    def __call__(self, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - of any task
        """Run the task.

        Raises:
            ReadStoppedError: in place of a MemoryError.
        """
        try:
            return super().__call__(*args, **kwargs)
        except MemoryError:
            if not _bounded:
                raise
        # the frames of the error, and their memory, are gone
        raise ReadStoppedError.memory_limit(settings.READ_BYTES)


class ReadTask(BoundedTask):
    """A task that answers a read: recorded while it runs, skipped once the read was cancelled."""

    abstract = True

    def __call__(self, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        """Run the task, if its read is still wanted: a restarted worker forgets revocations."""
        if self.request.called_directly:
            return super().__call__(*args, **kwargs)
        read_id = UUID(self.request.id or "")
        read = RowRead.objects.filter(pk=read_id)
        worker = (self.request.hostname or "")[:255]
        if not read.update(began_at=timezone.now(), worker=worker):
            return None
        try:
            return super().__call__(*args, **kwargs)
        except ReadStoppedError as stopped:
            return stop_read(read_id, stopped)
        finally:
            read.delete()


class Answer(Protocol):
    """A row that a page waits for: the answer of a read, or the reason for its absence."""

    error_code: str
    error_message: str


@contextmanager
def note_failure(answer: Answer, doing: str) -> Iterator[None]:
    """Write into the answer why the block failed; `doing` completes "while …"."""
    try:
        yield
    except Exception as error:  # a page receives an answer for every file
        if _lacks_memory(error):
            error = ReadStoppedError.memory_limit(settings.READ_BYTES)
        if isinstance(error, EngineError):
            answer.error_code, answer.error_message = error.code, log_values.text(error)
        else:
            logger.exception("A fault while %s", doing)
            answer.error_code = INTERNAL
            answer.error_message = f"{type(error).__name__} while {doing}."


def _lacks_memory(error: BaseException | None) -> bool:
    """Return whether an error, or one of its causes, tells of memory that is short.

    Some libraries fail with a SystemError alone, and some put the reason into their text.
    """
    while error is not None:
        is_short = isinstance(error, MemoryError | SystemError)
        if is_short or "allocate memory" in str(error):
            return True
        error = error.__cause__ or error.__context__
    return False


@worker_init.connect
def note_queue(sender: Any, **_: object) -> None:  # noqa: ANN401 - Celery's worker
    """Bound the processes of a worker that takes only reads."""
    global _bounded, _places
    _bounded = set(sender.app.amqp.queues.consume_from) == {READS_QUEUE}
    _places = max(sender.concurrency - 1, 1)


@contextmanager
def take_place() -> Iterator[bool]:
    """Give a dry run one of this worker's processes, but never the last; yield whether there is one.

    A dry run takes minutes: the last process stays free for the reads of other people. The lock of
    a place ends with its process, however that ends.
    """
    place = next(filter(_lock_place, range(_places)), None) if _bounded else None
    try:
        yield place is not None or not _bounded
    finally:
        if place is not None:
            fcntl.lockf(_places_file, fcntl.LOCK_UN, 1, place)


def _lock_place(place: int) -> bool:
    try:
        fcntl.lockf(_places_file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, place)
    except OSError:  # another process has it
        return False
    return True


@worker_process_init.connect
def limit_process(**_: object) -> None:
    """Limit a process's memory, and lower its priority below web and other workers."""
    if not _bounded:
        return
    os.nice(_NICE)
    hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
    limit = settings.READ_BYTES
    resource.setrlimit(
        resource.RLIMIT_DATA,
        (limit if hard == resource.RLIM_INFINITY else min(limit, hard), hard),
    )


@task_revoked.connect
def answer_for_expired_read(sender: Any, request: Any, *, expired: bool, **_: object) -> None:  # noqa: ANN401
    """Write the answer of a read that waited too long for this worker."""
    if expired and sender.name in READS:
        try:
            stop_read(UUID(request.id), ReadLostError())
        finally:
            close_old_connections()


@task_failure.connect
def answer_for_ended_process(
    sender: Any,  # noqa: ANN401
    task_id: str,
    exception: BaseException,
    args: list[Any],
    **_: object,
) -> None:
    """Write the answer of an ended process: an error that names its limit."""
    try:
        if sender.name in READS:
            limit = _limit_behind(exception)
            if limit is not None:
                stop_read(UUID(task_id), limit)
        elif sender.name == RUN_JOB and isinstance(exception, TimeLimitExceeded):
            end_dry_run(UUID(args[0]))
        elif sender.name == RUN_JOB and isinstance(exception, ReadStoppedError):
            end_dry_run(UUID(args[0]), exception)
    finally:
        close_old_connections()


def _limit_behind(exception: BaseException) -> ReadStoppedError | None:
    """Name the limit that ended a process: its time or, where the system ended it, its memory."""
    match exception:
        case TimeLimitExceeded():
            return ReadStoppedError.time_limit(settings.READ_SECONDS)
        case WorkerLostError():
            return ReadStoppedError.memory_limit(settings.READ_BYTES)
        case _:
            return None
