"""Both sides of one recorded conflict: statement, reads, changes and writer of each; similar ones.

The rows touched by both sides are requested by a page and read by a worker. Like previews they are
deleted after an hour, and visible to people who may see the table.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import msgspec
from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import F, Q, QuerySet
from django.db.models.fields.json import KeyTextTransform
from django.utils import timezone

from engine.conflict_facts import Decision, SideChanges
from lakeui.catalog import log_values
from lakeui.catalog.command_tables import Reader
from lakeui.catalog.former_tables import is_former
from lakeui.catalog.models import Commit
from lakeui.catalog.previews import is_waiting
from lakeui.catalog.reads import check_room, end_lost_reads, note_read, send_read
from lakeui.conflicts.filters import redact_conflict
from lakeui.conflicts.models import Conflict, ConflictRows, PipelineTransaction
from lakeui.conflicts.statements.text import statement_text
from lakeui.jobs.models import Job, JobAttempt
from lakeui.jobs.version_jobs import job_of_version
from lakeui.task_names import READ_CONFLICT_ROWS

RESOLVED_SHOWN = 3

MAX_ROWS = 50
_KEPT = timedelta(hours=1)

DAYS = 30
MAX_SIMILAR = 200
_COMMITTED, _RUNNING = JobAttempt.Outcome.COMMITTED, JobAttempt.Outcome.RUNNING
_FIELDS = (
    "pk", "occurred_at", "winning_version", "winner_operation", "winner_user_name", "row_count",
    "rule", "wasted_ms", "order_column", "shared_low", "shared_high",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class SideJob:
    """The side's job of ours, and its attempt."""

    id: UUID
    kind: str
    attempt: int
    attempts: int
    schedule_id: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SidePipeline:
    """The pipeline that reported a side: name, host, user, and attempt."""

    name: str
    host: str
    user: str
    attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ConflictSideDetail:
    """One side. None and "" are unrecorded.

    `statement_is_whole`: it is the job's or the pipeline's own, not reconstructed from the log.
    `read_at` is when the attempt began to read, `ended_at` when it ended.
    """

    operation: str
    user: str
    engine: str
    statement: str
    statement_is_whole: bool
    predicate: str
    read_version: int | None
    read_at: datetime | None
    ended_at: datetime | None
    isolation_level: str
    changes: SideChanges | None
    txn_id: str
    job: SideJob | None
    pipeline: SidePipeline | None
    resolved: tuple[Conflict, ...] = ()
    resolved_count: int = 0


@dataclass(frozen=True, slots=True)
class BothSides:
    """The aborted or rebased write, the winning commit, the decision, and the mirrored commit."""

    current: ConflictSideDetail
    winner: ConflictSideDetail
    decision: Decision | None
    commit: Commit | None


def both_sides(conflict: Conflict, reader: Reader) -> BothSides:
    """Return the record of a conflict and its two writers, in at most eight queries.

    A writer that names tables hidden from the reader has only the log's facts.
    """
    conflict = redact_conflict(conflict, reader)
    decision, commit = decision_of(conflict), _find_winning_commit(conflict)
    return BothSides(
        _current(conflict, decision, reader),
        _winner(conflict, decision, commit, reader),
        decision,
        commit,
    )


def decision_of(conflict: Conflict) -> Decision | None:
    """Return the decision; None if it is not recorded, or not in the current format."""
    decision = _facts(conflict).get("decision")
    try:
        return msgspec.convert(decision, Decision, strict=False) if decision else None
    except msgspec.ValidationError:
        return None


def _current(conflict: Conflict, decision: Decision | None, reader: Reader) -> ConflictSideDetail:
    facts, job = _facts(conflict).get("current") or {}, conflict.job
    reported = conflict.transaction
    attempt = job.attempt_rows.filter(number=conflict.attempt).first() if job else None
    own = _statement(job, reported, reader)
    return ConflictSideDetail(
        operation=conflict.current_operation,
        user=conflict.current_user_name,
        engine=facts.get("engine") or "",
        statement=own or conflict.current_predicate,
        statement_is_whole=bool(own),
        predicate=conflict.current_predicate,
        read_version=conflict.read_version,
        read_at=_began(attempt, reported),
        ended_at=conflict.occurred_at,
        isolation_level=conflict.isolation_level,
        changes=decision.current_changes if decision else None,
        txn_id=facts.get("txn_id") or (reported.txn_id if reported else ""),
        job=_job(job, conflict.attempt) if job else None,
        pipeline=_pipeline(reported, conflict.attempt),
    )


def _winner(
    conflict: Conflict, decision: Decision | None, commit: Commit | None, reader: Reader
) -> ConflictSideDetail:
    facts = _facts(conflict).get("winner") or {}
    txn_id = facts.get("txn_id") or (commit.txn_id if commit else "") or ""
    job = _find_winning_job(conflict, txn_id)
    landed = JobAttempt.Outcome.COMMITTED
    attempt = job.attempt_rows.filter(outcome=landed).last() if job else None
    reported = None if job else _find_winning_transaction(conflict, txn_id)
    own = _statement(job, reported, reader)
    said = log_values.predicate({"predicate": facts.get("predicate")})
    predicate = said or (commit.predicate if commit else "")
    recorded = _read_recorded_statement(conflict, commit, predicate)
    resolved, resolved_count = _list_resolved_conflicts(job)
    return ConflictSideDetail(
        operation=conflict.winner_operation,
        user=conflict.winner_user_name or (str(reported.pipeline) if reported else ""),
        engine=facts.get("engine") or (commit.engine_info if commit else ""),
        statement=own or recorded,
        statement_is_whole=bool(own),
        predicate=predicate,
        read_version=_first(facts.get("read_version"), commit and commit.read_version),
        read_at=_began(attempt, reported),
        ended_at=_first(conflict.winner_at, commit and commit.committed_at),
        isolation_level=facts.get("isolation_level") or (commit.isolation_level if commit else ""),
        changes=decision.winner_changes if decision else _changes_of(commit),
        txn_id=txn_id,
        job=_job(job, attempt.number if attempt else job.attempts) if job else None,
        pipeline=_pipeline(reported, reported.attempt if reported else 1),
        resolved=resolved,
        resolved_count=resolved_count,
    )


def _statement(job: Job | None, reported: PipelineTransaction | None, reader: Reader) -> str:
    if job is not None:
        return job.statement if reader.may_read(job) else ""
    said = reported.statement if reported else ""
    return said if said and reader.may_read_statement(said) else ""


def _began(attempt: JobAttempt | None, reported: PipelineTransaction | None) -> datetime | None:
    if attempt is not None:
        return attempt.started_at
    return reported.started_at if reported else None


def _read_recorded_statement(conflict: Conflict, commit: Commit | None, predicate: str) -> str:
    name = conflict.table.name if conflict.table else "…"
    parameters = (commit.operation_parameters if commit else None) or {}
    return statement_text(name, conflict.winner_operation, parameters, predicate) or predicate


def is_of_former_table(conflict: Conflict) -> bool:
    """Whether another table has replaced the one whose version it names."""
    return conflict.table is not None and is_former(conflict.table, conflict.occurred_at)


def _find_winning_commit(conflict: Conflict) -> Commit | None:
    if conflict.table is None or conflict.winning_version is None or is_of_former_table(conflict):
        return None
    commits = conflict.table.commits.defer("raw")
    return commits.filter(version=conflict.winning_version).first()


def _find_winning_job(conflict: Conflict, txn_id: str) -> Job | None:
    """Find the job by its commit's transaction id, a step's too, or by its version."""
    if conflict.table is None:
        return None
    jobs = conflict.table.jobs.all()
    try:
        writer = jobs.filter(txn_id=UUID(txn_id.partition(":")[0])).first()
    except ValueError:
        writer = None
    if writer is None and conflict.winning_version is not None and not is_of_former_table(conflict):
        writer = job_of_version(jobs, conflict.table, conflict.winning_version)
    return writer


def _find_winning_transaction(conflict: Conflict, txn_id: str) -> PipelineTransaction | None:
    """Return a pipeline's report of the winning commit."""
    if conflict.table is None or conflict.winning_version is None or is_of_former_table(conflict):
        return None
    reported = conflict.table.pipeline_transactions.select_related("pipeline")
    same = reported.filter(committed_version=conflict.winning_version)
    return same.filter(txn_id=txn_id).first() if txn_id else same.first()


def _list_resolved_conflicts(job: Job | None) -> tuple[tuple[Conflict, ...], int]:
    """Return the first conflicts that the winning commit itself resolved, and their number."""
    if job is None:
        return (), 0
    conflicts = job.conflicts.filter(kind=Conflict.Kind.RESOLVED).order_by("winning_version")
    how = KeyTextTransform("how", "facts")
    first = tuple(conflicts.defer("facts", "message").annotate(passed_by=how)[:RESOLVED_SHOWN])
    return first, len(first) if len(first) < RESOLVED_SHOWN else conflicts.count()


def _job(job: Job, attempt: int) -> SideJob:
    return SideJob(
        id=job.pk,
        kind=job.kind,
        attempt=attempt,
        attempts=max(attempt, job.attempts),
        schedule_id=job.schedule_id,
    )


def _pipeline(reported: PipelineTransaction | None, attempt: int) -> SidePipeline | None:
    if reported is None:
        return None
    return SidePipeline(
        name=reported.pipeline.name,
        host=reported.host,
        user=reported.user_name,
        attempt=attempt,
    )


def _changes_of(commit: Commit | None) -> SideChanges | None:
    if commit is None:
        return None
    return SideChanges(
        files_changed=commit.files_removed,
        files_masked=commit.vectors_added or 0,
        files_added=max(0, commit.files_added - (commit.vectors_added or 0)),
        rows_changed=commit.rows_deleted_by_vectors if commit.vectors_added else None,
    )


def _facts(conflict: Conflict) -> dict[str, Any]:
    return conflict.facts if isinstance(conflict.facts, dict) else {}


def _first(*values: Any) -> Any:  # noqa: ANN401 - the first that is known
    return next((value for value in values if value is not None), None)


@dataclass(frozen=True, slots=True)
class SharedRows:
    """The rows touched by both sides: in a file, at positions, of a version."""

    path: str
    version: int
    positions: tuple[int, ...]


def find_shared_rows(conflict: Conflict) -> SharedRows | None:
    """Return the first rows touched by both sides; None if no positions are recorded.

    They are read from a version in which they are live: the one before the winning commit removed
    them, or the one that added them.
    """
    facts = conflict.facts if isinstance(conflict.facts, dict) else {}
    file = next((file for file in _files(facts) if _positions(file)), None)
    version = file.get("version") if file else None
    if file is None or not isinstance(version, int) or version < 0 or conflict.table_id is None:
        return None
    return SharedRows(str(file.get("path", "")), version, _positions(file)[:MAX_ROWS])


def ask_for_rows(conflict: Conflict, by: User | None = None) -> ConflictRows | None:
    """Have a worker read the rows, unless one was just asked to; None if there are none.

    Raises:
        TooManyReadsError: the person waits for as many reads as one person may.
        OperationalError, OSError: the broker cannot be reached.
    """
    forget_old_rows()
    end_lost_reads()
    shared, now = find_shared_rows(conflict), timezone.now()
    if shared is None or conflict.table is None:
        return None
    earlier = ConflictRows.objects.filter(conflict=conflict).first()
    with transaction.atomic():
        rows, is_new = ConflictRows.objects.get_or_create(
            conflict=conflict, defaults={"asked_at": now}
        )
        if not is_new and is_waiting(rows):
            return rows
        check_room(by)
        rows.asked_at, rows.read_at, rows.path, rows.version = (
            now,
            None,
            shared.path,
            shared.version,
        )
        rows.positions = list(shared.positions)
        rows.columns, rows.rows, rows.error_code, rows.error_message = [], [], "", ""
        rows.save()
        read = note_read(rows, now, conflict.table, f"rows of conflict c-{conflict.pk}", by)
    send_read(read, READ_CONFLICT_ROWS, rows, earlier)
    rows.refresh_from_db()
    return rows


def forget_old_rows() -> None:
    ConflictRows.objects.filter(asked_at__lt=timezone.now() - _KEPT).delete()


def _files(facts: dict[str, Any]) -> list[dict[str, Any]]:
    decision = facts.get("decision")
    compared = decision.get("shared_files") if isinstance(decision, dict) else None
    return [file for file in compared or () if isinstance(file, dict)]


def _positions(file: dict[str, Any]) -> tuple[int, ...]:
    rows = file.get("common_rows") or ()
    return tuple(row for row in rows if isinstance(row, int) and row >= 0)


@dataclass(frozen=True, slots=True)
class SimilarConflict:
    """A similar conflict for a row. `passed_again`: its next attempt committed; None: none was."""

    pk: int
    occurred_at: datetime
    winning_version: int | None
    winner_operation: str
    winner_user_name: str
    row_count: int | None
    rule: str
    wasted_ms: int
    order_column: str
    shared_low: str
    shared_high: str
    passed_again: bool | None = None


@dataclass(frozen=True, slots=True)
class SimilarConflicts:
    """The latest of them, itself included; `is_capped` if there were more than are read."""

    conflicts: tuple[SimilarConflict, ...]
    is_capped: bool

    @property
    def count(self) -> int:
        return len(self.conflicts)


def similar_conflicts(visible: QuerySet[Conflict], conflict: Conflict) -> SimilarConflicts:
    """Return conflicts with the same end, operation and writer, in two queries."""
    same = visible.filter(
        table=conflict.table_id,
        kind=conflict.kind,
        current_operation=conflict.current_operation,
        current_user_name=conflict.current_user_name,
        occurred_at__gt=conflict.occurred_at - timedelta(days=DAYS),
        occurred_at__lte=conflict.occurred_at,
    )
    rows = list(same.order_by("-occurred_at", "-pk").values(*_FIELDS)[: MAX_SIMILAR + 1])
    again = _retry_outcomes(same.filter(pk__in=[row["pk"] for row in rows]))
    conflicts = (
        SimilarConflict(**row, passed_again=again.get(row["pk"])) for row in rows[:MAX_SIMILAR]
    )
    return SimilarConflicts(tuple(conflicts), len(rows) > MAX_SIMILAR)


@dataclass(frozen=True, slots=True)
class NeighborConflicts:
    """The previous and the next conflict of that kind on the table."""

    previous: int | None
    next: int | None


def neighbors(visible: QuerySet[Conflict], conflict: Conflict) -> NeighborConflicts:
    """Return the conflicts before and after one in time, in two queries."""
    same = visible.filter(table=conflict.table_id, kind=conflict.kind).order_by("occurred_at", "pk")
    now, pk = conflict.occurred_at, conflict.pk
    earlier = Q(occurred_at__lt=now) | Q(occurred_at=now, pk__lt=pk)
    later = Q(occurred_at__gt=now) | Q(occurred_at=now, pk__gt=pk)
    return NeighborConflicts(
        same.filter(earlier).values_list("pk", flat=True).last(),
        same.filter(later).values_list("pk", flat=True).first(),
    )


def _retry_outcomes(same: QuerySet[Conflict]) -> Mapping[int, bool]:
    """Return by conflict whether the next attempt committed, for those whose next attempt ended."""
    tried = same.filter(job__attempt_rows__number=F("attempt") + 1)
    rows = tried.order_by("-occurred_at").values_list("pk", "job__attempt_rows__outcome")
    return {pk: outcome == _COMMITTED for pk, outcome in rows[:MAX_SIMILAR] if outcome != _RUNNING}
