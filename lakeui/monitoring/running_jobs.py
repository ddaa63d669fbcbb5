"""Running jobs with their expected end, the next jobs, and recently ended ones."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from django.db.models import F, OuterRef, Subquery

from lakeui.catalog.access import Person
from lakeui.jobs.filters import visible_jobs, visible_schedules
from lakeui.jobs.models import Job, JobAttempt, Schedule
from lakeui.jobs.usual_runs import UsualRun, usual_runs_of

MOST_RUNNING, MOST_NEXT = 12, 4
_SHOWN = (
    "kind", "state", "dry_run", "attempts", "created_at", "started_at", "finished_at",
    "progress_stage", "progress_done", "progress_total", "progress_unit", "committed_version", "cancel_requested_at", "table__name",
)  # fmt: skip
_OF_A_SCHEDULE = ("name", "kind", "next_due_at", "table__name", "owner__username")


@dataclass(frozen=True, slots=True)
class RunningJobRow:
    """A running job. `expected_at` is None after too few similar successful runs."""

    job: Job
    usual: UsualRun | None
    expected_at: datetime | None


@dataclass(frozen=True, slots=True)
class RunningJobs:
    """The first of each, `ended` only if nothing comes next; the counts are of all."""

    running: list[RunningJobRow]
    running_count: int
    queued: list[Job]
    queued_count: int
    oldest_queued_at: datetime | None
    due: list[Schedule]
    ended: list[Job] = field(default_factory=list)


def list_running_jobs(user: Person) -> RunningJobs:
    """List the running, waiting and ended jobs on tables visible to a person."""
    visible = visible_jobs(user).select_related("table").only(*_SHOWN)
    active = visible.filter(finished_at__isnull=True)  # an index has the few that have not ended
    waiting = active.filter(state=Job.State.QUEUED).order_by("created_at")
    busy = active.filter(state__in=Job.AT_WORK)
    tries = JobAttempt.objects.filter(job=OuterRef("pk")).order_by("-number")
    began = busy.annotate(try_at=Subquery(tries.values("started_at")[:1]))
    jobs = list(began.order_by(F("started_at").asc(nulls_last=True))[:MOST_RUNNING])
    usual = usual_runs_of(jobs)
    due = visible_schedules(user).filter(enabled=True, next_due_at__isnull=False)
    ended = visible.filter(state__in=Job.ENDED, finished_at__isnull=False)
    queued = list(waiting[:MOST_NEXT])
    next_due = list(
        due.select_related("table", "owner")
        .only(*_OF_A_SCHEDULE)
        .order_by("next_due_at", "pk")[:MOST_NEXT]
    )
    is_idle = not queued and not next_due
    return RunningJobs(
        running=[_build_running(job, usual) for job in jobs],
        running_count=len(jobs) if len(jobs) < MOST_RUNNING else busy.count(),
        queued=queued,
        queued_count=len(queued) if len(queued) < MOST_NEXT else waiting.order_by().count(),
        oldest_queued_at=queued[0].created_at if queued else None,
        due=next_due,
        ended=list(ended.order_by("-finished_at")[:MOST_NEXT]) if is_idle else [],
    )


def _build_running(job: Job, usual: Mapping[UUID, UsualRun]) -> RunningJobRow:
    began: datetime | None = getattr(job, "try_at", None) or job.started_at
    usual_run = usual.get(job.pk)
    return RunningJobRow(
        job, usual_run, usual_run.end_after(began) if usual_run and began else None
    )
