"""Jobs as people ask for them: checked, written down, sent once the row is there."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.db import IntegrityError, transaction
from django.utils import timezone

from engine.commands.model import Clone, Command, Create, Script
from engine.commands.sql import parse_request, parse_statement
from engine.errors import RequestError
from lakeui.catalog.access import action_for_kind, may
from lakeui.catalog.models import Table
from lakeui.catalog.named_tables import Reader
from lakeui.jobs.command_rules import (
    check_command,
    check_rights,
    check_source_table,
    command_of,
    queue_of,
    statement_of,
)
from lakeui.jobs.delivery import send_on_commit
from lakeui.jobs.errors import (
    IdempotencyMismatchError,
    JobStateError,
    NotPermittedError,
    ReadOnlyError,
)
from lakeui.jobs.events import log_event
from lakeui.jobs.models import Job, JobAttempt, Schedule
from lakeui.jobs.new_tables import new_table, tables_to_make
from lakeui.jobs.trail import record_act
from lakeui.jobs.withheld import check_readable

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


def request_job(  # noqa: PLR0913 - the words of a request, all by name
    *,
    table: Table,
    kind: str = "",
    parameters: Mapping[str, Any] | None = None,
    requested_by: User | None,
    dry_run: bool = False,
    idempotency_key: str = "",
    retries: int = 0,
    sql: str = "",
    reason: str = "",
    commit_after: Job | None = None,
    schedule: Schedule | None = None,
    caused_by: Job | None = None,
) -> Job:
    """A queued job for a command, given as a kind with parameters or as one SQL statement.

    The same idempotency key with the same request gives the first job again, for a day. A statement
    that ends in DRY RUN is a dry run, whatever `dry_run` says.
    `requested_by` None is the system itself. `commit_after` rehearses a conflict (see `Job`).
    `schedule` or the job `caused_by` is what asked for it, where that was no person at that moment.

    Raises:
        ReadOnlyError, NotPermittedError, IdempotencyMismatchError: as they say.
        RequestError: the command is at fault; `field` names the part.
        PathOutsideRootError: the table or a source lies outside the allowed roots.
    """
    command = checked_command(table, requested_by, kind=kind, parameters=parameters, sql=sql)
    options = JobOptions(
        dry_run=dry_run or says_dry_run(sql),
        retries=retries,
        idempotency_key=idempotency_key,
        reason=reason,
        commit_after=commit_after,
        schedule=schedule,
        caused_by=caused_by,
    )
    with transaction.atomic():
        made = tables_to_make(command, table, requested_by)
        if made and options.dry_run:
            msg = f"{made[0].name} is not there yet: a dry run cannot go on with it."
            raise RequestError(msg, "Leave DRY RUN out, or create it first.", field="steps")
        return _take(table, command, requested_by, options)


def checked_command(
    table: Table,
    by: User | None,
    *,
    kind: str = "",
    parameters: Mapping[str, Any] | None = None,
    sql: str = "",
) -> Command:
    """The command that someone asks for, if they may have it done to the table.

    Raises:
        ReadOnlyError, NotPermittedError, RequestError, PathOutsideRootError: see `request_job`.
    """
    command = parse_statement(sql) if sql else Command.from_parameters(kind, dict(parameters or {}))
    with transaction.atomic():
        made = tables_to_make(command, table, by)
        _check_allowed(by, command, table)
        check_command(command, table)
        check_source_table(command, by)
        transaction.set_rollback(bool(made))  # nothing is asked for yet
    return command


def says_dry_run(sql: str) -> bool:
    """Whether a statement ends in DRY RUN, as VACUUM has it and any other may.

    Raises:
        StatementError: it is not understood.
    """
    return bool(sql) and parse_request(sql)[1]


def checked_retries(retries: int) -> int:
    """How many retries a job may ask for.

    Raises:
        RequestError: more than `JOB_MAX_RETRIES`, or fewer than none.
    """
    if not 0 <= retries <= settings.JOB_MAX_RETRIES:
        msg = f"{retries} retries were asked for."
        raise RequestError(msg, f"Ask for 0 to {settings.JOB_MAX_RETRIES}.", field="retries")
    return retries


def request_create(  # noqa: PLR0913 - the words of a request, all by name
    *,
    name: str,
    parameters: Mapping[str, Any],
    requested_by: User | None,
    kind: str = Create.kind,
    description: str = "",
    idempotency_key: str = "",
    reason: str = "",
) -> Job:
    """A row for a table that is not there yet, and the queued job that makes it.

    `parameters` are those of the `create` command, its source among them, or of another `kind` that
    makes a table: `clone`. The table will lie in the embedded lake. A job that fails leaves the row,
    which says that nothing was created yet.

    Raises:
        TableExistsError: the name is taken.
        RequestError, NotPermittedError, ReadOnlyError, IdempotencyMismatchError: see `request_job`.
    """
    command = Command.from_parameters(kind, dict(parameters))
    if not isinstance(command, Create | Clone):
        msg = f"{command.label} makes no table."
        raise RequestError(msg, "Use create or clone.", field="kind")
    _check_allowed(requested_by, command, None)
    options = JobOptions(idempotency_key=idempotency_key, reason=reason)
    with transaction.atomic():
        replayed = _replayed_create(name, command, requested_by, options)
        if replayed is not None:
            return replayed
        table = new_table(name, description, requested_by)
        check_command(command, table)
        check_source_table(command, requested_by)
        return _take(table, command, requested_by, options)


def cancel_job(job: Job, by: User | None) -> Job:
    """Cancel a job: at once while nobody began it, else as soon as its worker sees it.

    After the commit began it comes too late, and the job will say that it succeeded. One that is
    queued again, since its worker fell silent, may have committed: the next worker looks first.

    Raises:
        NotPermittedError: neither its owner nor allowed to ask for such a job.
        JobStateError: it has ended.
    """
    _check_may_touch(job, by)
    now = timezone.now()
    who = by.get_username() if by else "the system"
    unbegun = Job.objects.filter(pk=job.pk, state=Job.State.QUEUED, attempts=0)
    cancelled = unbegun.update(state=Job.State.CANCELLED, cancel_requested_at=now, finished_at=now)
    active = Job.objects.filter(pk=job.pk, state__in=Job.ACTIVE)
    asked = cancelled or active.filter(cancel_requested_at=None).update(cancel_requested_at=now)
    if asked:
        log_event(job.pk, f"Cancelled by {who}" if cancelled else f"{who} asked to cancel")
        record_act("cancelled" if cancelled else "asked to cancel", by, job)
    elif not active.exists():
        job.refresh_from_db()
        raise JobStateError("cancelled", job.state)  # noqa: EM101 - a word of the sentence
    job.refresh_from_db()
    return job


def retry_job(job: Job, by: User | None) -> Job:
    """A new job that does what an ended one did not.

    One that failed, or lost a worker, without telling whether it wrote keeps its transaction id, so
    that the retry finds that commit instead of writing twice. A script goes on with the steps left.

    Raises:
        JobStateError: it is not over, or it succeeded.
        NotPermittedError, ReadOnlyError, RequestError: see `request_job`.
    """
    if job.state not in (Job.State.FAILED, Job.State.CONFLICTED, Job.State.CANCELLED):
        raise JobStateError("retried", job.state)  # noqa: EM101 - a word of the sentence
    if by is not None:
        check_readable(job, Reader(by), "Running this job again")
    command = command_of(job)
    _check_allowed(by, command, job.table)
    check_command(command, job.table)
    check_source_table(command, by)
    options = JobOptions(dry_run=job.dry_run, retries=job.max_retries, reason=job.reason)
    again = _unsaved(job.table, command, by, options)
    again.retry_of = job
    if _may_have_landed(job) or isinstance(command, Script):
        again.txn_id, again.base_version = job.txn_id, job.base_version
    made = _write(again)
    record_act("retried", by, job)
    return made


def _may_have_landed(job: Job) -> bool:
    if job.base_version is None:
        return False
    lost = job.attempt_rows.filter(outcome=JobAttempt.Outcome.LOST)
    return job.state == Job.State.FAILED or lost.exists()


def _take(table: Table, command: Command, by: User | None, options: JobOptions) -> Job:
    job = _unsaved(table, command, by, options)
    if not options.idempotency_key or by is None:
        return _write(job)
    _release_old_key(by, options.idempotency_key)
    earlier = _earlier(by, options.idempotency_key)
    if earlier is None:
        try:
            with transaction.atomic():
                return _write(job)
        except IntegrityError:  # the same request, twice at once
            earlier = Job.objects.get(requested_by=by, idempotency_key=options.idempotency_key)
    return _same_or_refused(earlier, job.request_digest)


def _unsaved(table: Table, command: Command, by: User | None, options: JobOptions) -> Job:
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


def _write(job: Job) -> Job:
    with transaction.atomic():
        job.save(force_insert=True)
        log_event(job.pk, "Queued")
        send_on_commit(job)
    return job


def _check_allowed(by: User | None, command: Command, table: Table | None) -> None:
    if settings.READ_ONLY:
        raise ReadOnlyError
    check_rights(command, table, by)


def _check_may_touch(job: Job, by: User | None) -> None:
    action = action_for_kind(job.kind, job.parameters)
    if by is None or by.pk == job.requested_by_id or may(by, action, job.table):
        return
    what = "Cancelling this job"
    raise NotPermittedError(what, action, job.table.name)


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


def _replayed_create(
    name: str, command: Command, by: User | None, options: JobOptions
) -> Job | None:
    if not options.idempotency_key or by is None:
        return None
    _release_old_key(by, options.idempotency_key)
    earlier = _earlier(by, options.idempotency_key)
    return earlier and _same_or_refused(earlier, _digest(name, command, options))
