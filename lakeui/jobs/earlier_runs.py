"""A run compared with earlier runs: of its statement, and of its kind on its table.

The last runs of the same statement tell which part caused a difference. Runs of the same kind give
the usual duration, and so the expected end of a running one. The speed of rewrites comes from
recorded attempts and is the basis of other expected durations.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import sha256
from statistics import median
from typing import Any
from uuid import UUID

from django.db.models import F, OuterRef, Q, QuerySet, Subquery, Window
from django.db.models.functions import RowNumber

from lakeui.catalog.models import Table
from lakeui.catalog.row_counts import RowCounts, rows_in
from lakeui.jobs.models import Job, JobAttempt, JobStage
from lakeui.jobs.timeline import JobTimeline, PartKind, RunCost, cost_of, span_ms, timeline_of

SHOWN = 8
_LITERAL = re.compile(r"'(?:[^'\\]|\\.|'')*'|(?<![\w.`])-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?\b")
_LIST = re.compile(r"\?(?:\s*,\s*\?)+|\(\?\)(?:\s*,\s*\(\?\))+")
_LOOKED_AT = 300  # runs of the kind on the table: an index has them in order
_TELLING = 0.2  # of the usual time; less is chance
ENOUGH_TO_TELL_MS = 1000
_FIELDS = (
    "id", "table_id", "kind", "state", "created_at", "started_at", "finished_at", "attempts", "metrics",
    "parameters", "committed_version", "dry_run", "worker",
)  # fmt: skip

SLOWER, FASTER, AS_USUAL = "slower", "faster", "as usual"
VERDICTS = (SLOWER, FASTER, AS_USUAL)
WASTED_ATTEMPTS = "wasted attempts"

_LATEST = 200
_OF_A_KIND = 20
ENOUGH = 3  # runs, before anything is expected of the next

MAX_RUNS = 50
_ENOUGH_BYTES = 64 * 1024  # smaller jobs measure startup, not writing


@dataclass(frozen=True, slots=True)
class RunFacts:
    """One run. `parts` maps the name of each part to its duration; wasted attempts are one part."""

    job_id: UUID
    started_at: datetime | None
    committed_version: int | None
    attempts: int
    worker: str
    total_ms: int
    queue_ms: int
    rows: RowCounts
    cost: RunCost
    parts: Mapping[str, int]

    @property
    def bytes_read(self) -> int | None:
        return self.cost.useful.bytes_read

    @property
    def bytes_written(self) -> int | None:
        return self.cost.useful.bytes_written

    @property
    def row_count(self) -> int | None:
        """Rows inserted, changed and deleted; None if none is recorded."""
        counts = (self.rows.inserted, self.rows.updated, self.rows.deleted)
        recorded = [count for count in counts if count is not None]
        return sum(recorded) if recorded else None


@dataclass(frozen=True, slots=True)
class PartDifference:
    """How long a part took in this run, and in the median earlier one."""

    name: str
    this_ms: int
    usual_ms: int

    @property
    def more_ms(self) -> int:
        """Below 0: it was faster."""
        return self.this_ms - self.usual_ms


@dataclass(frozen=True, slots=True)
class Measure:
    """A count of this run, and its median in the earlier ones; `unit` is rows, bytes or attempts."""

    name: str
    unit: str
    this: int
    usual: int

    @property
    def times(self) -> float | None:
        """The multiple of the usual value; None if that is 0."""
        return self.this / self.usual if self.usual else None


@dataclass(frozen=True, slots=True)
class RunDifference:
    """`runs` are the earlier ones, the latest first. `verdict` is slower, faster or as usual."""

    this: RunFacts
    runs: tuple[RunFacts, ...]
    usual_ms: int
    verdict: str
    differences: tuple[PartDifference, ...]
    measures: tuple[Measure, ...]

    @property
    def more_ms(self) -> int:
        return self.this.total_ms - self.usual_ms

    @property
    def explains(self) -> PartDifference | None:
        """The part with most of the difference, if there is a difference."""
        if self.verdict == AS_USUAL or not self.differences:
            return None
        largest = self.differences[0]
        return largest if largest.more_ms * self.more_ms > 0 else None


def comparison_of(job: Job, timeline: JobTimeline) -> RunDifference | None:
    """Compare a job with earlier successful runs of the same statement; None if there are none.

    Also None if this one failed, was aborted or cancelled in less time than they took. The same
    statement has the same kind, table and parameters; dry runs are compared with dry runs. A
    running job is slower once it has taken longer; it is never faster.
    """
    if job.started_at is None:
        return None
    earlier = _earlier(job)
    if not earlier:
        return None
    runs = _facts_of(earlier)
    this = facts_of(job, timeline)
    usual = round(median(run.total_ms for run in runs))
    verdict = _verdict(this.total_ms - usual, usual)
    if verdict == FASTER and job.is_active:
        verdict = AS_USUAL
    elif verdict == FASTER and job.state != Job.State.SUCCEEDED:
        return None  # it ended unfinished
    return RunDifference(
        this=this,
        runs=runs,
        usual_ms=usual,
        verdict=verdict,
        differences=tuple(_differences(this, runs, is_active=job.is_active)),
        measures=tuple(_measures(this, runs)) if not job.is_active else (),
    )


def facts_of(job: Job, timeline: JobTimeline) -> RunFacts:
    """Return the facts of one run with a known timeline."""
    attempts = [span.attempt for span in timeline.attempts]
    parts: defaultdict[str, int] = defaultdict(int)
    for name, took_ms in _iter_part_times(timeline):
        parts[name] += took_ms
    return RunFacts(
        job_id=job.pk,
        started_at=job.started_at,
        committed_version=job.committed_version,
        attempts=job.attempts,
        worker=job.worker,
        total_ms=timeline.total_ms,
        queue_ms=parts.get(PartKind.QUEUE, 0) + parts.get(PartKind.SESSION, 0),
        rows=rows_in(job.kind, job.metrics if isinstance(job.metrics, dict) else {}),
        cost=cost_of(attempts, timeline.ended_at, dry_run=job.dry_run),
        parts=dict(parts),
    )


def _iter_part_times(timeline: JobTimeline) -> Iterable[tuple[str, int]]:
    """Iterate over steps of the last attempt by name; earlier attempts and waits are summed."""
    last = timeline.attempts[-1].attempt.number if timeline.attempts else None
    for part in timeline.parts:
        if part.attempt is not None and part.attempt != last:
            yield WASTED_ATTEMPTS, part.took_ms
        else:
            yield part.stage.name if part.stage else part.kind.value, part.took_ms


def fingerprint_of(kind: str, statement: str, error_code: str = "") -> str:
    """Return a digest that statements share which differ in their numbers and texts alone."""
    shape = statement_shape(statement).casefold()
    return sha256(f"{kind}\n{shape}\n{error_code}".encode()).hexdigest()[:16]


def statement_shape(statement: str) -> str:
    """Return a statement with a question mark for each number, text, or list of them."""
    shape = " ".join(_LITERAL.sub("?", statement).split())
    return _LIST.sub(_shorten_list, _LIST.sub(_shorten_list, shape))


def _shorten_list(match: re.Match[str]) -> str:
    return "(?)" if match[0].startswith("(") else "?"


def _earlier(job: Job) -> Sequence[Job]:
    """Return earlier runs: the statement narrows them in the database, the parameters decide."""
    ended = Job.objects.filter(
        table=job.table_id,
        kind=job.kind,
        state=Job.State.SUCCEEDED,
        finished_at__isnull=False,
    )
    latest = ended.order_by("-finished_at").values("pk")[:_LOOKED_AT]
    same = Job.objects.filter(
        pk__in=latest,
        statement=job.statement,
        dry_run=job.dry_run,
        created_at__lt=job.created_at,
        started_at__isnull=False,
    ).exclude(pk=job.pk)
    candidates = same.order_by("-finished_at").only(*_FIELDS)[: 2 * SHOWN]
    return [run for run in candidates if run.parameters == job.parameters][:SHOWN]


def _facts_of(jobs: Sequence[Job]) -> tuple[RunFacts, ...]:
    """Return the facts of jobs, always in two queries."""
    attempts: defaultdict[UUID, list[JobAttempt]] = defaultdict(list)
    for attempt in JobAttempt.objects.filter(job__in=jobs).defer("message").order_by("number"):
        attempts[attempt.job_id].append(attempt)
    stages: defaultdict[int, list[JobStage]] = defaultdict(list)
    keys = [attempt.pk for rows in attempts.values() for attempt in rows[-1:]]
    rows = JobStage.objects.filter(attempt__in=keys).defer("spark_stages")
    for stage in rows.order_by("attempt", "place"):
        stages[stage.attempt_id].append(stage)
    return tuple(facts_of(job, timeline_of(job, attempts[job.pk], stages)) for job in jobs)


def _verdict(more_ms: int, usual_ms: int) -> str:
    if abs(more_ms) < max(_TELLING * usual_ms, ENOUGH_TO_TELL_MS):
        return AS_USUAL
    return SLOWER if more_ms > 0 else FASTER


def _differences(
    this: RunFacts, runs: Sequence[RunFacts], *, is_active: bool
) -> Iterable[PartDifference]:
    """Return differences, largest first. Runs without recorded steps are left out if possible."""
    names = dict.fromkeys(this.parts)
    if not is_active:  # steps still to come are no difference
        names |= dict.fromkeys(name for run in runs for name in run.parts)
    telling = [run for run in runs if PartKind.UNRECORDED not in run.parts] or list(runs)
    differences = [
        PartDifference(
            name,
            this.parts.get(name, 0),
            round(median(run.parts.get(name, 0) for run in telling)),
        )
        for name in names
    ]
    if is_active:  # a running step may still take longer
        differences = [difference for difference in differences if difference.more_ms > 0]
    return sorted(differences, key=lambda difference: -abs(difference.more_ms))


def _measures(this: RunFacts, runs: Sequence[RunFacts]) -> Iterable[Measure]:
    """Return measures recorded by this run and an earlier one."""
    for name, unit in (
        ("row_count", "rows"),
        ("bytes_read", "bytes"),
        ("bytes_written", "bytes"),
        ("attempts", "attempts"),
    ):
        mine = getattr(this, name)
        theirs = [value for run in runs if (value := getattr(run, name)) is not None]
        if mine is not None and theirs:
            yield Measure(name, unit, mine, round(median(theirs)))


@dataclass(frozen=True, slots=True)
class UsualRun:
    """The latest successful runs: their last attempts' median, and the median distance to it."""

    median_ms: int
    spread_ms: int
    runs: int

    def end_after(self, started_at: datetime) -> datetime:
        """Return the expected end of a run that began at `started_at`."""
        return started_at + timedelta(milliseconds=self.median_ms)


def usual_run(table: Table, kind: str) -> UsualRun | None:
    """Return the usual run of one kind on one table; None for too few successful runs."""
    return _usual(
        took for _, took in _spans(_select_ended_jobs(table).filter(kind=kind)[:_OF_A_KIND])
    )


def usual_runs(table: Table) -> Mapping[str, UsualRun]:
    """Return the usual run of every recent kind on a table: one query."""
    by_kind: defaultdict[str, list[int]] = defaultdict(list)
    for kind, took in _spans(_select_ended_jobs(table)[:_LATEST]):
        by_kind[kind].append(took)
    of_kinds = {kind: _usual(spans[:_OF_A_KIND]) for kind, spans in by_kind.items()}
    return {kind: usual for kind, usual in of_kinds.items() if usual is not None}


def usual_runs_of(jobs: Iterable[Job]) -> Mapping[UUID, UsualRun]:
    """Return the usual run for each of a few jobs on any tables: one query."""
    real_runs = [job for job in jobs if not job.dry_run]
    alike = Q(pk__in=[])
    for table, kind in {(job.table_id, job.kind) for job in real_runs}:
        alike |= Q(table=table, kind=kind)  # pair by pair: matches an index
    place = Window(RowNumber(), [F("table_id"), F("kind")], F("finished_at").desc())
    ended = _jobs_of_tables({job.table_id for job in real_runs}).filter(alike).annotate(place=place)
    rows: defaultdict[tuple[int, str], list[Mapping[str, Any]]] = defaultdict(list)
    for row in ended.filter(place__lte=_OF_A_KIND):
        rows[row["table_id"], row["kind"]].append(row)
    usual = {key: _usual(took for _, took in _spans(runs)) for key, runs in rows.items()}
    by_job = {job.pk: usual.get((job.table_id, job.kind)) for job in real_runs}
    return {pk: run for pk, run in by_job.items() if run is not None}


def _select_ended_jobs(table: Table) -> Any:  # noqa: ANN401 - a query of mappings
    return _jobs_of_tables([table.pk])


def _jobs_of_tables(tables: Iterable[int]) -> Any:  # noqa: ANN401 - a query of mappings
    landed = JobAttempt.objects.filter(job=OuterRef("pk"), outcome=JobAttempt.Outcome.COMMITTED)
    jobs = Job.objects.filter(table__in=tables, state=Job.State.SUCCEEDED, dry_run=False)
    return (
        jobs.filter(started_at__isnull=False, finished_at__isnull=False)
        .order_by("-finished_at")
        .values("table_id", "kind", "started_at", "finished_at")
        .annotate(last_try_at=Subquery(landed.order_by("-number").values("started_at")[:1]))
    )


def _spans(rows: Iterable[Mapping[str, Any]]) -> Iterable[tuple[str, int]]:
    for row in rows:
        began = row["last_try_at"] or row["started_at"]
        yield row["kind"], span_ms(began, row["finished_at"])


def _usual(spans: Iterable[int]) -> UsualRun | None:
    durations = list(spans)
    if len(durations) < ENOUGH:
        return None
    middle = median(durations)
    return UsualRun(
        median_ms=round(middle),
        spread_ms=round(median(abs(duration - middle) for duration in durations)),
        runs=len(durations),
    )


@dataclass(frozen=True, slots=True)
class WriteThroughput:
    """Bytes written in a second, the median of `runs`; `is_own`: they were runs on this table."""

    bytes_per_second: float
    runs: int
    is_own: bool

    def duration_ms(self, size_bytes: int) -> int:
        """Return the expected duration of writing this many bytes."""
        return round(size_bytes / self.bytes_per_second * 1000)


def throughput_of(table: Table) -> WriteThroughput | None:
    """Return the speed of the latest runs on the table, else on any; None without data."""
    ended = JobAttempt.objects.filter(
        outcome=JobAttempt.Outcome.COMMITTED, bytes_written__gte=_ENOUGH_BYTES
    )
    own = _rates(ended.filter(job__table=table))
    rates = own or _rates(ended)
    return WriteThroughput(median(rates), len(rates), bool(own)) if rates else None


def _rates(attempts: QuerySet[JobAttempt]) -> list[float]:
    rows: Iterable[tuple[datetime, datetime | None, int]] = attempts.order_by("-pk").values_list(
        "started_at", "finished_at", "bytes_written"
    )[:MAX_RUNS]
    spans = ((size, (end - start).total_seconds()) for start, end, size in rows if end is not None)
    return [size / seconds for size, seconds in spans if seconds > 0]
