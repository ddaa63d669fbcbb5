"""Jobs that failed, wait or fell silent, and schedules that do not get through."""

from collections.abc import Iterator
from datetime import timedelta

from django.db.models import Exists, F, OuterRef, Q

from lakeui.catalog.command_tables import Reader
from lakeui.jobs.filters import visible_jobs, visible_schedules
from lakeui.jobs.models import Job
from lakeui.jobs.redaction import redact_job, redact_schedule
from lakeui.monitoring.alerts import MAX_WAIT
from lakeui.monitoring.attention_items import AttentionItem, AttentionRequest, CheckItems, Finder
from lakeui.monitoring.checks import UNKNOWN_FOR, AttentionCheck
from lakeui.monitoring.operations import stale_jobs

OUTCOME_UNKNOWN = "LAKE_COMMIT_OUTCOME_UNKNOWN"
_TOLD = ("kind", "parameters", "queue", "worker", "error_message", "created_at", "finished_at", "heartbeat_at",
         "table__name")  # fmt: skip
_DAY = timedelta(hours=24)


def find_ended_jobs(asked: AttentionRequest) -> Iterator[CheckItems]:
    reader = Reader(asked.user)
    jobs = visible_jobs(asked.user).select_related("table").only(*_TOLD)
    again = Job.objects.filter(retry_of=OuterRef("pk"))
    failed = jobs.filter(~Exists(again), state=Job.State.FAILED)
    unknown = failed.filter(error_code=OUTCOME_UNKNOWN, finished_at__gte=asked.now - UNKNOWN_FOR)
    others = failed.filter(finished_at__gte=asked.now - _DAY).exclude(error_code=OUTCOME_UNKNOWN)
    silent = jobs.filter(pk__in=stale_jobs().values("pk"))
    for check, rows, began in (
        (AttentionCheck.OUTCOME_UNKNOWN, unknown, "finished_at"),
        (AttentionCheck.FAILED_JOB, others, "finished_at"),
        (AttentionCheck.WORKER_SILENT, silent, "heartbeat_at"),
    ):
        told = asked.exclude_muted(check, rows, "table").order_by(F(began).desc(nulls_last=True))
        first, count = asked.first_of(told)
        some = [
            AttentionItem(
                check=check, table=job.table, job=redact_job(job, reader), since=getattr(job, began)
            )
            for job in first
        ]
        yield check, count, some


def find_waiting_jobs(asked: AttentionRequest) -> Iterator[CheckItems]:
    """One item, however many wait: the oldest of them."""
    late = visible_jobs(asked.user).filter(
        state=Job.State.QUEUED, finished_at__isnull=True, created_at__lt=asked.now - MAX_WAIT
    )  # that none has ended is what an index has them by
    told = asked.exclude_muted(AttentionCheck.JOBS_WAIT, late, "table")
    oldest = told.select_related("table").only(*_TOLD).order_by("created_at").first()
    if oldest is not None:
        facts = {"waiting": told.count(), "queue": oldest.queue}
        yield (
            AttentionCheck.JOBS_WAIT,
            1,
            [
                AttentionItem(
                    check=AttentionCheck.JOBS_WAIT,
                    table=oldest.table,
                    job=oldest,
                    since=oldest.created_at,
                    facts=facts,
                )
            ],
        )


def find_failing_schedules(asked: AttentionRequest) -> Iterator[CheckItems]:
    reader = Reader(asked.user)
    ended_badly = Q(last_job__state__in=[Job.State.FAILED, Job.State.CONFLICTED])
    failing = visible_schedules(asked.user).filter(ended_badly | ~Q(note=""), enabled=True)
    told = asked.exclude_muted(AttentionCheck.FAILING_SCHEDULE, failing, "table")
    rows = told.select_related("table", "last_job").order_by("-last_fired_at", "pk")
    rows = rows.only(
        "name", "kind", "parameters", "note", "next_due_at", "last_fired_at", "table__name", "last_job__kind",
        "last_job__parameters", "last_job__error_message",
    )  # fmt: skip
    first, count = asked.first_of(rows)
    some = [
        AttentionItem(
            check=AttentionCheck.FAILING_SCHEDULE,
            table=row.table,
            job=row.last_job and redact_job(row.last_job, reader),
            since=row.last_fired_at,
            facts={"schedule": row.name, "note": row.note, "next_due_at": row.next_due_at},
        )
        for row in (redact_schedule(schedule, reader) for schedule in first)
    ]
    yield AttentionCheck.FAILING_SCHEDULE, count, some


FINDERS: tuple[Finder, ...] = (
    (
        frozenset(
            {
                AttentionCheck.OUTCOME_UNKNOWN,
                AttentionCheck.FAILED_JOB,
                AttentionCheck.WORKER_SILENT,
            }
        ),
        find_ended_jobs,
    ),
    (frozenset({AttentionCheck.JOBS_WAIT}), find_waiting_jobs),
    (frozenset({AttentionCheck.FAILING_SCHEDULE}), find_failing_schedules),
)
