"""The last jobs of schedules, and the schedules that their next ones may overlap with."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import timedelta

from django.db.models import F, Window
from django.db.models.functions import RowNumber
from django.utils import timezone

from lakeui.jobs.models import Job, Schedule

SHOWN = 10
DAYS = 30
MEETS_WITHIN = timedelta(hours=1)


def latest_runs(schedules: Iterable[Schedule]) -> Mapping[int, list[Job]]:
    """Return the last jobs of each schedule by its id, oldest first: one query of recent days."""
    numbered = Job.objects.filter(
        schedule__in=[schedule.pk for schedule in schedules],
        created_at__gte=timezone.now() - timedelta(days=DAYS),
    ).annotate(
        place=Window(RowNumber(), partition_by=F("schedule_id"), order_by=F("created_at").desc())
    )
    latest = numbered.filter(place__lte=SHOWN).only(
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


def neighbours(schedules: Iterable[Schedule]) -> Mapping[int, list[Schedule]]:
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
