"""A request written down: the row of its job, one for one idempotency key, sent once it is there."""

import hashlib
import json
from dataclasses import dataclass, field
from datetime import timedelta

from django.conf import settings
from django.contrib.auth.models import User
from django.db import IntegrityError, transaction
from django.utils import timezone

from engine.commands.model import Command
from engine.errors import RequestError
from lakeui.catalog.models import Table
from lakeui.jobs.command_rules import queue_of, statement_of
from lakeui.jobs.delivery import send_on_commit
from lakeui.jobs.errors import IdempotencyMismatchError
from lakeui.jobs.events import log_event
from lakeui.jobs.models import Job, Schedule

IDEMPOTENCY_WINDOW = timedelta(hours=24)


@dataclass(frozen=True, kw_only=True)
class JobOptions:
    """What a job may carry beside its command."""

    dry_run: bool = False
    retries: int = 0
    idempotency_key: str = ""
    reason: str = ""
    commit_after: Job | None = field(default=None, compare=False)
    schedule: Schedule | None = field(default=None, compare=False)
    caused_by: Job | None = field(default=None, compare=False)


def take_job(table: Table, command: Command, by: User | None, options: JobOptions) -> Job:
    """The queued job of a request, or the one that its idempotency key gave before.

    Raises:
        IdempotencyMismatchError: the key came with another request.
        RequestError: too many retries.
    """
    job = unsaved_job(table, command, by, options)
    if not options.idempotency_key or by is None:
        return write_job(job)
    _release_old_key(by, options.idempotency_key)
    earlier = _earlier(by, options.idempotency_key)
    if earlier is None:
        try:
            with transaction.atomic():
                return write_job(job)
        except IntegrityError:  # the same request, twice at once
            earlier = Job.objects.get(requested_by=by, idempotency_key=options.idempotency_key)
    return _same_or_refused(earlier, job.request_digest)


def replayed_job(
    table_name: str, command: Command, by: User | None, options: JobOptions
) -> Job | None:
    """The job that the same request gave before under its key, if there is one.

    Raises:
        IdempotencyMismatchError: the key came with another request.
    """
    if not options.idempotency_key or by is None:
        return None
    _release_old_key(by, options.idempotency_key)
    earlier = _earlier(by, options.idempotency_key)
    return earlier and _same_or_refused(earlier, _digest(table_name, command, options))


def unsaved_job(table: Table, command: Command, by: User | None, options: JobOptions) -> Job:
    """A job as it would be queued.

    Raises:
        RequestError: too many retries.
    """
    return Job(
        table=table,
        kind=command.kind,
        parameters=command.parameters(),
        statement=statement_of(command, table),
        dry_run=options.dry_run,
        queue=queue_of(command, dry_run=options.dry_run),
        requested_by=by,
        reason=options.reason,
        idempotency_key=options.idempotency_key if by else "",
        request_digest=_digest(table.name, command, options),
        max_retries=checked_retries(options.retries),
        commit_after=options.commit_after,
        schedule=options.schedule,
        caused_by=options.caused_by,
    )


def write_job(job: Job) -> Job:
    """Save it, and have it sent."""
    with transaction.atomic():
        job.save(force_insert=True)
        log_event(job.pk, "Queued")
        send_on_commit(job)
    return job


def checked_retries(retries: int) -> int:
    """How many retries a job may ask for.

    Raises:
        RequestError: more than `JOB_MAX_RETRIES`, or fewer than none.
    """
    if not 0 <= retries <= settings.JOB_MAX_RETRIES:
        msg = f"{retries} retries were asked for."
        raise RequestError(msg, f"Ask for 0 to {settings.JOB_MAX_RETRIES}.", field="retries")
    return retries


def _digest(table_name: str, command: Command, options: JobOptions) -> str:
    request = [
        table_name,
        command.kind,
        command.parameters(),
        options.dry_run,
        options.retries,
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
