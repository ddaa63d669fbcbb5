"""The usual duration of runs of one kind on a table, and so the expected end of a running one."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from statistics import median
from typing import Any
from uuid import UUID

from django.db.models import F, OuterRef, Q, Subquery, Window
from django.db.models.functions import RowNumber

from lakeui.catalog.models import Table
from lakeui.jobs.models import Job, JobAttempt
from lakeui.jobs.spans import span_ms

_LATEST = 200
_OF_A_KIND = 20
ENOUGH = 3  # runs, before anything is expected of the next


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
