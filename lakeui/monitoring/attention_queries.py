"""Queries for what needs attention: conflicts, jobs, streams, schedules and tables.

Each function finds the items of one condition beyond its threshold, for the tables that a person
may see.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import islice
from typing import Any

from django.conf import settings
from django.db.models import Count, Exists, F, Min, OuterRef, Q, QuerySet

from engine.conflict_facts import Verdict
from engine.conflicts.decide.checker import FILE_RULES
from lakeui.catalog.access import may, role_of, visible_tables
from lakeui.catalog.command_tables import Reader
from lakeui.catalog.discovery import list_attention_tables
from lakeui.catalog.health import has_many_small_files, is_vacuum_due
from lakeui.catalog.hours import UtcHour, hour_named
from lakeui.catalog.models import HEAVY, Commit, Table
from lakeui.conflicts.eligibility.row_verdicts import row_verdicts
from lakeui.conflicts.models import Conflict, Erasure
from lakeui.jobs.earlier_runs import fingerprint_of
from lakeui.jobs.filters import redact_job, redact_schedule, visible_jobs, visible_schedules
from lakeui.jobs.models import Job
from lakeui.jobs.streams import select_stopped_streams
from lakeui.jobs.turns import BEAT_SILENCE
from lakeui.monitoring.attention_items import NONE, AttentionItem, AttentionRequest, FoundItems
from lakeui.monitoring.conditions import Condition
from lakeui.monitoring.operations import stale_jobs
from lakeui.monitoring.recent_conflicts import TableSums

OUTCOME_UNKNOWN = "LAKE_COMMIT_OUTCOME_UNKNOWN"
_MOST_GROUPED = 1_000  # jobs, the latest
_SHOWN_FIELDS = ("kind", "parameters", "queue", "worker", "error_message", "created_at", "finished_at",
                 "heartbeat_at", "table__name")  # fmt: skip

MANY_TABLES = 20
"""More tables than this that fail alike have one cause, and are one item."""

DAYS = 7
_HOURS = 24

_MONTH = timedelta(days=30)
_MS_A_MINUTE = 60_000
_HEAVY = [f"table__{name}" for name in HEAVY]
_JUDGED = 1  # tables, whose aborted writes are judged one by one


def find_outlived_erasures(request: AttentionRequest, days: int) -> FoundItems:
    """Find erasures that a worker found to be passed over: see `lakeui.conflicts.erasures`."""
    condition, since = Condition.REORDERED, request.now - timedelta(days=days)
    recent = Erasure.objects.filter(settled_by__isnull=True, at__gte=since)
    seen = (
        recent if role_of(request.user) else recent.filter(table__in=visible_tables(request.user))
    )
    told = request.exclude_muted(condition, seen, "table")
    first, count = request.first_of(
        told.select_related("table").defer(*_HEAVY).order_by("-at", "-id")
    )
    items = [
        AttentionItem(
            condition=condition,
            table=row.table,
            since=row.at,
            version=row.append_version,
            facts={
                "rows_at_most": row.rows_at_most,
                "delete_version": row.delete_version,
                "predicate": row.predicate,
                "append_writer": row.append_writer,
                "delete_writer": row.delete_writer,
            },
        )
        for row in first
    ]
    return items, count


def find_aborted_writes(request: AttentionRequest, writes: int) -> FoundItems:
    """Find tables with many aborted writes in 24 hours, the most first.

    Writes that one change of the metadata aborted are one item, of `find_costly_metadata_changes`.
    """
    condition = Condition.ABORTED
    figures = {pk: cost.aborted for pk, cost in _costs_of_day(request).items()}
    worst, count = _select_worst(request, condition, figures, writes)
    tables = request.tables_by_id(worst)
    month = _month_of(worst, request.now)
    judged = _measure_row_level_gain(tables[pk] for pk in worst if pk in tables)
    items = [
        AttentionItem(
            condition=condition,
            table=tables[pk],
            facts=_cost_facts(request, pk) | month.get(pk, {}) | judged.get(pk, {}),
        )
        for pk in worst
        if pk in tables
    ]
    return items, count


def find_wasted_time(request: AttentionRequest, minutes: int) -> FoundItems:
    """Find tables whose aborted writes wasted many minutes in 24 hours, the most first.

    A table with many aborted writes is one item, of `find_aborted_writes`. The time that one change
    of the metadata wasted is part of its item, of `find_costly_metadata_changes`.
    """
    condition, many = Condition.WASTED, settings.ATTENTION_ABORTED
    figures = {
        pk: cost.wasted_ms
        for pk, cost in _costs_of_day(request).items()
        if request.is_single or cost.aborted < many
    }
    worst, count = _select_worst(request, condition, figures, minutes * _MS_A_MINUTE)
    tables = request.tables_by_id(worst)
    items = [
        AttentionItem(condition=condition, table=tables[pk], facts=_cost_facts(request, pk))
        for pk in worst
        if pk in tables
    ]
    return items, count


def _costs_of_day(request: AttentionRequest) -> Mapping[int, TableSums]:
    """Return each table's aborted writes in 24 hours, without those of costly metadata changes.

    A request for a single condition counts them all.
    """
    if request.is_single:
        return request.aborted_by_table
    costs = dict(request.aborted_by_table)
    for (pk, _), changes in _list_costly_changes(request, settings.ATTENTION_METADATA_COST):
        cost, wasted_ms = costs.get(pk, TableSums()), sum(row["wasted_ms"] for row in changes)
        costs[pk] = replace(
            cost, aborted=cost.aborted - len(changes), wasted_ms=cost.wasted_ms - wasted_ms
        )
    return costs


def _select_worst(
    request: AttentionRequest, condition: Condition, figures: Mapping[int, int], threshold: int
) -> tuple[list[int], int]:
    """Return the tables whose figure reaches the threshold, and how many there are."""
    if request.muted.hides(condition):
        return [], 0
    hidden = set(request.muted.list_muted_tables(condition))
    least = max(threshold, 1)
    reached = [pk for pk, figure in figures.items() if figure >= least and pk not in hidden]
    return sorted(reached, key=lambda pk: (-figures[pk], pk))[: request.most], len(reached)


def _cost_facts(request: AttentionRequest, table_id: int) -> dict[str, int]:
    cost = request.aborted_by_table[table_id]
    return {"aborted": cost.aborted, "wasted_ms": cost.wasted_ms}


def _measure_row_level_gain(tables: Iterable[Table]) -> Mapping[int, dict[str, int]]:
    """Judge the first table without row-level concurrency as if it had been on."""
    without = (table for table in tables if not table.row_level_eligible)
    facts = {}
    for table in islice(without, _JUDGED):
        verdicts = row_verdicts(table)
        facts[table.pk] = {
            "judged_30_days": len(verdicts.conflicts),
            "would_pass_30_days": len(verdicts.filter_by_verdict(Verdict.PASSES)),
            "undecidable_30_days": len(verdicts.filter_by_verdict(Verdict.UNDECIDABLE)),
        }
    return facts


def _month_of(tables: Sequence[int], now: datetime) -> Mapping[int, dict[str, int]]:
    """Count the aborted writes of a few tables in 30 days, and those aborted at file level."""
    rows = (
        Conflict.objects.filter(
            table__in=tables or NONE, occurred_at__gte=now - _MONTH, kind__in=Conflict.ABORTED_KINDS
        )
        .order_by()
        .values_list("table_id")
        .annotate(n=Count("pk"), file_level=Count("pk", Q(rule__in=FILE_RULES)))
    )
    return {
        pk: {"aborted_30_days": n, "file_level_30_days": file_level} for pk, n, file_level in rows
    }


def find_costly_metadata_changes(request: AttentionRequest, writes: int) -> FoundItems:
    """Find commits that changed the metadata and aborted many writes in 24 hours."""
    condition = Condition.METADATA_COST
    if request.muted.hides(condition):
        return [], 0
    hidden = set(request.muted.list_muted_tables(condition))
    costly = [one for one in _list_costly_changes(request, writes) if one[0][0] not in hidden]
    shown = costly[: request.most]
    tables = request.tables_by_id({table for (table, _), _ in shown})
    quiet = quiet_hours(tables, request.now)
    items = [
        _metadata_cost(tables[table], version, changes, quiet.get(table))
        for (table, version), changes in shown
        if table in tables
    ]
    return items, len(costly)


def _list_costly_changes(
    request: AttentionRequest, writes: int
) -> list[tuple[tuple[int, int], list[Mapping[str, Any]]]]:
    """Return tables and versions with the conflicts they caused, those that wasted most first."""
    changes = request.metadata_conflicts.items()
    costly = [(key, conflicts) for key, conflicts in changes if len(conflicts) >= writes]
    return sorted(costly, key=lambda one: -sum(row["wasted_ms"] for row in one[1]))


def _metadata_cost(
    table: Table,
    version: int,
    aborted: Sequence[Mapping[str, Any]],
    quiet: tuple[int, int] | None,
) -> AttentionItem:
    first = aborted[0]
    return AttentionItem(
        condition=Condition.METADATA_COST,
        table=table,
        since=first["occurred_at"],
        version=version,
        facts={
            "aborted": len(aborted),
            "aborted_operations": sorted(row["current_operation"] for row in aborted),
            "winner_operation": first["winner_operation"],
            "winner_user_name": first["winner_user_name"],
            "wasted_ms": sum(row["wasted_ms"] for row in aborted),
            "wasted_bytes": sum(row["wasted_bytes"] for row in aborted),
            "quiet_hours_utc": list(quiet) if quiet else None,
        },
    )


def find_unknown_outcomes(request: AttentionRequest, days: int) -> FoundItems:
    """Find jobs whose commit may have landed, unless they ran again."""
    since = request.now - timedelta(days=days)
    jobs = _select_failed_jobs(request).filter(error_code=OUTCOME_UNKNOWN, finished_at__gte=since)
    return _find_jobs(request, Condition.OUTCOME_UNKNOWN, jobs)


def find_stopped_streams(request: AttentionRequest, days: int) -> FoundItems:
    """Find streams that ended in an error and were not started again."""
    jobs = select_stopped_streams(visible_jobs(request.user), request.now - timedelta(days=days))
    return _find_jobs(request, Condition.STREAM_STOPPED, jobs)


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


def find_silent_beat(request: AttentionRequest, _threshold: int) -> FoundItems:
    """Find a beat that ran here and is silent."""
    condition, seen_at = Condition.BEAT_SILENT, request.beat_seen_at
    is_told = not request.muted.hides(condition) and may(request.user, "view")
    if seen_at is None or seen_at > request.now - BEAT_SILENCE or not is_told:
        return [], 0
    return [AttentionItem(condition=condition, since=seen_at)], 1


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


def _find_jobs(request: AttentionRequest, condition: Condition, jobs: QuerySet[Job]) -> FoundItems:
    """Find one item for each job, the latest first."""
    reader = Reader(request.user)
    told = request.exclude_muted(condition, jobs, "table").order_by("-finished_at")
    first, count = request.first_of(told.select_related("table").only(*_SHOWN_FIELDS))
    items = [
        AttentionItem(
            condition=condition,
            table=job.table,
            job=redact_job(job, reader),
            since=job.finished_at,
        )
        for job in first
    ]
    return items, count


def _load_jobs(request: AttentionRequest, pks: list[Any]) -> Mapping[Any, Job]:
    reader = Reader(request.user)
    rows = Job.objects.filter(pk__in=pks).select_related("table").only(*_SHOWN_FIELDS)
    return {job.pk: redact_job(job, reader) for job in rows}


def find_unreadable_tables(request: AttentionRequest, _threshold: int) -> FoundItems:
    """Find tables whose last sync failed; one item for many with the same error."""
    tables = visible_tables(request.user).exclude(mirror_error_code="").order_by("name")
    facts = ("mirror_error_code", "mirror_error", "mirror_tries", "version")
    return _find_by_cause(request, Condition.UNREACHABLE, tables, facts, "mirror_failed_at")


def find_small_files(request: AttentionRequest, few: int) -> FoundItems:
    """Find readable tables with mostly small files, those with the most first."""
    tables = visible_tables(request.user).filter(has_many_small_files(few), mirror_error_code="")
    facts = ("small_file_count", "file_count", "last_optimize_at")
    ordered = tables.order_by("-small_file_count", "name")
    return _find_tables(request, Condition.SMALL_FILES, ordered, facts)


def find_vacuum_due(request: AttentionRequest, _threshold: int) -> FoundItems:
    """Find readable tables that VACUUM would make much smaller now, the largest gain first."""
    tables = visible_tables(request.user).filter(is_vacuum_due(), mirror_error_code="")
    facts = ("vacuum_bytes", "vacuum_file_count", "last_vacuum_at")
    ordered = tables.order_by("-vacuum_bytes", "name")
    return _find_tables(request, Condition.VACUUM_DUE, ordered, facts)


def find_quiet_tables(request: AttentionRequest, minutes: int) -> FoundItems:
    """Find tables not synced for `minutes`; one item if many are late at once."""
    since = request.now - timedelta(minutes=minutes)
    late = visible_tables(request.user).filter(mirror_error_code="", mirrored_at__lt=since)
    ordered = late.order_by("mirrored_at")
    return _find_by_cause(request, Condition.MIRROR_QUIET, ordered, ("version",), "mirrored_at")


def _find_by_cause(
    request: AttentionRequest,
    condition: Condition,
    tables: QuerySet[Table],
    facts: tuple[str, ...],
    began: str,
) -> FoundItems:
    """Find one item for each error that many tables have in common, and for each other table."""
    told = request.exclude_muted(condition, tables, "pk")
    causes = told.order_by().values("mirror_error_code").annotate(n=Count("pk"), since=Min(began))
    common = {row["mirror_error_code"]: row for row in causes if row["n"] > MANY_TABLES}
    together = [
        AttentionItem(
            condition=condition,
            since=row["since"],
            facts={"tables": row["n"], "mirror_error_code": code},
        )
        for code, row in common.items()
    ]
    others = tables.exclude(mirror_error_code__in=common)
    items, count = _find_tables(request, condition, others, facts, began)
    return (together + items)[: request.most], len(together) + count


def _find_tables(
    request: AttentionRequest,
    condition: Condition,
    tables: QuerySet[Table],
    facts: tuple[str, ...],
    began: str = "",
) -> FoundItems:
    told = request.exclude_muted(condition, tables.defer(*HEAVY), "pk")
    first, count = request.first_of(told)
    items = [
        AttentionItem(
            condition=condition,
            table=table,
            since=getattr(table, began) if began else None,
            facts={name: getattr(table, name) for name in facts},
        )
        for table in first
    ]
    return items, count


def find_new_tables(request: AttentionRequest, _threshold: int) -> FoundItems:
    """Find the searches with unregistered tables, those with the most first."""
    condition = Condition.NEW_TABLES
    if request.muted.hides(condition) or not may(request.user, "maintain"):
        return [], 0
    by_search = list_attention_tables().order_by().values_list("discovery_id", "discovery__root")
    rows = list(
        by_search.annotate(n=Count("pk"), since=Min("found_at")).order_by("-n", "discovery_id")
    )
    items = [
        AttentionItem(
            condition=condition,
            since=since,
            facts={"discovery_id": pk, "root": root, "new_tables": count},
        )
        for pk, root, count, since in rows[: request.most]
    ]
    return items, len(rows)


def quiet_hours(tables: Collection[int], now: datetime) -> Mapping[int, tuple[int, int]]:
    """Return the longest span without a commit in 7 days of a few tables, in UTC hours: (4, 6).

    A table that is written to at every hour, or at none, has no such span.
    """
    recent = Commit.objects.filter(
        table__in=tables or (0,), committed_at__gte=now - timedelta(DAYS)
    )
    busy: dict[int, set[int]] = {}
    hours = recent.annotate(hour=UtcHour("committed_at")).order_by()
    for table, hour in hours.values_list("table_id", "hour").distinct():
        busy.setdefault(table, set()).add(hour_named(hour).hour)
    spans = {table: _longest(hours) for table, hours in busy.items()}
    return {table: span for table, span in spans.items() if span is not None}


def _longest(busy: Iterable[int]) -> tuple[int, int] | None:
    """Round the clock: a span may begin before midnight and end after it."""
    ordered = sorted(busy)
    gaps = [
        ((later - hour - 1) % _HOURS, (hour + 1) % _HOURS, later)
        for hour, later in zip(ordered, [*ordered[1:], ordered[0]], strict=True)
    ]
    length, begin, end = max(gaps)
    return (begin, end) if length else None
