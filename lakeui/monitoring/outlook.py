"""What a running job is up against: when it may end, what landed since it read, who may land next.

Nothing here decides: the worker checks for itself when it commits. This says what is known already.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from django.db.models import Avg, Count, OuterRef, QuerySet, Subquery
from django.utils import timezone

from lakeui.catalog.models import Commit, Table
from lakeui.conflicts.models import Conflict
from lakeui.jobs.models import Job, JobAttempt
from lakeui.jobs.usual_runs import Usual, usual_run, usual_runs

PAIR_DAYS = 30
SHOWN = 10
_COMING = 5
_READS = frozenset({"update", "delete", "merge", "optimize", "reorg", "append"})
_IN_THE_LOG = {"append": "WRITE", "overwrite": "WRITE", "stream": "STREAMING UPDATE"}


class Verdict(StrEnum):
    """What a version means for a write that did not see it."""

    LOSES = "loses"
    EXEMPT = "exempt"
    PASSES = "passes"
    BY_ROWS = "by rows"
    BY_FILES = "by files"


_OPEN = (Verdict.BY_ROWS, Verdict.BY_FILES)


@dataclass(frozen=True, slots=True)
class PairRecord:
    """How meetings of two operations ended that were worth recording; files: of the average one."""

    lost: int = 0
    absorbed: int = 0
    files: int | None = None

    @property
    def met(self) -> int:
        return self.lost + self.absorbed

    @property
    def one_in(self) -> int | None:
        """1 in so many was lost."""
        return round(self.met / self.lost) if self.lost else None


@dataclass(frozen=True, slots=True)
class Landed:
    """A version that landed since the job read."""

    commit: Commit
    verdict: Verdict
    record: PairRecord


@dataclass(frozen=True, slots=True)
class Coming:
    """A writer that may land before the job does; `schedule` has not made its job yet."""

    operation: str
    writer: str
    expected_at: datetime | None
    verdict: Verdict
    record: PairRecord
    job_id: Any = None
    schedule: str = ""


@dataclass(frozen=True, slots=True)
class Outlook:
    """`next_version` is what it would become if nothing else landed before it."""

    usual: Usual | None
    expected_end_at: datetime | None
    read_version: int | None
    next_version: int | None
    landed_count: int
    landed: tuple[Landed, ...]
    coming: tuple[Coming, ...]

    @property
    def verdict(self) -> Verdict:
        """Of all that landed: the worst."""
        found = {each.verdict for each in self.landed}
        order = (Verdict.LOSES, *_OPEN)
        return next((each for each in order if each in found), Verdict.PASSES)

    @property
    def record(self) -> PairRecord:
        """Of the pairs that are open, together."""
        open_ones = {
            each.commit.operation: each.record for each in self.landed if each.verdict in _OPEN
        }
        return PairRecord(
            sum(each.lost for each in open_ones.values()),
            sum(each.absorbed for each in open_ones.values()),
        )


def outlook_of(job: Job, attempt: Any) -> Outlook | None:  # noqa: ANN401 - a JobAttempt or None
    """Of a job that runs or waits; None of one that has ended or changes nothing."""
    if not job.is_active or job.dry_run:
        return None
    usual = usual_run(job.table, job.kind)
    began = attempt.started_at if attempt is not None else None
    expected = usual.end_after(began) if usual is not None and began is not None else None
    read = attempt.read_version if attempt is not None else None
    read = job.base_version if read is None else read
    records = _records(job.table, operation_of(job.kind))
    landed, count = _landed(job, read, records)
    latest = job.table.version
    return Outlook(
        usual=usual,
        expected_end_at=expected,
        read_version=read,
        next_version=None if latest is None else latest + 1,
        landed_count=count,
        landed=landed,
        coming=tuple(_coming(job, expected, records)),
    )


@dataclass(frozen=True, slots=True)
class Forecast:
    """What a job would meet if it began now. `files` and bytes are the most it can read."""

    files: int
    size_bytes: int
    usual: Usual | None
    coming: tuple[Coming, ...]


def forecast_of(table: Table, kind: str, parameters: Any) -> Forecast:  # noqa: ANN401 - JSON
    """Of a command that nobody asked for yet, from the mirror alone."""
    job = Job(table=table, kind=kind, parameters=parameters)
    usual = usual_run(table, kind)
    ends = usual.end_after(timezone.now()) if usual else None
    reads = not _is_blind(job) and kind in _READS
    return Forecast(
        files=table.file_count if reads else 0,
        size_bytes=table.size_bytes if reads else 0,
        usual=usual,
        coming=tuple(_coming(job, ends, _records(table, operation_of(kind)))),
    )


def operation_of(kind: str) -> str:
    """A job's kind as logs and conflicts name the operation."""
    return _IN_THE_LOG.get(kind) or kind.removeprefix("alter_").replace("_", " ").upper()


def verdict_of(job: Job, commit: Commit) -> Verdict:
    """What a version means for a job that did not see it, as far as its row tells."""
    if commit.changes_metadata or commit.changes_protocol:
        return Verdict.LOSES
    if _is_blind(job):
        return Verdict.PASSES
    if commit.is_blind_append and job.table.isolation_level != "Serializable":
        return Verdict.EXEMPT
    return _open(job.table)


def _open(table: Table) -> Verdict:
    return Verdict.BY_ROWS if table.row_level_eligible else Verdict.BY_FILES


def _is_blind(job: Job) -> bool:
    """An append reads nothing of its table, unless its source is a query."""
    source = job.parameters.get("source") if isinstance(job.parameters, dict) else None
    kind = source.get("kind") if isinstance(source, dict) else None
    return job.kind == "append" and kind != "query"


def _landed(
    job: Job, read: int | None, records: Mapping[str, PairRecord]
) -> tuple[tuple[Landed, ...], int]:
    """Those that matter most first: it reads what defines the table before what fills it."""
    if read is None:
        return (), 0
    newer = job.table.commits.filter(version__gt=read).defer("raw", "operation_metrics")
    shown = list(newer.order_by("-changes_metadata", "-changes_protocol", "version")[:SHOWN])
    latest = job.table.version or 0
    found = (
        Landed(each, verdict_of(job, each), records.get(each.operation, PairRecord()))
        for each in sorted(shown, key=lambda commit: commit.version)
    )
    return tuple(found), max(len(shown), latest - read)


def _coming(
    job: Job, until: datetime | None, records: Mapping[str, PairRecord]
) -> Iterator[Coming]:
    tries = JobAttempt.objects.filter(job=OuterRef("pk"))
    others = (
        job.table.jobs.filter(state__in=Job.ACTIVE, finished_at=None, dry_run=False)
        .exclude(pk=job.pk)
        .select_related("requested_by")
        .annotate(last_try_at=Subquery(tries.order_by("-number").values("started_at")[:1]))
        .order_by("started_at")[:_COMING]
    )
    running = list(others)
    usual = usual_runs(job.table) if running else {}
    for other in running:
        yield _of_job(job, other, usual.get(other.kind), records)
    for each in _due(job.table, until):
        operation = operation_of(each.kind)
        yield Coming(
            operation=operation,
            writer=each.owner.get_username(),
            expected_at=each.next_due_at,
            verdict=_of_kind(job, each.kind, each.parameters),
            record=records.get(operation, PairRecord()),
            schedule=each.name,
        )


def _of_job(job: Job, other: Job, usual: Usual | None, records: Mapping[str, PairRecord]) -> Coming:
    operation = operation_of(other.kind)
    return Coming(
        operation=operation,
        writer=other.requested_by.get_username() if other.requested_by else "",
        expected_at=_expected(other, usual),
        verdict=_of_kind(job, other.kind, other.parameters),
        record=records.get(operation, PairRecord()),
        job_id=other.pk,
    )


def _expected(other: Any, usual: Usual | None) -> datetime | None:  # noqa: ANN401 - annotated
    """When it may end; None where nobody knows, or where it is longer at work than usual."""
    began = other.last_try_at or other.started_at
    ends = usual.end_after(began) if usual and began else None
    return ends if ends is not None and ends > timezone.now() else None


def _of_kind(job: Job, kind: str, parameters: Any) -> Verdict:  # noqa: ANN401 - JSON
    """What a job of a kind will mean, should it land first."""
    other = Job(table=job.table, kind=kind, parameters=parameters)
    if kind in {"append", "overwrite", "update", "delete", "merge", "stream", "optimize"}:
        if _is_blind(job):
            return Verdict.PASSES
        relaxed = job.table.isolation_level != "Serializable"
        return Verdict.EXEMPT if _is_blind(other) and relaxed else _open(job.table)
    if kind in {"vacuum", "reorg", "truncate"}:
        return _open(job.table) if kind != "vacuum" else Verdict.PASSES
    return Verdict.LOSES


def _due(table: Table, until: datetime | None) -> "QuerySet[Any]":
    """Schedules that fire before the job is expected to end; within the hour where nothing is."""
    limit = max(until or timezone.now() + timedelta(hours=1), timezone.now())
    due = table.schedules.filter(enabled=True, next_due_at__lte=limit)
    return due.select_related("owner").order_by("next_due_at")[:_COMING]


def _records(table: Table, operation: str) -> dict[str, PairRecord]:
    """By the winner's operation: one query."""
    since = timezone.now() - timedelta(days=PAIR_DAYS)
    met = Conflict.objects.filter(
        table=table, occurred_at__gte=since, current_operation=operation
    ).exclude(kind=Conflict.Kind.REPORTED)
    rows = met.order_by().values_list("winner_operation", "kind")
    return _by_winner(rows.annotate(n=Count("pk"), files=Avg("file_count")))


def _by_winner(rows: Iterable[tuple[str, str, int, float | None]]) -> dict[str, PairRecord]:
    lost, absorbed, files = Counter[str](), Counter[str](), Counter[str]()
    for winner, kind, n, mean in rows:
        (absorbed if kind == Conflict.Kind.ABSORBED else lost)[winner] += n
        files[winner] += round(n * (mean or 0))
    return {
        winner: PairRecord(
            lost[winner],
            absorbed[winner],
            round(files[winner] / (lost[winner] + absorbed[winner])) or None,
        )
        for winner in {*lost, *absorbed}
    }
