"""The row of a requested job, one per idempotency key, sent once it is committed.

The row is the truth: a lost or duplicate message to the workers changes nothing.
"""

import hashlib
import json
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import islice
from uuid import UUID

from django.conf import settings
from django.contrib.auth.models import User
from django.db import IntegrityError, transaction
from django.db.models import F
from django.utils import timezone
from kombu.exceptions import OperationalError

from engine.clock import Clock, SystemClock
from engine.commands.model import Command
from engine.errors import RequestError
from lakeui.catalog.access import lock_person
from lakeui.catalog.hours import CLOCKS_DIFFER
from lakeui.catalog.models import Table
from lakeui.celery import app
from lakeui.jobs.command_rules import queue_of, statement_of
from lakeui.jobs.errors import IdempotencyMismatchError, TooManyJobsError
from lakeui.jobs.events import log_event
from lakeui.jobs.leases import CLAIMABLE
from lakeui.jobs.models import Job, JobEvent, Schedule
from lakeui.jobs.writers import note_changed_tables
from lakeui.task_names import RUN_JOB
from lakeui.tracing import start_request_span

IDEMPOTENCY_WINDOW = timedelta(hours=24)

LONGEST_SILENCE = timedelta(minutes=10)
MOST_A_SWEEP = 500
SWEEP_BUDGET_S = 10.0
_GRACE_S = 10


@dataclass(frozen=True, kw_only=True)
class JobOptions:
    """The options of a job beside its command. A time limit of 0 is the installation's."""

    dry_run: bool = False
    retries: int = 0
    time_limit_s: int = 0
    idempotency_key: str = ""
    reason: str = ""
    commit_after: Job | None = field(default=None, compare=False)
    schedule: Schedule | None = field(default=None, compare=False)
    caused_by: Job | None = field(default=None, compare=False)


def take_job(table: Table, command: Command, by: User | None, options: JobOptions) -> Job:
    """Return the queued job of a request, or the earlier job of its idempotency key.

    Raises:
        IdempotencyMismatchError: the key came with another request.
        RequestError: too many retries, or too long a time limit.
        TooManyJobsError: too many jobs of the person have not ended.
    """
    job = build_job(table, command, by, options)
    if not options.idempotency_key or by is None:
        return write_job(job, command)
    _release_old_key(by, options.idempotency_key)
    earlier = _earlier(by, options.idempotency_key)
    if earlier is None:
        try:
            with transaction.atomic():
                return write_job(job, command)
        except IntegrityError:  # the same request, twice at once
            earlier = Job.objects.get(requested_by=by, idempotency_key=options.idempotency_key)
    return _same_or_refused(earlier, job.request_digest)


def find_earlier_job(
    table_name: str, command: Command, by: User | None, options: JobOptions
) -> Job | None:
    """Return the earlier job of the same request and key, if there is one.

    Raises:
        IdempotencyMismatchError: the key came with another request.
    """
    if not options.idempotency_key or by is None:
        return None
    _release_old_key(by, options.idempotency_key)
    earlier = _earlier(by, options.idempotency_key)
    return earlier and _same_or_refused(earlier, _digest(table_name, command, options))


def build_job(table: Table, command: Command, by: User | None, options: JobOptions) -> Job:
    """Return a job as it would be queued.

    Raises:
        RequestError: too many retries, or too long a time limit.
    """
    return Job(
        table=table,
        kind=command.kind,
        parameters=command.parameters(),
        statement=statement_of(command, table),
        dry_run=options.dry_run,
        queue=queue_of(command, dry_run=options.dry_run),
        requested_by=by,
        by_system=by is None,
        reason=options.reason,
        idempotency_key=options.idempotency_key if by else "",
        request_digest=_digest(table.name, command, options),
        max_retries=check_retries(options.retries),
        time_limit_s=_time_limit_of(options),
        commit_after=options.commit_after,
        schedule=options.schedule,
        caused_by=options.caused_by,
    )


def write_job(job: Job, command: Command) -> Job:
    """Save the job with the tables that it changes, and send it.

    A schedule may always start its job: it has one unfinished job at a time.
    """
    asked = {"lakeui.job": str(job.pk), "lakeui.job.kind": job.kind, "lakeui.table": job.table.name}
    job.trace_parent = start_request_span(f"request {job.kind}", asked)
    with transaction.atomic(savepoint=False):
        if job.requested_by is not None and job.schedule is None:
            check_room(job.requested_by, dry_run=job.dry_run)
        job.save(force_insert=True)
        note_changed_tables(job, command)
        log_event(job.pk, "Queued")
        send_on_commit(job)
    return job


def check_room(by: User, *, dry_run: bool = False) -> None:
    """Refuse a person with the largest permitted number of unfinished jobs.

    Call it inside the transaction that records the job: it locks the person's row.

    Raises:
        TooManyJobsError: `DRY_RUNS_PER_PERSON` dry runs, or `JOBS_PER_PERSON` jobs, have not ended.
    """
    lock_person(by)
    active = Job.objects.filter(requested_by=by, state__in=Job.ACTIVE)
    if dry_run:
        noun, limit = "dry run", settings.DRY_RUNS_PER_PERSON
        active = active.filter(dry_run=True)
    else:
        noun, limit = "job", settings.JOBS_PER_PERSON
    if active.count() >= limit:
        raise TooManyJobsError(noun, limit)


def check_retries(retries: int) -> int:
    """Check the number of retries of a job.

    Raises:
        RequestError: more than `JOB_MAX_RETRIES`, or negative.
    """
    if not 0 <= retries <= settings.JOB_MAX_RETRIES:
        msg = f"{retries} retries were requested."
        raise RequestError(
            msg, f"Request 0 to {settings.JOB_MAX_RETRIES} retries.", field="retries"
        )
    return retries


def check_time_limit(seconds: int) -> int:
    """Check the time limit of a job; 0 sets none.

    Raises:
        RequestError: more than `JOB_MAX_TIME_LIMIT_SECONDS`, or negative.
    """
    longest = max(settings.JOB_MAX_TIME_LIMIT_SECONDS, settings.JOB_TIME_LIMIT_SECONDS)
    if not 0 <= seconds <= longest:
        msg = f"A time limit of {seconds} seconds was requested."
        raise RequestError(msg, f"Request 1 to {longest} seconds.", field="time_limit_s")
    return seconds


def _time_limit_of(options: JobOptions) -> int | None:
    seconds: int = check_time_limit(options.time_limit_s) or settings.JOB_TIME_LIMIT_SECONDS
    if options.dry_run:
        longest: int = settings.DRY_RUN_SECONDS
        return min(seconds or longest, longest)
    return seconds or None


def _digest(table_name: str, command: Command, options: JobOptions) -> str:
    request = [
        table_name,
        command.kind,
        command.parameters(),
        options.dry_run,
        options.retries,
        *([options.time_limit_s] if options.time_limit_s else []),
    ]
    text = json.dumps(request, sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def _earlier(by: User, key: str) -> Job | None:
    return Job.objects.filter(requested_by=by, idempotency_key=key).first()


def _release_old_key(by: User, key: str) -> None:
    old = timezone.now() - IDEMPOTENCY_WINDOW
    Job.objects.filter(requested_by=by, idempotency_key=key, created_at__lt=old).update(
        idempotency_key=""
    )


def _same_or_refused(earlier: Job, digest: str) -> Job:
    if earlier.request_digest != digest:
        raise IdempotencyMismatchError(earlier.idempotency_key)
    return earlier


def send_on_commit(job: Job) -> None:
    """Send the job once its row is there for a worker to find."""
    transaction.on_commit(lambda: _send_or_wait(job), robust=True)


def send_job(job_id: UUID) -> bool:
    """Wake a worker for a job, if it waits; return whether the broker took the message.

    If the broker is down, only time is lost: the job stays queued with `sent_at` null, its log says
    so, and the sweeper sends it later.
    """
    job = Job.objects.filter(CLAIMABLE, pk=job_id).first()
    return job is not None and _send_or_wait(job)


class BrokerDownError(Exception):
    """The broker did not take a message."""


def _send_or_wait(job: Job) -> bool:
    try:
        _send(job)
    except BrokerDownError:
        return False
    return True


def _send(job: Job) -> None:
    try:
        app.send_task(RUN_JOB, [str(job.pk)], queue=job.queue, time_limit=_hard_limit_of(job))
    except (OperationalError, OSError) as error:
        _note_broker_down(job, error)
        raise BrokerDownError from error
    Job.objects.filter(pk=job.pk).update(sent_at=timezone.now())


def _hard_limit_of(job: Job) -> int | None:
    """Seconds after which the process of a dry run is ended, where its own limit did not end it."""
    return job.time_limit_s + _GRACE_S if job.dry_run and job.time_limit_s else None


def take_back(job_id: UUID) -> None:
    """Reset a job whose worker could not take it: the sweeper sends another message."""
    Job.objects.filter(CLAIMABLE, pk=job_id).update(sent_at=None)


def send_next_dry_run() -> None:
    """Send the oldest dry run that found no free process, now that one ended."""
    waiting = Job.objects.filter(CLAIMABLE, dry_run=True, sent_at=None).order_by("created_at")
    job = waiting.first()
    if job is not None:
        _send_or_wait(job)


def send_overdue(clock: Clock | None = None) -> int:
    """Send waiting jobs that no worker can know of: never sent, or sent long ago and not taken.

    A job waiting behind others is sent again too; its second delivery loses the claim. Repeats
    become rarer over time, so that an unserved queue does not fill the broker. Jobs never sent come
    first, then the oldest. A sweep sends at most `MOST_A_SWEEP` jobs, begins none after
    `SWEEP_BUDGET_S` and ends if the broker is down: the next sweep continues.
    """
    clock = clock or SystemClock()
    now, until_s = timezone.now(), clock.monotonic_s() + SWEEP_BUDGET_S
    waiting = Job.objects.filter(CLAIMABLE).order_by(
        F("sent_at").asc(nulls_first=True), "created_at"
    )
    rows = waiting.values_list("pk", "created_at", "sent_at")
    due = (pk for pk, asked_at, sent_at in rows.iterator() if _is_due(now, asked_at, sent_at))
    sent = 0
    for job_id in list(islice(due, MOST_A_SWEEP)):
        if clock.monotonic_s() >= until_s:
            break
        job = Job.objects.filter(CLAIMABLE, pk=job_id).first()
        try:
            if job is not None:
                _send(job)
                sent += 1
        except BrokerDownError:
            break
    return sent


def _is_due(now: datetime, asked_at: datetime, sent_at: datetime | None) -> bool:
    """Whether to send a job again: after twice a lease, then each time twice as late.

    Resend it if `sent_at` lies in the future (clock skew).
    """
    if sent_at is None or sent_at > now + CLOCKS_DIFFER:
        return True
    least = timedelta(seconds=2 * settings.JOB_LEASE_SECONDS)
    return now - sent_at > max(least, min(sent_at - asked_at, LONGEST_SILENCE))


def _note_broker_down(job: Job, error: Exception) -> None:
    message = "The broker is unreachable. The job stays queued and is sent when the broker is back"
    if not JobEvent.objects.filter(job=job, message=message).exists():
        log_event(job.pk, message, JobEvent.Level.WARNING, error=type(error).__name__)
