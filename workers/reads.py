"""Processes that read rows for people, with limits on memory and priority.

A prefork pool ends a process at the time limit of its message, and cannot end a thread. The parent
of an ended process writes the missing answer.
"""

import logging
import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol
from uuid import UUID

from celery.exceptions import TimeLimitExceeded, WorkerLostError
from celery.signals import (
    task_failure,
    task_postrun,
    task_prerun,
    worker_init,
    worker_process_init,
)
from django.conf import settings
from django.db import close_old_connections
from django.utils import timezone

from engine.errors import EngineError
from lakeui.catalog import log_values
from lakeui.catalog.models import RowRead
from lakeui.catalog.reads import ReadStoppedError, stop_read
from lakeui.task_names import PREVIEW_TABLE, READ_CONFLICT_ROWS, READS_QUEUE, RUN_JOB, TRY_FIXES
from workers.failures import INTERNAL
from workers.job_run import end_at_time_limit

logger = logging.getLogger(__name__)

READS = (PREVIEW_TABLE, READ_CONFLICT_ROWS, TRY_FIXES)
_NICE = 5
_bounded = False


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
    global _bounded
    _bounded = set(sender.app.amqp.queues.consume_from) == {READS_QUEUE}


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


@task_prerun.connect
def note_begin(task_id: str, task: Any, **_: object) -> None:  # noqa: ANN401 - Celery's task
    """Record the begin of a read and its worker."""
    if task.name in READS:
        RowRead.objects.filter(pk=task_id).update(
            began_at=timezone.now(), worker=(task.request.hostname or "")[:255]
        )


@task_postrun.connect
def note_end(task_id: str, task: Any, **_: object) -> None:  # noqa: ANN401
    """Delete the record of an ended read."""
    if task.name in READS:
        RowRead.objects.filter(pk=task_id).delete()


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
            end_at_time_limit(UUID(args[0]))
    finally:
        close_old_connections()


def _limit_behind(exception: BaseException) -> ReadStoppedError | None:
    """Name the limit that ended a process: its time or, where the system ended it, its memory."""
    match exception:
        case TimeLimitExceeded():
            return ReadStoppedError.time_limit(settings.READ_SECONDS)
        case WorkerLostError() | MemoryError():
            return ReadStoppedError.memory_limit(settings.READ_BYTES)
        case _:
            return None
