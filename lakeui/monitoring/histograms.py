"""Durations as histograms: counted from the rows, so that every web process reports the same.

Rows of ended objects do not change, so the buckets only grow until a table is unregistered.
"""

from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any

from django.db.models import Count, DurationField, ExpressionWrapper, F, Q, QuerySet, Sum
from prometheus_client.core import HistogramMetricFamily, Metric

from lakeui.jobs.models import Job, JobAttempt, JobStage

BUCKETS_S = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0, 7200.0)
CHECK_STAGE, COMMIT_STAGE = "check", "commit"  # as workers call them
_LABELS = ["operation", "outcome"]


def histograms() -> Iterator[Metric]:
    """Yield histograms of commits, conflict checks, jobs and queue times, without dry runs."""
    yield _stage_metric(
        "lakeui_commit_duration_seconds",
        "Writing a version to the log, all tries of an attempt.",
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
