"""Find jobs that failed, wait or lost their worker, streams that stopped, and failing schedules."""

from collections import Counter
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from django.db.models import Count, Exists, F, Min, OuterRef, Q, QuerySet

from lakeui.catalog.command_tables import Reader
from lakeui.jobs.filters import visible_jobs, visible_schedules
from lakeui.jobs.models import Job
from lakeui.jobs.redaction import redact_job, redact_schedule
from lakeui.jobs.same_runs import fingerprint_of
from lakeui.jobs.stopped_streams import select_stopped_streams
from lakeui.monitoring.attention_items import AttentionItem, AttentionRequest, FoundItems
from lakeui.monitoring.conditions import Condition
from lakeui.monitoring.operations import stale_jobs

OUTCOME_UNKNOWN = "LAKE_COMMIT_OUTCOME_UNKNOWN"
_MOST_GROUPED = 1_000  # jobs, the latest
_SHOWN_FIELDS = ("kind", "parameters", "queue", "worker", "error_message", "created_at", "finished_at",
                 "heartbeat_at", "table__name")  # fmt: skip


def find_unknown_outcomes(request: AttentionRequest, days: int) -> FoundItems:
    """Find jobs whose commit may have landed, unless they ran again."""
    since = request.now - timedelta(days=days)
    jobs = _select_failed_jobs(request).filter(error_code=OUTCOME_UNKNOWN, finished_at__gte=since)
    return _find_jobs(request, Condition.OUTCOME_UNKNOWN, jobs, "finished_at")


def find_stopped_streams(request: AttentionRequest, days: int) -> FoundItems:
    """Find streams that ended in an error and were not started again."""
    jobs = select_stopped_streams(visible_jobs(request.user), request.now - timedelta(days=days))
    return _find_jobs(request, Condition.STREAM_STOPPED, jobs, "finished_at")


def find_failed_jobs(request: AttentionRequest, hours: int) -> FoundItems:
    """Find failed jobs, grouped by table, statement and error; the latest group first.

    A schedule's jobs belong to `find_failing_schedules`, streams to `find_stopped_streams`.
    """
    condition, since = Condition.FAILED_JOB, request.now - timedelta(hours=hours)
    jobs = _select_failed_jobs(request).filter(finished_at__gte=since)
    jobs = jobs.exclude(error_code=OUTCOME_UNKNOWN).exclude(kind="stream")
    jobs = jobs.filter(Q(schedule=None) | Q(schedule__enabled=False))
    rows = request.exclude_muted(condition, jobs, "table").order_by("-finished_at")
    columns = ("table_id", "kind", "statement", "error_code", "pk", "finished_at")
    groups: dict[tuple[int, str], list[Any]] = {}
    for table, kind, statement, code, *job in rows.values_list(*columns)[:_MOST_GROUPED]:
        groups.setdefault((table, fingerprint_of(kind, statement, code)), []).append(job)
    shown = list(groups.items())[: request.most]
    latest = _load_jobs(request, [failures[0][0] for _, failures in shown])
    items = [
        AttentionItem(
            condition=condition,
            table=job.table,
            job=job,
            since=failures[-1][1],
            facts={"failures": len(failures), "fingerprint": fingerprint},
        )
        for (_, fingerprint), failures in shown
        if (job := latest.get(failures[0][0])) is not None
    ]
    return items, len(groups)


def find_silent_workers(request: AttentionRequest, _threshold: int) -> FoundItems:
    """Find workers that let a job's lease expire; one item for each worker."""
    condition = Condition.WORKER_SILENT
    jobs = visible_jobs(request.user).filter(pk__in=stale_jobs().values("pk"))
    told = request.exclude_muted(condition, jobs, "table").order_by(
        F("heartbeat_at").desc(nulls_last=True)
    )
    rows = list(told.values_list("worker", "pk")[:_MOST_GROUPED])
    counts, first = Counter(worker for worker, _ in rows), dict(reversed(rows))
    workers = list(counts)[: request.most]
    jobs_by_id = _load_jobs(request, [first[worker] for worker in workers])
    items = [
        AttentionItem(
            condition=condition,
            table=job.table,
            job=job,
            since=job.heartbeat_at,
            facts={"worker": worker, "jobs": counts[worker]},
        )
        for worker in workers
        if (job := jobs_by_id.get(first[worker])) is not None
    ]
    return items, len(counts)


def find_waiting_jobs(request: AttentionRequest, minutes: int) -> FoundItems:
    """Find jobs that wait too long; one item for each queue, with its oldest job."""
    condition, since = Condition.JOBS_WAIT, request.now - timedelta(minutes=minutes)
    late = visible_jobs(request.user).filter(
        state=Job.State.QUEUED, finished_at__isnull=True, created_at__lt=since
    )  # that none has ended is what an index has them by
    told = request.exclude_muted(condition, late, "table")
    queues = told.order_by().values("queue").annotate(n=Count("pk"), since=Min("created_at"))
    counts = {row["queue"]: row["n"] for row in queues}
    firsts = told.filter(created_at__in=[row["since"] for row in queues]).order_by("-created_at")
    rows, reader = firsts.select_related("table").only(*_SHOWN_FIELDS), Reader(request.user)
    oldest = {job.queue: redact_job(job, reader) for job in rows}
    items = [
        AttentionItem(
            condition=condition,
            table=job.table,
            job=job,
            since=job.created_at,
            facts={"waiting": counts[queue], "queue": queue},
        )
        for queue, job in sorted(oldest.items(), key=lambda row: row[1].created_at)
    ]
    return items[: request.most], len(items)


def find_failing_schedules(request: AttentionRequest, _threshold: int) -> FoundItems:
    """Find schedules whose last job did not succeed, or that made none.

    A last job of unknown outcome is one item, of `find_unknown_outcomes`.
    """
    condition, reader = Condition.FAILING_SCHEDULE, Reader(request.user)
    ended_badly = Q(last_job__state__in=[Job.State.FAILED, Job.State.CONFLICTED])
    if not request.is_single:
        ended_badly &= ~Q(last_job__error_code=OUTCOME_UNKNOWN)
    failing = visible_schedules(request.user).filter(ended_badly | ~Q(note=""), enabled=True)
    told = request.exclude_muted(condition, failing, "table")
    rows = told.select_related("table", "last_job").order_by("-last_fired_at", "pk")
    rows = rows.only(
        "name", "kind", "parameters", "note", "next_due_at", "last_fired_at", "table__name", "last_job__kind",
        "last_job__parameters", "last_job__error_message",
    )  # fmt: skip
    first, count = request.first_of(rows)
    items = [
        AttentionItem(
            condition=condition,
            table=row.table,
            job=row.last_job and redact_job(row.last_job, reader),
            since=row.last_fired_at,
            facts={"schedule": row.name, "note": row.note, "next_due_at": row.next_due_at},
        )
        for row in (redact_schedule(schedule, reader) for schedule in first)
    ]
    return items, count


def _select_failed_jobs(request: AttentionRequest) -> QuerySet[Job]:
    again = Job.objects.filter(retry_of=OuterRef("pk"))
    return visible_jobs(request.user).filter(~Exists(again), state=Job.State.FAILED)


def _find_jobs(
    request: AttentionRequest, condition: Condition, jobs: QuerySet[Job], began: str
) -> FoundItems:
    """Find one item for each job, the latest first."""
    reader = Reader(request.user)
    told = request.exclude_muted(condition, jobs, "table").order_by(f"-{began}")
    first, count = request.first_of(told.select_related("table").only(*_SHOWN_FIELDS))
    items = [
        AttentionItem(
            condition=condition,
            table=job.table,
            job=redact_job(job, reader),
            since=getattr(job, began),
        )
        for job in first
    ]
    return items, count


def _load_jobs(request: AttentionRequest, pks: list[Any]) -> Mapping[Any, Job]:
    reader = Reader(request.user)
    rows = Job.objects.filter(pk__in=pks).select_related("table").only(*_SHOWN_FIELDS)
    return {job.pk: redact_job(job, reader) for job in rows}
