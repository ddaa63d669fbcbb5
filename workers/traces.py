"""An attempt at a job as OpenTelemetry spans, built from its rows, below the job's request."""

from __future__ import annotations

import logging
from datetime import datetime
from itertools import chain
from typing import TYPE_CHECKING

from django.db import DatabaseError

from lakeui import tracing
from lakeui.jobs.leases import Lease
from lakeui.jobs.models import Job, JobAttempt, JobStage

if TYPE_CHECKING:
    from opentelemetry.trace import Tracer

logger = logging.getLogger(__name__)
_NS_A_US = 1_000
_BAD = frozenset(
    {JobAttempt.Outcome.CONFLICTED, JobAttempt.Outcome.FAILED, JobAttempt.Outcome.LOST}
)


def trace_attempts(lease: Lease) -> None:
    """Send the attempts of a lease if tracing is on. A failure here does not affect the job."""
    tracer = tracing.tracer()
    if tracer is None:
        return
    try:
        attempts = JobAttempt.objects.filter(job_id=lease.job_id, number__gte=lease.attempt)
        rows = attempts.exclude(outcome=JobAttempt.Outcome.RUNNING).select_related("job__table")
        for attempt in rows.prefetch_related("stages"):
            _trace(tracer, attempt)
    except DatabaseError:
        logger.warning("The trace of job %s could not be sent", lease.job_id, exc_info=True)


def _trace(tracer: Tracer, attempt: JobAttempt) -> None:
    from opentelemetry.propagate import extract  # noqa: PLC0415 - where tracing is on alone
    from opentelemetry.trace import Status, StatusCode, set_span_in_context  # noqa: PLC0415

    job = attempt.job
    above = extract({"traceparent": job.trace_parent})
    if attempt.number == 1:
        waited = tracer.start_span("queue", above, start_time=_ns(job.created_at))
        waited.set_attributes(_job_attributes(job))
        waited.end(_ns(max(attempt.started_at, job.created_at)))
    span = tracer.start_span(
        f"{job.kind} attempt {attempt.number}", above, start_time=_ns(attempt.started_at)
    )
    span.set_attributes(_job_attributes(job) | _attempt_attributes(attempt))
    if attempt.outcome in _BAD:
        span.set_status(Status(StatusCode.ERROR, job.error_code))
    within = set_span_in_context(span)
    for stage in attempt.stages.all():
        ended = stage.finished_at or attempt.finished_at or stage.started_at
        step = tracer.start_span(stage.name, within, start_time=_ns(stage.started_at))
        step.set_attributes(_stage_attributes(stage))
        step.end(_ns(max(ended, stage.started_at)))
    ends = chain([attempt.finished_at], (stage.finished_at for stage in attempt.stages.all()))
    span.end(_ns(max(end for end in chain([attempt.started_at], ends) if end is not None)))


def _job_attributes(job: Job) -> dict[str, str | bool | int]:
    return {
        "lakeui.job": str(job.pk),
        "lakeui.job.kind": job.kind,
        "lakeui.job.dry_run": job.dry_run,
        "lakeui.table": job.table.name,
    }


def _attempt_attributes(attempt: JobAttempt) -> dict[str, str | int]:
    given: dict[str, str | int | None] = {
        "lakeui.attempt": attempt.number,
        "lakeui.outcome": attempt.outcome,
        "lakeui.worker": attempt.worker,
        "lakeui.read_version": attempt.read_version,
        "lakeui.attempted_version": attempt.attempted_version,
        "lakeui.bytes_written": attempt.bytes_written,
    }
    return {name: value for name, value in given.items() if value is not None}


def _stage_attributes(stage: JobStage) -> dict[str, str | int]:
    given: dict[str, str | int | None] = {
        "lakeui.found": stage.found or None,
        "spark.tasks": stage.total or None,
        "spark.core_ms": stage.core_ms,
        "spark.bytes_read": stage.bytes_read,
        "spark.bytes_shuffled": stage.bytes_shuffled,
        "spark.slowest_task_ms": stage.slowest_ms,
    }
    return {name: value for name, value in given.items() if value is not None}


def _ns(moment: datetime) -> int:
    return round(moment.timestamp() * 1_000_000) * _NS_A_US
