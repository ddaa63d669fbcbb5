"""The context of a job's page: its steps, attempts, cost, metrics and competing writes.

A run is compared with the last runs of the same statement, in words and bars.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db.models import Count
from django.http import Http404, HttpRequest
from django.utils import timezone

from engine.clock import surely_ms
from engine.commands.model import Create
from engine.errors import EngineError
from engine.protocol.properties import TableProperties
from lakeui.catalog.access import action_for_kind, may
from lakeui.catalog.command_tables import Reader
from lakeui.catalog.units import MINUS, format_bytes, format_count, format_duration
from lakeui.conflicts.filters import visible_conflicts
from lakeui.conflicts.models import Conflict
from lakeui.jobs.earlier_runs import (
    AS_USUAL,
    WASTED_ATTEMPTS,
    Measure,
    PartDifference,
    RunDifference,
    RunFacts,
    comparison_of,
)
from lakeui.jobs.filters import redact_job
from lakeui.jobs.models import Job, JobAttempt, JobEvent, JobStage, WorkerReport
from lakeui.jobs.timeline import Cost, JobTimeline, PartKind, RunCost, cost_of, timeline_of
from lakeui.monitoring.outlook import outlook_of, rerun_of
from lakeui.monitoring.worker_state import spark_pages
from lakeui.pages.jobs.gantt import LABELS, StageTable, draw_gantt, log_groups, stage_table
from lakeui.pages.jobs.plans import plan_view
from lakeui.pages.jobs.run_steps import field_of, label_of, steps_of

LOG_LINES = 500
_ATTEMPTS = 50
_RERUNS = 5

_SHOWN_PARTS = 6
_SHOWN_MS = 50
_MUCH_MORE, _MUCH_LESS = 1.25, 0.8
_MEASURES = {
    "row_count": "Rows changed",
    "bytes_read": "Read",
    "bytes_written": "Written",
    "attempts": "Attempts",
}

_WORD = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+")
_FIRST = (
    "numSourceRows",
    "numOutputRows",
    "numTargetRowsInserted",
    "numTargetRowsUpdated",
    "numUpdatedRows",
    "numTargetRowsDeleted",
    "numDeletedRows",
    "numCopiedRows",
    "numTargetRowsCopied",
)
_NAMES = {
    "numSourceRows": "Source rows",
    "numOutputRows": "Rows written",
    "numTargetRowsInserted": "Inserted",
    "numTargetRowsUpdated": "Matched, updated",
    "numTargetRowsMatchedUpdated": "Updated where matched",
    "numTargetRowsNotMatchedBySourceUpdated": "Updated where not matched by source",
    "numTargetRowsDeleted": "Deleted",
    "numTargetRowsMatchedDeleted": "Deleted where matched",
    "numTargetRowsNotMatchedBySourceDeleted": "Deleted where not matched by source",
    "numTargetRowsCopied": "Unchanged rows copied",
    "numUpdatedRows": "Updated",
    "numDeletedRows": "Deleted",
    "numCopiedRows": "Unchanged rows copied",
    "numTargetFilesAdded": "Files added",
    "numTargetFilesRemoved": "Files removed",
    "numTargetBytesAdded": "Bytes added",
    "numTargetBytesRemoved": "Bytes removed",
    "numTargetChangeFilesAdded": "Change files added",
    "numAddedChangeFiles": "Change files added",
    "numDroppedRows": "Rows dropped",
    "executionTimeMs": "Execution time, as logged",
    "scanTimeMs": "Finding rows took",
    "rewriteTimeMs": "Writing took",
    "materializeSourceTimeMs": "Reading the source took",
    "sizeOfDataToDelete": "Size to delete",
    "numFilesToDelete": "Files to delete",
    "numVacuumedDirectories": "Folders checked",
}
_BYTES = ("bytes", "size", "totalsize", "sizeofdatatodelete")


@dataclass(frozen=True, slots=True)
class AttemptRow:
    """`waited_ms` is from the end of the attempt before."""

    attempt: JobAttempt
    conflict: Conflict | None
    waited_ms: int | None


@dataclass(frozen=True, slots=True)
class CostLine:
    """One kind of cost, with the filter that formats it."""

    label: str
    unit: str
    useful: int | None
    wasted: int | None


def job_context(request: HttpRequest, job: Job) -> dict[str, Any]:
    """Return the whole context, in a constant number of queries."""
    reader = Reader(request.user)
    may_read = reader.may_read(job)
    recorded = visible_conflicts(request.user).filter(job=job)
    conflicts = list(recorded.defer("facts").order_by("attempt", "pk")[:_ATTEMPTS])
    attempts = list(job.attempt_rows.order_by("-number")[:_ATTEMPTS])
    if not may_read:
        _withhold_messages(attempts)
    picked = _select_attempt(request, attempts)
    stages_by_attempt = _stages(attempts)
    stages = stages_by_attempt.get(picked.pk, []) if picked else []
    timeline = timeline_of(job, attempts, stages_by_attempt)
    log = _log(request, job, may_read=may_read)
    groups = log_groups(log["events"], timeline)
    steps = steps_of(job, picked, stages, _list_expected_steps(job))
    cost = cost_of(attempts, dry_run=job.dry_run)
    return (
        log
        | _rights(request, job, may_read=may_read)
        | {
            "job": redact_job(job, reader),
            "may_read": may_read,
            "table": None,
            "attempts": list(_rows(attempts, conflicts)),
            "picked": picked,
            "is_latest": not attempts or picked is attempts[0],
            "steps": steps,
            "field": field_of(job, steps) if picked and picked is attempts[0] else None,
            "recorded_stages": stages,
            "spark_stages": _spark_stages(request, timeline, picked),
            "gantt": draw_gantt(timeline, picked.number if picked else None),
            "compared": compare_runs(job, timeline),
            "log_groups": groups,
            "log_anchors": {group.anchor for group in groups if group.anchor},
            "outlook": outlook_of(job, attempts[0] if attempts else None),
            "resolved": [c for c in conflicts if c.kind == Conflict.Kind.RESOLVED],
            "cost": cost,
            "cost_lines": _lines(cost),
            "left_behind": _find_leftovers(job, attempts),
            "worker": _worker(job),
            "metrics": readable_metrics(job.metrics),
            "plan": plan_view(job.plan) if may_read else None,
            "follow_ups": sorted(
                job.follow_ups.order_by()[:_RERUNS], key=lambda step: step.created_at
            ),
            "now": timezone.now(),
            "twin": f"/api/v1/jobs/{job.pk}/",
        }
        | rerun_context(request, job, may_read=may_read)
    )


def rerun_context(request: HttpRequest, job: Job, *, may_read: bool) -> dict[str, Any]:
    """Return the outlook of running it again, and its reruns, latest first."""
    may_run = may_read and may(request.user, action_for_kind(job.kind, job.parameters), job.table)
    return {
        "rerun": rerun_of(job) if may_run and not settings.READ_ONLY else None,
        "reruns": list(job.reruns.select_related("requested_by").order_by("-created_at")[:_RERUNS]),
    }


def _spark_stages(
    request: HttpRequest, timeline: JobTimeline, picked: JobAttempt | None
) -> StageTable | None:
    spans = (span for span in timeline.attempts if span.attempt is picked)
    pages = spark_pages(request.user, picked.spark_application) if picked else None
    return stage_table(next(spans, None), pages)


def _select_attempt(request: HttpRequest, attempts: Sequence[JobAttempt]) -> JobAttempt | None:
    """Return the attempt in the address, else the latest."""
    number = request.GET.get("attempt", "")
    if not number:
        return attempts[0] if attempts else None
    numbered = [attempt for attempt in attempts if str(attempt.number) == number]
    if not numbered:
        msg = "This attempt does not exist."
        raise Http404(msg)
    return numbered[0]


def _rows(attempts: Sequence[JobAttempt], conflicts: Sequence[Conflict]) -> Iterator[AttemptRow]:
    aborted = {c.attempt: c for c in conflicts if c.kind == Conflict.Kind.ABORTED}
    for number, attempt in enumerate(attempts):
        before = attempts[number + 1] if number + 1 < len(attempts) else None
        ended = before.finished_at if before else None
        waited = (attempt.started_at - ended).total_seconds() * 1000 if ended else None
        yield AttemptRow(
            attempt, aborted.get(attempt.number), None if waited is None else max(int(waited), 0)
        )


def _stages(attempts: Sequence[JobAttempt]) -> dict[int, list[JobStage]]:
    """Return the steps of each attempt by its key: one query."""
    by_attempt: dict[int, list[JobStage]] = {attempt.pk: [] for attempt in attempts}
    for stage in JobStage.objects.filter(attempt__in=by_attempt).order_by("attempt", "place"):
        by_attempt[stage.attempt_id].append(stage)
    return by_attempt


def _list_expected_steps(job: Job) -> list[str]:
    """List the steps of the last run of its kind on the table."""
    if not job.is_active or job.dry_run:
        return []
    alike = Job.objects.filter(
        table=job.table, kind=job.kind, state=Job.State.SUCCEEDED, dry_run=False
    )
    last = alike.order_by("-finished_at").values("pk")[:1]
    rows = JobStage.objects.filter(
        attempt__job__in=last, attempt__outcome=JobAttempt.Outcome.COMMITTED
    )
    return list(rows.order_by("place").values_list("name", flat=True))


def _log(request: HttpRequest, job: Job, *, may_read: bool) -> dict[str, Any]:
    level = request.GET.get("level", "")
    if level and level not in JobEvent.Level.values:
        msg = "Unknown log level."
        raise Http404(msg)
    told = job.events if may_read else JobEvent.objects.none()
    counted = told.order_by().values_list("level").annotate(n=Count("pk"))
    levels = dict(counted)
    events = told.order_by("-at", "-pk")
    events = events.filter(level=level) if level else events
    return {
        "events": list(events[:LOG_LINES])[::-1],
        "level": level,
        "levels": levels,
        "line_count": levels.get(level, 0) if level else sum(levels.values()),
    }


def _rights(request: HttpRequest, job: Job, *, may_read: bool) -> dict[str, bool]:
    mine = job.requested_by_id == request.user.pk
    may_act = may(request.user, action_for_kind(job.kind, job.parameters), job.table)
    return {
        "may_cancel": job.is_active and not job.cancel_requested_at and (mine or may_act),
        "may_again": may_act and may_read and bool(job.statement) and job.kind != Create.kind,
    }


def _withhold_messages(attempts: Sequence[JobAttempt]) -> None:
    """Clear messages that may name hidden tables; the rows stay as they are."""
    for attempt in attempts:
        attempt.message = ""


def _lines(cost: RunCost) -> list[CostLine]:
    def line(label: str, unit: str, name: str) -> CostLine:
        return CostLine(label, unit, getattr(cost.useful, name), getattr(cost.wasted, name))

    return [
        line("Wall clock", "ms", "wall_ms"),
        line("Core time", "ms", "core_ms"),
        line("Read", "bytes", "bytes_read"),
        line("Written", "bytes", "bytes_written"),
        line("Shuffled", "bytes", "bytes_shuffled"),
    ]


@dataclass(frozen=True, slots=True)
class LeftoverFiles:
    """Files of unsuccessful attempts; `vacuum_from` if their worker fell silent."""

    cost: Cost
    vacuum_from: datetime | None


def _find_leftovers(job: Job, attempts: Sequence[JobAttempt]) -> LeftoverFiles | None:
    wasted = cost_of(attempts, dry_run=job.dry_run).wasted
    if not wasted.bytes_written:
        return None
    silent = [
        attempt.finished_at
        for attempt in attempts
        if attempt.outcome == JobAttempt.Outcome.LOST and attempt.finished_at is not None
    ]
    kept = _retention(job)
    return LeftoverFiles(wasted, max(silent) + kept if silent and kept else None)


def _retention(job: Job) -> timedelta | None:
    try:
        properties = TableProperties.parse(
            {str(name): str(value) for name, value in (job.table.properties or {}).items()}
        )
    except EngineError:
        return None
    return timedelta(milliseconds=surely_ms(properties.deleted_file_retention_ms))


def _worker(job: Job) -> WorkerReport | None:
    """Return the last report of the job's worker, while the job runs there."""
    if not job.is_active or not job.worker:
        return None
    return WorkerReport.objects.filter(name=job.worker.partition("/")[0]).first()


@dataclass(frozen=True, slots=True)
class PartRow:
    """Widths in per cent of the longest bar of all."""

    label: str
    this_ms: int
    usual_ms: int
    more: str
    this_width: float
    usual_width: float


@dataclass(frozen=True, slots=True)
class MeasureRow:
    label: str
    this: str
    usual: str
    words: str


@dataclass(frozen=True, slots=True)
class RunRow:
    run: RunFacts
    is_this: bool
    width: float


@dataclass(frozen=True, slots=True)
class RunComparison:
    """A comparison; `headline` is the verdict with its figure, `because` a sentence on why."""

    comparison: RunDifference
    headline: str
    because: str
    parts: tuple[PartRow, ...]
    measures: tuple[MeasureRow, ...]
    runs: tuple[RunRow, ...]


def compare_runs(job: Job, timeline: JobTimeline) -> RunComparison | None:
    """Return the comparison; None without an earlier run."""
    comparison = comparison_of(job, timeline)
    if comparison is None:
        return None
    runs = (comparison.this, *comparison.runs)
    longest = max(max(run.total_ms for run in runs), 1)
    return RunComparison(
        comparison,
        _headline(comparison, is_active=job.is_active),
        _explain_difference(comparison),
        tuple(_part_rows(comparison)),
        tuple(_measure_row(measure) for measure in comparison.measures),
        tuple(RunRow(run, not n, 100 * run.total_ms / longest) for n, run in enumerate(runs)),
    )


def _headline(comparison: RunDifference, *, is_active: bool) -> str:
    if comparison.verdict == AS_USUAL:
        return "not longer than usual so far" if is_active else "as long as usual"
    by = format_duration(abs(comparison.more_ms))
    return f"{by} {comparison.verdict} than usual{' so far' if is_active else ''}"


def _explain_difference(comparison: RunDifference) -> str:
    """Describe the part with most of the difference, then unusual counts."""
    part = comparison.explains
    if part is None:
        return ""
    more = "longer" if part.more_ms > 0 else "less"
    usual = format_duration(part.usual_ms) if part.usual_ms else "nothing"
    by = f"{format_duration(abs(part.more_ms))} {more}: " if part.usual_ms else ""
    sentence = f"{_label(part.name)} took {by}{format_duration(part.this_ms)}, usually {usual}."
    counts = [_describe_measure(measure) for measure in comparison.measures]
    told = [text for text in counts if text]
    return f"{sentence} {' '.join(told)}".strip()


def _describe_measure(measure: Measure) -> str:
    times = measure.times
    if measure.unit == "attempts" or times is None or _MUCH_LESS < times < _MUCH_MORE:
        return ""
    return f"{_MEASURES[measure.name]}: {times:.1f} times the usual."


def _part_rows(comparison: RunDifference) -> Iterator[PartRow]:
    shown = [part for part in comparison.differences if max(part.this_ms, part.usual_ms)]
    shown = [part for part in shown if abs(part.more_ms) >= _SHOWN_MS][:_SHOWN_PARTS]
    longest = max((max(part.this_ms, part.usual_ms) for part in shown), default=1)
    for part in shown:
        yield PartRow(
            _label(part.name),
            part.this_ms,
            part.usual_ms,
            _format_difference(part),
            100 * part.this_ms / longest,
            100 * part.usual_ms / longest,
        )


def _format_difference(part: PartDifference) -> str:
    return f"{'+' if part.more_ms > 0 else MINUS}{format_duration(abs(part.more_ms))}"


def _measure_row(measure: Measure) -> MeasureRow:
    shown = format_bytes if measure.unit == "bytes" else format_count
    times = measure.times
    is_telling = times is not None and not _MUCH_LESS < times < _MUCH_MORE
    words = f"{times:.1f} times the usual" if is_telling else ""
    return MeasureRow(_MEASURES[measure.name], shown(measure.this), shown(measure.usual), words)


def _label(name: str) -> str:
    if name == WASTED_ATTEMPTS:
        return "Wasted attempts"
    return LABELS[PartKind(name)] if name in {*PartKind} else label_of(name)


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric; `name` is its name in the log."""

    name: str
    label: str
    value: str
    exact: str


def readable_metrics(metrics: object) -> list[Metric]:
    """Return metrics, row counts first; zeros are only in the JSON."""
    if not isinstance(metrics, Mapping):
        return []
    return sorted(_readable(metrics), key=_place)


def metric_label(name: str) -> str:
    """Return a metric's name in words."""
    if name in _NAMES:
        return _NAMES[name]
    words = [word.lower() for word in _WORD.findall(name)]
    words = [word for word in words if word not in {"num", "target", "ms"}]
    return " ".join(words).capitalize() or name


def _readable(metrics: Mapping[str, object]) -> Iterator[Metric]:
    for name, value in metrics.items():
        text = str(value)
        if text in {"0", "", "None", "null"}:
            continue
        yield Metric(name, metric_label(name), _format_number(name, text), text)


def _format_number(name: str, text: str) -> str:
    if not text.lstrip("-").isdecimal():
        return text
    number, plain = int(text), name.lower()
    if plain.endswith(("timems", "ms")):
        return format_duration(number)
    if (
        any(plain.endswith(unit) or plain.startswith("bytes") for unit in _BYTES)
        or "bytes" in plain
    ):
        return format_bytes(number)
    return format_count(number)


def _place(metric: Metric) -> tuple[int, bool, str]:
    place = _FIRST.index(metric.name) if metric.name in _FIRST else len(_FIRST)
    return place, metric.name.lower().endswith("ms"), metric.label
