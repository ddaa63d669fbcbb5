"""The outlook of a job, running or requested again: its expected end, and overlapping writes.

Nothing here decides: the worker checks for itself when it commits. This is the present knowledge of
commits that landed since the job began, and of writers that may land next.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db.models import (
    Avg,
    Case,
    Count,
    F,
    OuterRef,
    QuerySet,
    Subquery,
    TextField,
    Value,
    When,
)
from django.utils import timezone

from engine.actions.codec import Action
from engine.commands.model import Create
from engine.conflict_facts import Verdict
from engine.conflicts.predict.forecast import FORECASTS, Forecast
from engine.errors import EngineError
from engine.vocabulary import name_in_log
from lakeui.catalog.models import Commit, Table
from lakeui.conflicts.models import Conflict
from lakeui.conflicts.replay.recorded_history import decode_commit_text
from lakeui.conflicts.statements.operations import JobSide
from lakeui.jobs.command_rules import command_of
from lakeui.jobs.earlier_runs import UsualRun, usual_run, usual_runs
from lakeui.jobs.models import Job, JobAttempt, Schedule
from lakeui.jobs.row_impact import asks_name, row_impact
from lakeui.jobs.writers import active_jobs, schedules_changing

PAIR_DAYS = 30
SHOWN = 10
_COMING = 5
_READS_FILES = 64 * 1024  # of a commit whose text is longer only its row is read
_HARMLESS = (Verdict.NEVER, Verdict.EXEMPT)
_OPEN = (Verdict.SAME_FILES, Verdict.SAME_ROW)


@dataclass(frozen=True, slots=True)
class PairRecord:
    """How recorded overlaps of two operations ended; `files` is the average."""

    aborted: int = 0
    resolved: int = 0
    files: int | None = None

    @property
    def conflict_count(self) -> int:
        return self.aborted + self.resolved

    @property
    def one_in(self) -> int | None:
        """One in this many was aborted."""
        return round(self.conflict_count / self.aborted) if self.aborted else None


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherWrite:
    """A write beside the job: when the two conflict and why, and how often they did."""

    forecast: Forecast
    record: PairRecord

    @property
    def verdict(self) -> Verdict:
        return self.forecast.verdict

    @property
    def shares_nothing(self) -> bool:
        return self.verdict in _HARMLESS and not self.record.files


@dataclass(frozen=True, slots=True, kw_only=True)
class NewerCommit(OtherWrite):
    """A version that landed since the job read."""

    commit: Commit


@dataclass(frozen=True, slots=True, kw_only=True)
class ComingWrite(OtherWrite):
    """A writer that may land before the job: a running or waiting one, or a due `schedule`."""

    operation: str
    writer: str
    expected_at: datetime | None
    job_id: UUID | None = None
    waits: bool = False
    schedule: str = ""


@dataclass(frozen=True, slots=True)
class Outlook:
    """An outlook; `next_version` is the job's own if nothing else lands before it."""

    usual: UsualRun | None
    expected_end_at: datetime | None
    read_version: int | None
    next_version: int | None
    landed_count: int
    landed: tuple[NewerCommit, ...]
    coming: tuple[ComingWrite, ...]

    @property
    def verdict(self) -> Verdict:
        """The worst verdict of all landed versions."""
        return max(
            (landed.verdict for landed in self.landed), key=FORECASTS.index, default=Verdict.NEVER
        )

    @property
    def is_open(self) -> bool:
        """Whether its rows or files decide, or it is known to be aborted."""
        return self.verdict not in _HARMLESS

    @property
    def record(self) -> PairRecord:
        """How recorded overlaps of the open pairs ended, together."""
        open_ones = {
            landed.commit.operation: landed.record
            for landed in self.landed
            if landed.verdict in _OPEN
        }
        return PairRecord(
            sum(open_one.aborted for open_one in open_ones.values()),
            sum(open_one.resolved for open_one in open_ones.values()),
        )


def outlook_of(job: Job, attempt: JobAttempt | None) -> Outlook | None:
    """Return the outlook of an active job; None if it is cancelling or changes nothing."""
    if not job.is_active or job.dry_run or job.state == job.State.CANCELLING:
        return None
    usual = usual_run(job.table, job.kind)
    began = attempt.started_at if attempt is not None else None
    expected = usual.end_after(began) if usual is not None and began is not None else None
    read = attempt.read_version if attempt is not None else None
    read = job.base_version if read is None else read
    records = _records(job.table, name_in_log(job.kind))
    mine = JobSide(job)
    landed, count = _list_later_commits(mine, read, records)
    latest = job.table.version
    return Outlook(
        usual=usual,
        expected_end_at=expected,
        read_version=read,
        next_version=None if latest is None else latest + 1,
        landed_count=count,
        landed=landed,
        coming=tuple(_iter_coming_writes(mine, expected, records)),
    )


@dataclass(frozen=True, slots=True)
class JobForecast:
    """The overlaps of a job if it began now. `files` and bytes are the most it can read.

    `next_version` is its own if nothing else lands before it.
    """

    files: int
    size_bytes: int
    usual: UsualRun | None
    next_version: int | None
    coming: tuple[ComingWrite, ...]

    @property
    def worst(self) -> ComingWrite | None:
        """The most dangerous writer if it commits first; None if there is none."""
        worst = max(self.coming, key=lambda one: FORECASTS.index(one.verdict), default=None)
        return worst if worst is not None and worst.verdict not in _HARMLESS else None

    @property
    def verdict(self) -> Verdict:
        """The worst verdict of all writers that may land first."""
        return self.worst.verdict if self.worst else Verdict.NEVER


def forecast_of(table: Table, kind: str, parameters: Any) -> JobForecast:  # noqa: ANN401 - JSON
    """Return the forecast of an unrequested command, from the mirror alone."""
    job = Job(table=table, kind=kind, parameters=parameters)
    usual = usual_run(table, kind)
    ends = usual.end_after(timezone.now()) if usual else None
    mine = JobSide(job)
    reads = mine.reads_itself or any(side.kind.opens_some_files for side in mine.operations)
    return JobForecast(
        files=table.file_count if reads else 0,
        size_bytes=table.size_bytes if reads else 0,
        usual=usual,
        next_version=None if table.version is None else table.version + 1,
        coming=tuple(_iter_coming_writes(mine, ends, _records(table, name_in_log(kind)))),
    )


def _list_later_commits(
    mine: JobSide, read: int | None, records: Mapping[str, PairRecord]
) -> tuple[tuple[NewerCommit, ...], int]:
    """List commits since the read version: changes of the definition first, then of rows."""
    if read is None:
        return (), 0
    table = mine.job.table
    newer = _defer_long_texts(table.commits.filter(version__gt=read))
    shown = list(newer.order_by("-changes_metadata", "-changes_protocol", "version")[:SHOWN])
    landed = (
        NewerCommit(
            commit=commit,
            forecast=mine.forecast_with_commit(commit, _actions(commit)),
            record=records.get(commit.operation, PairRecord()),
        )
        for commit in sorted(shown, key=lambda commit: commit.version)
    )
    return tuple(landed), max(len(shown), (table.version or 0) - read)


def _defer_long_texts(commits: QuerySet[Commit]) -> QuerySet[Commit]:
    """Load commits without long fields, but with short texts."""
    is_short = When(raw_bytes__lte=_READS_FILES, then=F("raw"))
    short = Case(is_short, default=Value(""), output_field=TextField())
    return commits.defer("raw", "operation_metrics").annotate(short_text=short)


def _actions(commit: Commit) -> tuple[Action, ...] | None:
    text = getattr(commit, "short_text", "")
    committed = decode_commit_text(commit.version, text, commit.raw_bytes)
    return committed.actions if committed is not None else None


def _iter_coming_writes(
    mine: JobSide, until: datetime | None, records: Mapping[str, PairRecord]
) -> Iterator[ComingWrite]:
    table = mine.job.table
    tries = JobAttempt.objects.filter(job=OuterRef("pk"))
    others = (
        active_jobs(table)
        .filter(dry_run=False)
        .exclude(pk=mine.job.pk)
        .select_related("requested_by")
        .annotate(last_try_at=Subquery(tries.order_by("-number").values("started_at")[:1]))
        .order_by("started_at")[:_COMING]
    )
    running = list(others)
    usual = usual_runs(table) if running else {}
    for other in running:
        operation = name_in_log(other.kind)
        yield ComingWrite(
            operation=operation,
            writer=other.requested_by.get_username() if other.requested_by else "",
            expected_at=_estimate_end(other, usual.get(other.kind)),
            forecast=mine.forecast_with_job(other.kind, other.parameters, other.table_id),
            record=records.get(operation, PairRecord()),
            job_id=other.pk,
            waits=other.state == Job.State.QUEUED,
        )
    for schedule in _due(table, until):
        operation = name_in_log(schedule.kind)
        yield ComingWrite(
            operation=operation,
            writer=schedule.owner.get_username(),
            expected_at=schedule.next_due_at,
            forecast=mine.forecast_with_job(schedule.kind, schedule.parameters, schedule.table_id),
            record=records.get(operation, PairRecord()),
            schedule=schedule.name,
        )


def _estimate_end(other: Any, usual: UsualRun | None) -> datetime | None:  # noqa: ANN401 - annotated
    """Return its expected end; None if unknown, or if it already takes longer than usual."""
    began = other.last_try_at or other.started_at
    ends = usual.end_after(began) if usual and began else None
    return ends if ends is not None and ends > timezone.now() else None


def _due(table: Table, until: datetime | None) -> QuerySet[Schedule]:
    """Return schedules that fire before the job's expected end, or else within the hour."""
    limit = max(until or timezone.now() + timedelta(hours=1), timezone.now())
    due = schedules_changing(table).filter(enabled=True, next_due_at__lte=limit)
    return due.select_related("owner").order_by("next_due_at")[:_COMING]


def _records(table: Table, operation: str) -> dict[str, PairRecord]:
    """Return the ends of recorded overlaps with a job, by the winning operation: one query."""
    since = timezone.now() - timedelta(days=PAIR_DAYS)
    conflicts = Conflict.objects.filter(
        table=table, occurred_at__gte=since, current_operation=operation
    ).exclude(kind=Conflict.Kind.REPORTED)
    rows = conflicts.order_by().values_list("winner_operation", "kind")
    return _sum_by_winner(rows.annotate(n=Count("pk"), files=Avg("file_count")))


def _sum_by_winner(rows: Iterable[tuple[str, str, int, float | None]]) -> dict[str, PairRecord]:
    aborted, resolved, files = Counter[str](), Counter[str](), Counter[str]()
    for winner, kind, n, mean in rows:
        (resolved if kind == Conflict.Kind.RESOLVED else aborted)[winner] += n
        files[winner] += round(n * (mean or 0))
    return {
        winner: PairRecord(
            aborted[winner],
            resolved[winner],
            round(files[winner] / (aborted[winner] + resolved[winner])) or None,
        )
        for winner in {*aborted, *resolved}
    }


@dataclass(frozen=True, slots=True)
class JobRerun:
    """`is_retry`: the job did not succeed. A dry run has no forecast: it commits nothing."""

    is_retry: bool
    asks_name: bool
    row_impact: tuple[str, ...]
    forecast: JobForecast | None


def rerun_of(job: Job) -> JobRerun | None:
    """Return the rerun; None if a job runs, created its table, or its command no longer parses."""
    is_retry = job.state != Job.State.SUCCEEDED
    if job.is_active or (job.kind == Create.kind and not is_retry):
        return None
    try:
        command = command_of(job)
    except EngineError:
        return None
    return JobRerun(
        is_retry=is_retry,
        asks_name=asks_name(command) and not job.dry_run,
        row_impact=() if job.dry_run else tuple(row_impact(job.table, command)),
        forecast=None if job.dry_run else forecast_of(job.table, job.kind, job.parameters),
    )
