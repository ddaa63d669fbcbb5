"""Recurring jobs: defined once, fired by the clock, each run as their owner.

Lists show the latest jobs of a schedule, the schedules that its next job may overlap with, and
common cron texts in words.
"""

import logging
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from functools import reduce
from operator import or_
from typing import Any

from celery.schedules import ParseException, crontab
from django.contrib.auth.models import User
from django.db import IntegrityError, transaction
from django.db.models import OuterRef, Q, Subquery
from django.utils import timezone

from engine.commands.model import Command
from engine.errors import EngineError, RequestError
from lakeui.catalog.command_tables import Reader
from lakeui.catalog.hours import CLOCKS_DIFFER
from lakeui.catalog.models import Table
from lakeui.jobs.command_rules import statement_of
from lakeui.jobs.filters import check_readable
from lakeui.jobs.job_rows import check_retries, check_room, check_time_limit
from lakeui.jobs.models import Job, Schedule
from lakeui.jobs.requests import check_request, read_request, request_job
from lakeui.jobs.writers import note_changed_tables

logger = logging.getLogger(__name__)

_CRON_FIELDS = ("minute", "hour", "day_of_month", "month_of_year", "day_of_week")

_EVERY = re.compile(r"^\*/(\d+)$")
_DAYS = ("Sundays", "Mondays", "Tuesdays", "Wednesdays", "Thursdays", "Fridays", "Saturdays")
_SPANS = {
    "1-5": "Mondays to Fridays",
    "mon-fri": "Mondays to Fridays",
    "0,6": "Saturdays and Sundays",
    "6,0": "Saturdays and Sundays",
}
_FIELDS = 5
_IN_EVERY_MONTH = 28

SHOWN = 10
MEETS_WITHIN = timedelta(hours=1)


def create_schedule(  # noqa: PLR0913 - the words of a request, all by name
    *,
    table: Table,
    name: str,
    cron: str,
    owner: User,
    kind: str = "",
    parameters: Mapping[str, Any] | None = None,
    sql: str = "",
    retries: int = 0,
    time_limit_s: int = 0,
) -> Schedule:
    """Create a schedule; its command is checked like a job's.

    Raises:
        RequestError: the name, the cron text or the command is at fault; `field` names the part.
        NotPermittedError, ReadOnlyError, PathOutsideRootError: see `requests.request_job`.
    """
    if not name.strip():
        msg = "The schedule has no name."
        raise RequestError(msg, "Enter a name.", field="name")
    command = _read_runnable(kind=kind, parameters=parameters, sql=sql)
    check_request(command, table, owner)
    schedule = Schedule(
        table=table,
        name=name.strip()[:200],
        cron=" ".join(cron.split()),
        kind=command.kind,
        parameters=command.parameters(),
        statement=statement_of(command, table),
        max_retries=check_retries(retries),
        time_limit_s=check_time_limit(time_limit_s),
        owner=owner,
        next_due_at=next_due(cron, timezone.now()),
    )
    with transaction.atomic():
        _save_named(schedule)
        note_changed_tables(schedule, command)
    return schedule


def change_schedule(  # noqa: PLR0913 - the words of a request, all by name
    schedule: Schedule,
    by: User,
    *,
    name: str | None = None,
    cron: str | None = None,
    sql: str = "",
    retries: int | None = None,
    time_limit_s: int | None = None,
) -> Schedule:
    """Change a schedule; omitted parts stay. It still runs as its owner.

    A firing in between is kept, and the due time stays unless the cron text changes. A new
    statement is checked for the owner, who must be allowed to run it, and for the person who
    changes it.

    Raises:
        RequestError: see `create_schedule`.
        NotPermittedError, ReadOnlyError, PathOutsideRootError: see `requests.request_job`.
    """
    changed: set[str] = set()
    if name is not None:
        if not name.strip():
            msg = "The schedule has no name."
            raise RequestError(msg, "Enter a name.", field="name")
        schedule.name = name.strip()[:200]
        changed.add("name")
    command = _read_runnable(sql=sql) if sql else None
    if command is not None:
        check_request(command, schedule.table, by)
        check_request(command, schedule.table, schedule.owner)
        schedule.kind, schedule.parameters = command.kind, command.parameters()
        schedule.statement = statement_of(command, schedule.table)
        changed |= {"kind", "parameters", "statement"}
    if cron is not None and " ".join(cron.split()) != schedule.cron:
        schedule.cron = " ".join(cron.split())
        due = next_due(cron, timezone.now())
        schedule.next_due_at = due if schedule.enabled else None
        changed |= {"cron", "next_due_at"}
    if retries is not None:
        schedule.max_retries = check_retries(retries)
        changed.add("max_retries")
    if time_limit_s is not None:
        schedule.time_limit_s = check_time_limit(time_limit_s)
        changed.add("time_limit_s")
    with transaction.atomic():
        _save_named(schedule, changed)
        if command is not None:
            note_changed_tables(schedule, command)
    return schedule


def _read_runnable(**request: Any) -> Command:  # noqa: ANN401 - the words of `read_request`
    command, ends_in_dry_run = read_request(**request)
    if ends_in_dry_run:
        msg = "The statement of a schedule cannot end with DRY RUN."
        raise RequestError(msg, "Remove DRY RUN, or request a single job.", field="sql")
    return command


def run_now(schedule: Schedule, by: User) -> Job:
    """Start a job of the schedule now, at a person's request; its next firing stays the same.

    Raises:
        NotPermittedError, ReadOnlyError, RequestError, PathOutsideRootError: see `request_job`.
        TooManyJobsError: too many jobs of the person have not ended.
    """
    check_readable(schedule, Reader(by), "Running this schedule")
    with transaction.atomic():
        check_room(by)
        return request_job(
            table=schedule.table,
            kind=schedule.kind,
            parameters=schedule.parameters,
            requested_by=by,
            retries=schedule.max_retries,
            time_limit_s=schedule.time_limit_s,
            reason=f"Schedule {schedule.name}, run now",
            schedule=schedule,
        )


def set_enabled(schedule: Schedule, *, enabled: bool) -> None:
    """Enable or disable a schedule; firings missed while it was disabled are not made up.

    Enabling an enabled schedule does not delay a due firing.
    """
    others = Schedule.objects.filter(pk=schedule.pk, enabled=not enabled)
    others.update(
        enabled=enabled,
        next_due_at=next_due(schedule.cron, timezone.now()) if enabled else None,
    )
    schedule.refresh_from_db(fields=["enabled", "next_due_at"])


def next_due(cron: str, after: datetime) -> datetime:
    """Return when a cron text is due next, in UTC."""
    moment = after.astimezone(UTC)
    try:
        schedule = crontab(**_fields(cron), nowfun=lambda: moment)
        last, delta, _ = schedule.remaining_delta(moment, tz=UTC)
    except (ParseException, ValueError, RuntimeError) as error:
        msg = f"{cron[:100]!r} is not a cron schedule."
        remedy = "Write five cron fields, in UTC: 0 3 * * * is every night at three."
        raise RequestError(msg, remedy, field="cron") from error
    due: datetime = last + delta
    return due


def next_runs(cron: str, after: datetime, count: int = 5) -> list[datetime]:
    """Return the next due times of a cron text, in UTC."""
    runs: list[datetime] = []
    for _ in range(count):
        runs.append(next_due(cron, runs[-1] if runs else after))
    return runs


def fire_due() -> int:
    """Request a job of every due schedule; return how many.

    A schedule fires once for all missed times, and not while its last job still runs.
    """
    now = timezone.now()
    _mend_clock(now)
    due = Schedule.objects.filter(enabled=True, next_due_at__lte=now)
    return sum(
        _fire(schedule, now) for schedule in due.select_related("table", "owner", "last_job")
    )


def _mend_clock(now: datetime) -> None:
    """Reset due times set by a clock ahead of this one, so that they fire in time."""
    for schedule in Schedule.objects.filter(enabled=True, last_fired_at__gt=now + CLOCKS_DIFFER):
        still = Schedule.objects.filter(pk=schedule.pk, next_due_at=schedule.next_due_at)
        still.update(next_due_at=_due_after(schedule, now)[0], last_fired_at=now)


def _fire(schedule: Schedule, now: datetime) -> bool:
    """Fire a schedule and create its job in one transaction: a crash leaves the schedule due."""
    due, fault = _due_after(schedule, now)
    with transaction.atomic():
        still = Schedule.objects.filter(pk=schedule.pk, next_due_at=schedule.next_due_at)
        if not still.update(next_due_at=due, last_fired_at=now):
            return False  # another scheduler was first
        job, note = _try_request_job(schedule)
        Schedule.objects.filter(pk=schedule.pk).update(
            note=note or fault, last_job=job or schedule.last_job
        )
    return job is not None


def _due_after(schedule: Schedule, now: datetime) -> tuple[datetime | None, str]:
    """Return when it is due next; None, and why, if its text is no longer valid."""
    try:
        return next_due(schedule.cron, now), ""
    except RequestError as error:
        return None, str(error)


def _try_request_job(schedule: Schedule) -> tuple[Job | None, str]:
    """Request the job; return it, or the reason why there is none. A failure must not stop others."""
    if schedule.last_job is not None and schedule.last_job.is_active:
        return None, "Skipped, because the previous job had not ended."
    try:
        with transaction.atomic():
            return _request_job(schedule), ""
    except EngineError as error:
        return None, str(error)
    except Exception as error:
        logger.exception("Schedule %s created no job", schedule.pk)
        return None, f"Internal error {type(error).__name__}. The worker's log has the details."


def _request_job(schedule: Schedule) -> Job:
    return request_job(
        table=schedule.table,
        kind=schedule.kind,
        parameters=schedule.parameters,
        requested_by=schedule.owner,
        retries=schedule.max_retries,
        time_limit_s=schedule.time_limit_s,
        reason=f"Schedule {schedule.name}",
        schedule=schedule,
    )


def _save_named(schedule: Schedule, changed: Collection[str] | None = None) -> None:
    """Save the schedule, or only its changed fields: the clock owns the others."""
    try:
        with transaction.atomic():
            schedule.save(update_fields=changed)
    except IntegrityError as error:
        msg = f"{schedule.table.name} already has a schedule called {schedule.name}."
        raise RequestError(msg, "Choose another name.", field="name") from error


def _fields(cron: str) -> dict[str, str]:
    fields = dict(zip(_CRON_FIELDS, cron.split(), strict=True))
    days = (_normalize_sunday(part) for part in fields["day_of_week"].split(","))
    return fields | {"day_of_week": ",".join(days)}


def _normalize_sunday(days: str) -> str:
    """Return a day of the week, or a span, with Sunday as 0: other programs also use 7."""
    if days == "7":
        return "0"
    return f"{days.removesuffix('7')}6,0" if days.endswith("-7") else days


def cron_in_words(cron: str) -> str:
    """Return words such as "Every day at 02:00 UTC"; "" if there is no common phrase."""
    fields = cron.lower().split()
    if len(fields) != _FIELDS or fields[3] != "*":
        return ""
    minute, hour, day, _, weekday = fields
    if (day, weekday) == ("*", "*"):
        return _describe_time_of_day(minute, hour)
    at, days = _time(minute, hour), _days(day, weekday)
    return f"{days} at {at}" if at and days else ""


def _days(day: str, weekday: str) -> str:
    if day == "*" and weekday in _SPANS:
        return _SPANS[weekday]
    if day == "*" and weekday.isdecimal() and int(weekday) <= len(_DAYS):
        return _DAYS[int(weekday) % len(_DAYS)]
    if weekday != "*" or not day.isdecimal():
        return ""
    some = " that has one" if int(day) > _IN_EVERY_MONTH else ""
    return f"on day {int(day)} of each month{some}"


def _describe_time_of_day(minute: str, hour: str) -> str:
    if at := _time(minute, hour):
        return f"every day at {at}"
    if (minute, hour) == ("*", "*"):
        return "every minute"
    if hour == "*" and (minutes := _even_step(minute, 60)):
        return "every minute" if minutes == 1 else f"every {minutes} min"
    hours = 1 if hour == "*" else _even_step(hour, 24)
    if not minute.isdecimal() or not hours:
        return ""
    often = "every hour" if hours == 1 else f"every {hours} h"
    return f"{often} at :{int(minute):02d}"


def _even_step(text: str, whole: int) -> int:
    """Return the step of `*/15`; 0 for none, or if it is uneven: `*/40` fires at :00 and :40."""
    step = int(stepped[1]) if (stepped := _EVERY.match(text)) else 0
    return step if step and whole % step == 0 else 0


def _time(minute: str, hour: str) -> str:
    is_plain = minute.isdecimal() and hour.isdecimal()
    return f"{int(hour):02d}:{int(minute):02d} UTC" if is_plain else ""


def latest_runs(
    schedules: Iterable[Schedule], since: datetime, most: int = SHOWN
) -> Mapping[int, list[Job]]:
    """Return the last jobs of each schedule since then by its id, oldest first, in two queries.

    An index finds where the last ones begin: a schedule of every minute has thousands before them.
    """
    of_schedule = Job.objects.filter(schedule=OuterRef("pk"), created_at__gte=since)
    begin = of_schedule.order_by("-created_at").values("created_at")[most - 1 : most]
    begins = Schedule.objects.filter(pk__in=[schedule.pk for schedule in schedules])
    conditions = [
        Q(schedule=pk, created_at__gte=moment or since)
        for pk, moment in begins.order_by().values_list("pk", Subquery(begin))
    ]
    latest = Job.objects.filter(reduce(or_, conditions, Q(pk__in=()))).only(
        "schedule_id",
        "state",
        "dry_run",
        "committed_version",
        "created_at",
        "started_at",
        "finished_at",
        "cancel_requested_at",
    )
    by_schedule: defaultdict[int, list[Job]] = defaultdict(list)
    for job in sorted(latest, key=lambda run: run.created_at):
        if job.schedule_id is not None:
            by_schedule[job.schedule_id].append(job)
    return by_schedule


def neighbors(schedules: Iterable[Schedule]) -> Mapping[int, list[Schedule]]:
    """Return other schedules of the same table that fire within the hour: one query."""
    due = [
        schedule for schedule in schedules if schedule.enabled and schedule.next_due_at is not None
    ]
    others = Schedule.objects.filter(
        table__in={schedule.table_id for schedule in due}, enabled=True
    )
    by_table: defaultdict[int, list[Schedule]] = defaultdict(list)
    for other in others.order_by("next_due_at", "name"):
        by_table[other.table_id].append(other)
    return {
        schedule.pk: [other for other in by_table[schedule.table_id] if _meet(schedule, other)]
        for schedule in due
    }


def _meet(one: Schedule, other: Schedule) -> bool:
    if one.pk == other.pk or one.next_due_at is None or other.next_due_at is None:
        return False
    return abs(one.next_due_at - other.next_due_at) < MEETS_WITHIN
