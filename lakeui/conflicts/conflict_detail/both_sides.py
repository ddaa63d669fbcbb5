"""Both sides of one recorded conflict: statement, reads, changes and writer of each."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec
from django.db.models.fields.json import KeyTextTransform

from engine.conflict_facts import Decision, SideChanges
from lakeui.catalog import log_values
from lakeui.catalog.command_tables import Reader
from lakeui.catalog.former_tables import is_former
from lakeui.catalog.models import Commit
from lakeui.conflicts.models import Conflict, PipelineTransaction
from lakeui.conflicts.redaction import redact_conflict
from lakeui.conflicts.statements.text import statement_text
from lakeui.jobs.models import Job, JobAttempt
from lakeui.jobs.version_jobs import job_of_version

RESOLVED_SHOWN = 3


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
