"""The demo lake: filled by the same jobs, workers and Spark as any other table.

The steps are rows, and a step and its job are written together: after an interruption, the next run
continues.
"""

import logging
from collections.abc import Mapping
from typing import Any

from django.conf import settings
from django.contrib.auth.models import Group, User
from django.db import transaction
from kombu.exceptions import OperationalError

from engine.errors import EngineError
from lakeui.catalog.command_tables import Reader
from lakeui.catalog.models import Table
from lakeui.conflicts.conflict_detail.trials import ask_for_trials
from lakeui.conflicts.models import Conflict, ConflictTrials
from lakeui.jobs.cancel_retry import retry_job
from lakeui.jobs.models import Job, Schedule
from lakeui.jobs.requests import request_create, request_job
from lakeui.jobs.schedules import create_schedule
from lakeui.local_stack.demo_data import make_files
from lakeui.local_stack.demo_tables import (
    EVENTS_STEPS,
    ITEMS_STEPS,
    ORDERS_STEPS,
    ORDERS_TABLE,
    RETURNS_STEPS,
    TELEMETRY_STEPS,
    VISITS_STEPS,
    VISITS_TABLE,
    DemoJob,
    PlannedSchedule,
)
from lakeui.local_stack.models import DemoStep

ACCOUNTS: Mapping[str, str] = {
    "etl-nightly": "operator",
    "price-fixer": "operator",
    "gdpr-eraser": "operator",
    "opt-scheduler": "maintainer",
    "etl-compactor": "maintainer",
    "schema-bot": "maintainer",
    "lake-admin": "admin",
    "returns-loader": "operator",
    "telemetry-loader": "operator",
    "visit-builder": "operator",
}
"""Service accounts of the demo and their roles."""

STEPS: tuple[DemoJob, ...] = (
    *ORDERS_STEPS,
    *ITEMS_STEPS,
    *EVENTS_STEPS,
    *RETURNS_STEPS,
    *TELEMETRY_STEPS,
    *VISITS_STEPS,
)

SCHEDULES: tuple[PlannedSchedule, ...] = (
    PlannedSchedule("Nightly compaction", ORDERS_TABLE, "0 2 * * *", "OPTIMIZE {table}"),
    PlannedSchedule("Weekly clean-up", VISITS_TABLE, "30 3 * * 0", "VACUUM {table}"),
)
"""Recurring jobs of `opt-scheduler`, once the lake is full."""


_STORY: Mapping[str, tuple[str, Conflict.Kind]] = {
    "resolved": ("orders-erase-again", Conflict.Kind.RESOLVED),
    "aborted": ("orders-erase-same", Conflict.Kind.ABORTED),
}
"""Parts of the story, by the step and the kind of its conflict."""

State = DemoStep.State
logger = logging.getLogger(__name__)


def prepare() -> None:
    """Create missing accounts, files and steps of the demo; retry failed steps.

    A removed demo is left alone.
    """
    if is_removed():
        return
    for username, role in ACCOUNTS.items():
        user, _ = User.objects.get_or_create(username=username)
        user.groups.add(Group.objects.get(name=role))
    make_files(settings.DEMO_HOME)
    for position, step in enumerate(STEPS):
        DemoStep.objects.get_or_create(
            key=step.key, defaults={"position": position, "title": step.title}
        )
    steps = {step.key: step for step in STEPS}
    for row in DemoStep.objects.filter(state=State.RUNNING, key__in=steps).select_related("job"):
        _settle(row, steps[row.key])  # it may have ended meanwhile
    for row in DemoStep.objects.filter(state=State.FAILED).select_related("job"):
        _try_again(row)


def is_removed() -> bool:
    """Whether somebody removed the demo, or stopped it to remove it."""
    return DemoStep.objects.filter(state=State.REMOVED).exists()


def advance() -> bool:
    """Settle the steps whose jobs have ended and request the next ones; False: no more to do."""
    rows = {row.key: row for row in DemoStep.objects.select_related("job")}
    if all(row.state == State.REMOVED for row in rows.values()):
        return False
    for step in STEPS:
        if rows[step.key].state == State.RUNNING:
            _settle(rows[step.key], step)
    done = {key for key, row in rows.items() if row.state == State.DONE}
    with transaction.atomic():
        # sent together: the job to be aborted exists when the other starts
        for step in STEPS:
            if rows[step.key].state == State.WAITING and done.issuperset(step.after):
                _begin(rows[step.key], step)
    running = any(row.state == State.RUNNING for row in rows.values())
    if not running and not DemoStep.objects.exclude(state=State.DONE).exists():
        _plan_schedules()
        _try_fixes()
    return running


def find_story() -> dict[str, int]:
    """Return the conflicts that the overview leads to, by their place in the story.

    `tried` is the aborted one again, once a worker has tried its fixes.
    """
    story: dict[str, int] = {}
    for part, (key, kind) in _STORY.items():
        jobs = DemoStep.objects.filter(key=key).values("job")
        conflict = Conflict.objects.filter(job__in=jobs, kind=kind).first()
        if conflict is not None:
            story[part] = conflict.pk
    if ConflictTrials.objects.filter(
        conflict=story.get("aborted", 0), read_at__isnull=False
    ).exists():
        story["tried"] = story["aborted"]
    return story


def _try_fixes() -> None:
    """Have the fixes of the story's aborted write tried, once."""
    conflict = Conflict.objects.filter(
        pk=find_story().get("aborted", 0), trials__isnull=True
    ).first()
    if conflict is None:
        return
    try:
        ask_for_trials(conflict, Reader(User.objects.get(username="lake-admin")))
    except (EngineError, OperationalError, OSError) as error:
        logger.warning("The fixes of conflict %s were not tried: %s", conflict.pk, error)


def _plan_schedules() -> None:
    owner = User.objects.get(username="opt-scheduler")
    for schedule in SCHEDULES:
        table = Table.objects.get(name=schedule.table)
        if not Schedule.objects.filter(table=table, name=schedule.name).exists():
            create_schedule(
                table=table,
                name=schedule.name,
                cron=schedule.cron,
                owner=owner,
                sql=schedule.sql.format(table=schedule.table),
            )


def _settle(row: DemoStep, step: DemoJob) -> None:
    job = row.job
    if job is not None and job.is_active:
        return
    if job is None:
        _set(row, State.FAILED, "Its job was deleted.")
    elif _is_as_told(job, step):
        _set(row, State.DONE, job.error_message)
    else:
        _set(row, State.FAILED, job.error_message or f"The job {job.state}.")


def _is_as_told(job: Job, step: DemoJob) -> bool:
    if job.state == Job.State.FAILED:
        return bool(step.may_fail) and job.error_code == step.may_fail
    return job.state == Job.State.SUCCEEDED or (step.may_lose and job.state == Job.State.CONFLICTED)


def _begin(row: DemoStep, step: DemoJob) -> None:
    try:
        with transaction.atomic():
            row.job = _request(step)
            _set(row, State.RUNNING, "")
    except EngineError as error:
        _set(row, State.FAILED, str(error))


def _try_again(row: DemoStep) -> None:
    if row.job is None:
        _set(row, State.WAITING, "")
        return
    try:
        with transaction.atomic():
            row.job = retry_job(row.job, row.job.requested_by)
            _set(row, State.RUNNING, "")
    except EngineError as error:
        _set(row, State.FAILED, str(error))


def _request(step: DemoJob) -> Job:
    account = User.objects.get(username=step.account)
    parameters = _resolve_source_uri(step.parameters)
    if step.kind == "create":
        return request_create(
            name=step.table,
            parameters=parameters,
            requested_by=account,
            reason=step.title,
            description="Part of the demo lake.",
        )
    winner = DemoStep.objects.filter(key=step.commit_after).select_related("job").first()
    return request_job(
        table=Table.objects.get(name=step.table),
        kind=step.kind,
        parameters=parameters,
        requested_by=account,
        dry_run=step.dry_run,
        retries=step.retries,
        reason=step.title,
        commit_after=winner.job if winner else None,
    )


def _resolve_source_uri(parameters: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
    values = dict(parameters)
    if "source" in values:
        source = values["source"]
        values["source"] = {**source, "uri": str(settings.DEMO_HOME / source["uri"])}
    return values


def _set(row: DemoStep, state: DemoStep.State, message: str) -> None:
    row.state, row.message = state, message
    row.save(update_fields=["state", "message", "job"])
