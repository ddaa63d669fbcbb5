"""Failures of a job: its error as stored in its row, and outages that are not its fault.

The stored error is bounded and without secrets; the worker's log has all of it. If Spark is gone or
the database is unreachable, the job is handed back: it is queued again, and recognizes its own
commits.
"""

import logging
import traceback
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, TypeVar

from django.conf import settings
from django.db import InterfaceError, OperationalError, close_old_connections

from engine.clock import Clock, SystemClock
from engine.errors import EngineError
from engine.operations.script import ScriptError
from engine.spark.failures import SparkJobError, SparkLostError
from lakeui.catalog.log_values import json_value, text
from lakeui.jobs import leases
from lakeui.jobs.errors import LeaseLostError
from lakeui.jobs.job_rows import send_job
from lakeui.monitoring.log_lines import redact_text
from workers import spark_session

logger = logging.getLogger(__name__)

T = TypeVar("T")
DATABASE_AWAY = (OperationalError, InterfaceError)
"""A lock held for long by another writer, or an unreachable server."""

_FIRST_PAUSE_S = 0.1
_LONGEST_PAUSE_S = 5.0

INTERNAL = "LAKE_INTERNAL"
_MAX_MESSAGE = 4_000
_MAX_FACT = 2_000
_MAX_CAUSES = 20


def error_fields(error: EngineError) -> dict[str, Any]:
    """Return the fields of a job that failed by an engine error: code, message and facts."""
    return {
        "error_code": error.code,
        "error_message": _words(error, _MAX_MESSAGE),
        "error_facts": _shorten_texts(json_value(error.facts())),
    }


def fault_fields(error: Exception) -> dict[str, Any]:
    """Return the fields of a job that failed by a fault of this software, with all causes."""
    lines = "".join(traceback.format_exception_only(error)).strip()
    causes = [_words(cause, _MAX_FACT) for cause in _chain(error)]
    return {
        "error_code": INTERNAL,
        "error_message": _words(f"The job failed with an internal error: {lines}", _MAX_MESSAGE),
        "error_facts": {"code": INTERNAL, "causes": causes},
    }


def _chain(error: BaseException | None) -> Iterator[str]:
    for _ in range(_MAX_CAUSES):
        if error is None:
            return
        yield f"{type(error).__name__}: {error}"
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)


def _shorten_texts(value: object) -> Any:  # noqa: ANN401 - JSON
    match value:
        case dict():
            return {key: _shorten_texts(inner) for key, inner in value.items()}
        case list():
            return [_shorten_texts(inner) for inner in value]
        case str():
            return _words(value, _MAX_FACT)
        case _:
            return value


def _words(value: object, limit: int) -> str:
    whole = text(redact_text(text(value)))
    return whole if len(whole) <= limit else f"{whole[:limit]}…"


def outage_behind(error: BaseException) -> str | None:
    """Describe the outage that ended an attempt; None if the job itself is at fault."""
    cause = error.cause if isinstance(error, ScriptError) else error
    if isinstance(cause, DATABASE_AWAY):
        return f"The database could not be reached: {text(cause, 500)}"
    if isinstance(cause, SparkLostError):
        return text(cause, 1000)
    told = isinstance(cause, EngineError) and not isinstance(cause, SparkJobError)
    if not told and spark_session.has_died():
        return "Spark stopped while it worked."
    return None


def patiently(act: Callable[[], T], clock: Clock | None = None) -> T:
    """Do something in the database, again and again while it is away, for a bounded time.

    Raises:
        OperationalError, InterfaceError: after `DATABASE_PATIENCE_SECONDS` it still is.
    """
    clock = clock or SystemClock()
    until, pause_s = clock.monotonic_s() + settings.DATABASE_PATIENCE_SECONDS, _FIRST_PAUSE_S
    while True:
        try:
            return act()
        except DATABASE_AWAY as error:
            if clock.monotonic_s() >= until:
                raise
            logger.warning("The database is unreachable, so the work is retried: %s", error)
            close_old_connections()
            clock.pause(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)


def hand_back(lease: leases.Lease, outage: str) -> None:
    """Queue and send a job again; if this worker is ending, the sweeper sends it.

    If this cannot be written, the lease expires, and the sweeper queues the job.
    """
    logger.warning("Job %s is handed back: %s", lease.job_id, outage)
    try:
        if patiently(partial(leases.give_up, lease, outage)) and not spark_session.has_died():
            patiently(partial(send_job, lease.job_id))
    except LeaseLostError:
        logger.warning("Another worker has taken the lease of job %s", lease.job_id)
    except DATABASE_AWAY:
        logger.exception("Job %s could not be handed back, so its lease must expire", lease.job_id)
