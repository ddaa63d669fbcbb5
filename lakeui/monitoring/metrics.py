"""Prometheus metrics, computed from the database when they are scraped.

Nothing is counted in memory, so any number of web processes answers alike, and a restart loses
nothing. Durations are histograms counted from the rows of ended objects, which do not change: the
buckets only grow until a table is unregistered. A conflict is an outcome, not an error: alert on
rates of aborted ones, not on single ones.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import timedelta
from typing import Any

from django.db.models import Count, DurationField, ExpressionWrapper, F, Q, QuerySet, Sum
from django.utils import timezone
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from lakeui.catalog.models import Table
from lakeui.conflicts.models import Conflict
from lakeui.jobs.models import Job, JobAttempt, JobStage
from lakeui.jobs.turns import beat_seen_at
from lakeui.managed.models import ManagedTable
from lakeui.monitoring.alerting.watch import MOST, SYSTEM
from lakeui.monitoring.attention import attention
from lakeui.monitoring.deliveries import outboxes
from lakeui.monitoring.mutes import group_mutes, mutes_now
from lakeui.monitoring.operations import queues, stale_jobs, workers
from lakeui.monitoring.recent_conflicts import day_of
from lakeui.task_names import LIGHT_QUEUE, READS_QUEUE, SPARK_QUEUE

BUCKETS_S = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0, 7200.0)
CHECK_STAGE, COMMIT_STAGE = "check", "commit"  # as workers call them
_LABELS = ["operation", "outcome"]

TABLE_GAUGES = {
    "version": ("version", "Latest mirrored version."),
    "files": ("file_count", "Live files."),
    "size_bytes": ("size_bytes", "Bytes of live files."),
    "small_files": ("small_file_count", "Live files below the small-file size."),
    "deleted_rows": ("deleted_row_count", "Rows that deletion vectors mark as deleted."),
}
"""By name: the table's field, and the help text. Only names of histograms end in `_count`."""
_RECORDED = "Seconds since the last recorded "
AGES = {
    "last_commit_at": ("lakeui_table_seconds_since_commit", f"{_RECORDED}commit."),
    "last_optimize_at": ("lakeui_table_seconds_since_optimize", f"{_RECORDED}optimize."),
    "last_vacuum_at": ("lakeui_table_seconds_since_vacuum", f"{_RECORDED}vacuum."),
    "mirrored_at": ("lakeui_mirror_lag_seconds", "Seconds since the mirror last read the log."),
}
"""By the table's field: the gauge of its age, and the help text."""


def exposition() -> bytes:
    """Return all metrics in Prometheus' text format."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(LakeCollector())
    return generate_latest(registry)


class LakeCollector(Collector):
    """Every metric, in a constant number of queries."""

    def describe(self) -> Iterable[Metric]:
        """Describe nothing ahead of time: the database may not exist yet."""
        return []

    def collect(self) -> Iterator[Metric]:
        yield from _transactions()
        yield from _conflicts()
        yield from _cost()
        yield from _tables()
        yield from _jobs()
        yield _attention_items()
        yield from _outboxes()
        yield from _catalog()
        yield from histograms()


def _transactions() -> Iterator[Metric]:
    family = CounterMetricFamily(
        "lakeui_transactions",
        "Attempts to commit by outcome. Resolved attempts also count as committed.",
        labels=["table", "outcome"],
    )
    attempts = JobAttempt.objects.filter(job__dry_run=False).values(name=F("job__table__name"))
    ended = attempts.annotate(
        committed=Count("id", filter=Q(outcome=JobAttempt.Outcome.COMMITTED)),
        aborted=Count("id", filter=Q(outcome=JobAttempt.Outcome.CONFLICTED)),
        failed=Count(
            "id", filter=Q(outcome__in=[JobAttempt.Outcome.FAILED, JobAttempt.Outcome.LOST])
        ),
    ).order_by("name")
    for row in ended:
        for outcome in ("committed", "aborted", "failed"):
            family.add_metric([row["name"], outcome], row[outcome])
    resolved_counts = (
        Conflict.objects.filter(kind=Conflict.Kind.RESOLVED, table__isnull=False)
        .values(name=F("table__name"))
        .annotate(count=Count("job_id", distinct=True))
        .order_by("name")
    )
    for resolved in resolved_counts:
        family.add_metric([resolved["name"], "resolved"], resolved["count"])
    yield family


def _conflicts() -> Iterator[Metric]:
    labels = ["kind", "code", "subclass", "current_operation", "winner_operation"]
    family = CounterMetricFamily(
        "lakeui_conflicts", "Conflicts by class, sub-class and pair of operations.", labels=labels
    )
    for row in Conflict.objects.values(*labels).annotate(count=Count("id")).order_by(*labels):
        family.add_metric([row[label] for label in labels], row["count"])
    yield family


def _cost() -> Iterator[Metric]:
    retries = CounterMetricFamily("lakeui_retries", "Attempts after the first.", labels=["table"])
    repeated = JobAttempt.objects.filter(number__gt=1).values(name=F("job__table__name"))
    for row in repeated.annotate(count=Count("id")).order_by("name"):
        retries.add_metric([row["name"]], row["count"])
    yield retries
    seconds = CounterMetricFamily(
        "lakeui_wasted_seconds", "Work wasted by aborted writes.", labels=["table"]
    )
    size = CounterMetricFamily(
        "lakeui_wasted_bytes", "Bytes written by aborted writes.", labels=["table"]
    )
    aborted = Conflict.objects.filter(kind=Conflict.Kind.ABORTED, table__isnull=False)
    sums = aborted.values(name=F("table__name")).annotate(
        ms=Sum("wasted_ms"), bytes=Sum("wasted_bytes")
    )
    for waste in sums.order_by("name"):
        seconds.add_metric([waste["name"]], (waste["ms"] or 0) / 1000)
        size.add_metric([waste["name"]], waste["bytes"] or 0)
    yield seconds
    yield size


def _tables() -> Iterator[Metric]:
    """Yield the gauges of tables, by plain rows: models of thousands of tables take a second."""
    now = timezone.now()
    columns = (*(field for field, _ in TABLE_GAUGES.values()), *AGES, "mirror_error_code")
    tables = list(Table.objects.order_by("name").values("name", *columns))
    for name, (field, words) in TABLE_GAUGES.items():
        values = ((table["name"], table[field]) for table in tables)
        yield _table_gauge(f"lakeui_table_{name}", words, values)
    for field, (name, words) in AGES.items():
        ages = (
            (table["name"], table[field] and max(0.0, (now - table[field]).total_seconds()))
            for table in tables
        )
        yield _table_gauge(name, words, ages)
    failed = GaugeMetricFamily(
        "lakeui_mirror_failed", "1 if the log cannot be read.", labels=["table", "code"]
    )
    for table in tables:
        if table["mirror_error_code"]:
            failed.add_metric([table["name"], table["mirror_error_code"]], 1)
    yield failed


def _table_gauge(name: str, words: str, values: Iterable[tuple[str, float | None]]) -> Metric:
    family = GaugeMetricFamily(name, words, labels=["table"])
    for table, value in values:
        if value is not None:
            family.add_metric([table], value)
    return family


def _jobs() -> Iterator[Metric]:
    jobs = GaugeMetricFamily("lakeui_jobs", "Jobs by kind and state.", labels=["kind", "state"])
    counted = Job.objects.values("kind", "state").annotate(count=Count("id"))
    for row in counted.order_by("kind", "state"):
        jobs.add_metric([row["kind"], row["state"]], row["count"])
    yield jobs
    depth = GaugeMetricFamily("lakeui_queue_depth", "Waiting jobs.", labels=["queue"])
    oldest = GaugeMetricFamily(
        "lakeui_queue_oldest_seconds", "Age of the oldest waiting job.", labels=["queue"]
    )
    now = timezone.now()
    for queue in queues():
        depth.add_metric([queue.name], queue.waiting)
        waited = (now - queue.oldest_waiting_at).total_seconds() if queue.oldest_waiting_at else 0
        oldest.add_metric([queue.name], waited)
    yield depth
    yield oldest
    stale = GaugeMetricFamily("lakeui_jobs_stale", "Running jobs whose lease ran out.")
    stale.add_metric([], stale_jobs().count())
    yield stale
    yield _workers()
    if (seen_at := beat_seen_at()) is not None:
        silence = GaugeMetricFamily(
            "lakeui_beat_silence_seconds", "Since beat's last sign of life."
        )
        silence.add_metric([], (now - seen_at).total_seconds())
        yield silence


def _attention_items() -> Metric:
    """Count what needs attention, as the overview has it."""
    now = timezone.now()
    told = attention(SYSTEM, now, day_of(SYSTEM, now), group_mutes(mutes_now(now)), MOST)
    family = GaugeMetricFamily(
        "lakeui_attention_items",
        "What needs attention and is not muted. The label table is empty if an item has no table.",
        labels=["condition", "table"],
    )
    counts = Counter(
        (worded.item.condition.value, worded.item.table.name if worded.item.table else "")
        for worded in told.items
    )
    for condition, count in told.counts.items():
        listed = sum(n for (name, _), n in counts.items() if name == condition)
        if count > listed:  # beyond those that are read
            counts[condition.value, ""] += count - listed
    for labels, count in sorted(counts.items()):
        family.add_metric(labels, count)
    return family


def _outboxes() -> Iterator[Metric]:
    waiting = GaugeMetricFamily(
        "lakeui_outbox_waiting", "Alerts and lineage events to deliver.", labels=["outbox"]
    )
    oldest = GaugeMetricFamily(
        "lakeui_outbox_oldest_seconds", "Age of the oldest waiting delivery.", labels=["outbox"]
    )
    now = timezone.now()
    for outbox in outboxes():
        waiting.add_metric([outbox.name], outbox.waiting)
        age = (now - outbox.oldest_at).total_seconds() if outbox.oldest_at else 0
        oldest.add_metric([outbox.name], age)
    yield waiting
    yield oldest


def _catalog() -> Iterator[Metric]:
    commits = CounterMetricFamily(
        "lakeui_catalog_commits",
        "Commits that clients proposed to the catalog, by its answer.",
        labels=["table", "outcome"],
    )
    unpublished = GaugeMetricFamily(
        "lakeui_catalog_unpublished_commits",
        "Ratified commits that are not in the log yet.",
        labels=["table"],
    )
    columns = ("full_name", "latest_version", "published_version", "refused_count")
    tables = ManagedTable.objects.filter(dropped_at=None).order_by("full_name")
    for name, latest, published, refused in tables.values_list(*columns):
        commits.add_metric([name, "ratified"], max(latest, 0))
        commits.add_metric([name, "refused"], refused)
        unpublished.add_metric([name], max(latest, 0) - max(published, 0))
    yield commits
    yield unpublished


def _workers() -> Metric:
    family = GaugeMetricFamily("lakeui_workers", "Workers that respond.", labels=["queue"])
    answering = [worker.queue for worker in workers() if worker.answers]
    for queue in sorted({LIGHT_QUEUE, READS_QUEUE, SPARK_QUEUE, *answering}):
        family.add_metric([queue], answering.count(queue))
    return family


def histograms() -> Iterator[Metric]:
    """Yield histograms of commits, conflict checks, jobs and queue times, without dry runs."""
    yield _stage_metric(
        "lakeui_commit_duration_seconds",
        "Writing a version to the log, including all tries of an attempt.",
        COMMIT_STAGE,
    )
    yield _stage_metric(
        "lakeui_conflict_check_seconds",
        "Checking an attempt against concurrent commits, and resolving conflicts at row level.",
        CHECK_STAGE,
    )
    ended = Job.objects.filter(dry_run=False, started_at__isnull=False, finished_at__isnull=False)
    labeled = ended.annotate(operation=F("kind"), outcome=F("state"))
    yield _span_metric(
        "lakeui_job_duration_seconds",
        "From the first worker that took a job to its end.",
        labeled.annotate(span=_span_expression("started_at", "finished_at")),
    )
    yield _span_metric(
        "lakeui_job_queue_seconds",
        "From the request of a job to the first worker that took it.",
        labeled.annotate(span=_span_expression("created_at", "started_at")),
    )


def _stage_metric(name: str, words: str, stage: str) -> Metric:
    stages = JobStage.objects.filter(
        name=stage, finished_at__isnull=False, attempt__job__dry_run=False
    ).exclude(attempt__outcome=JobAttempt.Outcome.RUNNING)
    labeled = stages.annotate(operation=F("attempt__job__kind"), outcome=F("attempt__outcome"))
    return _family(name, words, labeled, "took_ms", {le: round(le * 1000) for le in BUCKETS_S})


def _span_metric(name: str, words: str, labeled: QuerySet[Any]) -> Metric:
    return _family(name, words, labeled, "span", {le: timedelta(seconds=le) for le in BUCKETS_S})


def _family(
    name: str, words: str, labeled: QuerySet[Any], column: str, bounds: Mapping[float, object]
) -> Metric:
    """Count those within each bound, and sum, by labels: one query."""
    within = {
        f"le_{place}": Count("pk", Q(**{f"{column}__lte": bound}))
        for place, bound in enumerate(bounds.values())
    }
    grouped = labeled.order_by().values(*_LABELS).annotate(**within, n=Count("pk"), all=Sum(column))
    family = HistogramMetricFamily(name, words, labels=_LABELS)
    for row in grouped.order_by(*_LABELS):
        buckets = [(str(le), row[f"le_{place}"]) for place, le in enumerate(bounds)]
        buckets.append(("+Inf", row["n"]))
        family.add_metric([row[label] for label in _LABELS], buckets, _seconds(row["all"]))
    return family


def _seconds(total: timedelta | int | None) -> float:
    if isinstance(total, timedelta):
        return max(0.0, total.total_seconds())
    return (total or 0) / 1000


def _span_expression(begin: str, end: str) -> "ExpressionWrapper[Any]":
    return ExpressionWrapper(F(end) - F(begin), output_field=DurationField())
