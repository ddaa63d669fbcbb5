"""Processes that read rows for people: bounded in memory, behind other work, and told of their end.

A prefork pool ends a process at the time limit of its message; a thread could not be ended. Its
parent then writes the answer that the process still owed.
"""

import logging
import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol
from uuid import UUID

from celery.exceptions import TimeLimitExceeded
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
    """A row that a page waits for; the answer of a read, or why there is none."""

    error_code: str
    error_message: str


@contextmanager
def note_failure(answer: Answer, doing: str) -> Iterator[None]:
    """Write into the answer why the block failed; `doing` completes "while …"."""
    try:
        yield
    except EngineError as error:
        answer.error_code, answer.error_message = error.code, log_values.text(error)
    except (MemoryError, SystemError):  # some libraries fail without saying that memory was short
        limit = ReadStoppedError.by_memory(settings.READ_BYTES)
        answer.error_code, answer.error_message = limit.code, str(limit)
    except Exception as error:  # whatever a file holds, the page is told
        logger.exception("A fault while %s", doing)
        answer.error_code = INTERNAL
        answer.error_message = f"{type(error).__name__} while {doing}."


@worker_init.connect
def note_queue(sender: Any, **_: object) -> None:  # noqa: ANN401 - Celery's worker
    """Bound the processes of this worker if it takes nothing but reads."""
    global _bounded
    _bounded = set(sender.app.amqp.queues.consume_from) == {READS_QUEUE}


@worker_process_init.connect
def bound_process(**_: object) -> None:
    """Limit what a process may allocate, and let web and other workers go first."""
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
    """Name the worker that a read takes a place of."""
    if task.name in READS:
        RowRead.objects.filter(pk=task_id).update(
            began_at=timezone.now(), worker=(task.request.hostname or "")[:255]
        )


@task_postrun.connect
def note_end(task_id: str, task: Any, **_: object) -> None:  # noqa: ANN401
    """Free the place."""
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
    """Say what the process would have said, had it not been ended."""
    try:
        if sender.name in READS:
            stop_read(UUID(task_id), _limit_behind(exception))
        elif sender.name == RUN_JOB and isinstance(exception, TimeLimitExceeded):
            end_at_time_limit(UUID(args[0]))
    finally:
        close_old_connections()


def _limit_behind(exception: BaseException) -> ReadStoppedError:
    """Name the limit that ended a process: its time or, where the system ended it, its memory."""
    if isinstance(exception, TimeLimitExceeded):
        return ReadStoppedError.by_time(settings.READ_SECONDS)
    return ReadStoppedError.by_memory(settings.READ_BYTES)
