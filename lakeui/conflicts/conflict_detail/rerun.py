"""An aborted job run again from its conflict: as it was, or with a fix of its statement or its table.

The write may also have landed meanwhile, by another attempt of its own or by an earlier rerun.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from django.conf import settings
from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Q

from engine.commands.model import Command, Delete, Script, SetProperties, Update
from engine.conflict_facts import RemedyKind
from engine.conflicts.explain.remedy_table import CHANGES
from engine.errors import EngineError, RequestError
from lakeui.catalog.access import Person, action_for_kind, may
from lakeui.catalog.command_tables import Reader
from lakeui.catalog.previews import check_condition
from lakeui.conflicts.assessment import VECTORS_COST
from lakeui.conflicts.conflict_detail.advice import find_narrowing
from lakeui.conflicts.conflict_detail.sides import decision_of
from lakeui.conflicts.conflict_detail.trials import CONDITION, NARROW
from lakeui.conflicts.models import Conflict, PipelineTransaction
from lakeui.jobs.cancel_retry import RETRYABLE, hold_reruns, retry_job, runs_again
from lakeui.jobs.command_rules import command_of, statement_of
from lakeui.jobs.filters import redact_job
from lakeui.jobs.models import Job
from lakeui.jobs.row_impact import asks_name

AS_IT_WAS = str(RemedyKind.RETRY)
FIXES = (AS_IT_WAS, NARROW, CONDITION, RemedyKind.DELETION_VECTORS, RemedyKind.ROW_TRACKING)
_LABELS = {
    AS_IT_WAS: "Unchanged",
    NARROW: "Narrowed",
    CONDITION: "With your condition",
    RemedyKind.DELETION_VECTORS: "Deletion vectors first",
    RemedyKind.ROW_TRACKING: "Row tracking first",
}
_COSTS: Mapping[str, str] = {
    RemedyKind.DELETION_VECTORS: VECTORS_COST,
    RemedyKind.ROW_TRACKING: (
        "Every row gets an id, and writers without row tracking lose access. This changes "
        "the metadata, so concurrent writes fail."
    ),
}
_MAX_SHOWN = 3
_RERUNS_FOLLOWED = 4  # of one another


@dataclass(frozen=True, slots=True)
class LaterCommit:
    """The version of the later commit, and its job; None for a pipeline's."""

    version: int
    job_id: UUID | None
    is_same_job: bool


@dataclass(frozen=True, slots=True)
class ConflictRerun:
    """One way to run it again. `cost` is the fix's effect on the table, "" if there is none."""

    fix: str
    label: str
    command: Command
    statement: str
    cost: str
    is_permitted: bool

    @property
    def changes_table(self) -> bool:
        """Whether the fix is one of the table's settings."""
        return bool(self.cost)

    @property
    def asks_name(self) -> bool:
        """Whether the table's name is to be typed, as wherever a job is requested by hand."""
        return asks_name(self.command)

    @property
    def parameters(self) -> dict[str, Any]:
        """JSON-ready."""
        return self.command.parameters()


@dataclass(frozen=True, slots=True)
class Reruns:
    """The ways to run it again, the obstacle if there are none (else ""), and earlier reruns."""

    obstacle: str
    ways: tuple[ConflictRerun, ...]
    jobs: tuple[Job, ...]

    @property
    def latest(self) -> Job | None:
        return self.jobs[0] if self.jobs else None


def reruns_of(
    conflict: Conflict, user: Person, landed: LaterCommit | None, condition: str = ""
) -> Reruns:
    """Return a person's ways to run an aborted job again; `condition` is one they typed."""
    reader = Reader(user)
    jobs = () if conflict.job is None else tuple(
        redact_job(job, reader)
        for job in conflict.job.reruns.select_related("table").order_by("-created_at")[:_MAX_SHOWN]
    )  # fmt: skip
    obstacle = _obstacle(conflict, user, landed)
    ways = () if obstacle else tuple(_ways(conflict, user, condition))
    return Reruns(obstacle, ways, jobs)


def rerun_conflict(
    conflict: Conflict,
    by: User,
    *,
    fix: str = AS_IT_WAS,
    condition: str = "",
    confirm: str = "",
    reason: str = "",
) -> Job:
    """Queue a job for the aborted write. Of two concurrent requests, one is taken.

    Raises:
        RequestError: it cannot be run again from here, there is no such fix, or the confirmation is
            missing.
        NotPermittedError, ReadOnlyError, ExpressionError: see `retry_job`.
    """
    if conflict.table is not None:
        check_condition(conflict.table, condition)
    with transaction.atomic():
        if conflict.job is not None:
            hold_reruns(conflict.job)
        return _run_again(conflict, by, fix, condition, confirm, reason)


def _run_again(
    conflict: Conflict, by: User, fix: str, condition: str, confirm: str, reason: str
) -> Job:
    reruns = reruns_of(conflict, by, find_later_commit(conflict), condition)
    if reruns.obstacle or conflict.job is None or conflict.table is None:
        raise RequestError(reruns.obstacle, "Open another conflict.", field="conflict")
    way = next((way for way in reruns.ways if way.fix == fix), None)
    if way is None:
        offered = ", ".join(way.fix for way in reruns.ways)
        msg = f"{fix[:100]!r} cannot be applied to this write."
        raise RequestError(msg, f"Choose one of: {offered}.", field="fix")
    if way.asks_name and confirm.strip() != conflict.table.name:
        msg = f"This can remove rows of {conflict.table.name} or change the table itself."
        raise RequestError(msg, f"Type {conflict.table.name} to confirm.", field="confirm")
    changed = None if fix == AS_IT_WAS else way.command
    return retry_job(conflict.job, by, changed, reason)


def _obstacle(conflict: Conflict, user: Person, landed: LaterCommit | None) -> str:
    """Return why it cannot be run again from here; "" if it can."""
    job = conflict.job
    if conflict.kind == Conflict.Kind.RESOLVED:
        return "Both writes committed, so there is nothing to run again."
    if job is None or conflict.table is None:
        return "It was not a job of this installation. Run it again in the program that ran it."
    if landed is not None:
        return f"It has already committed as v{landed.version}. Running it again would write twice."
    return _not_now(job, user)


def _not_now(job: Job, user: Person) -> str:
    if job.state not in RETRYABLE:
        return "Its job has not ended. The job retries by itself."
    if runs_again(job):
        return "It is running again now."
    if not Reader(user).may_read(job):
        return "Its statement names tables that you may not see."
    return "This installation is read-only and accepts no jobs." if settings.READ_ONLY else ""


def _ways(conflict: Conflict, user: Person, condition: str) -> Iterator[ConflictRerun]:
    job = conflict.job
    try:
        command = command_of(job) if job is not None else None
    except (EngineError, TypeError):
        command = None
    if job is None or command is None:
        return
    yield _way(AS_IT_WAS, command, job, user)
    narrowed = find_narrowing(conflict, decision_of(conflict))
    given = (
        (NARROW, narrowed.condition if narrowed else ""),
        (CONDITION, condition if _stands_alone(conflict, condition) else ""),
    )
    for fix, also in given:
        if also and isinstance(command, Delete | Update):
            where = f"({command.where}) AND ({also})" if command.where else also
            yield _way(fix, replace(command, where=where), job, user)
    if isinstance(command, Script):
        return
    for kind in (RemedyKind.DELETION_VECTORS, RemedyKind.ROW_TRACKING):
        if kind in _kinds(conflict) and not _is_on(conflict, kind):
            enable = SetProperties(properties=dict(CHANGES[kind].properties))
            yield _way(kind, Script(steps=(enable, command)), job, user)


def _stands_alone(conflict: Conflict, condition: str) -> bool:
    """Whether AND can add it: `TRUE) OR (TRUE` would widen the condition."""
    if conflict.table is None:
        return False
    try:
        check_condition(conflict.table, condition)
    except EngineError:
        return False
    return True


def _way(fix: str, command: Command, job: Job, user: Person) -> ConflictRerun:
    action = action_for_kind(command.kind, command.parameters())
    return ConflictRerun(
        fix=str(fix),
        label=_LABELS[fix],
        command=command,
        statement=statement_of(command, job.table),
        cost=_COSTS.get(str(fix), ""),
        is_permitted=may(user, action, job.table),
    )


def _kinds(conflict: Conflict) -> set[str]:
    remedies = conflict.facts.get("remedies") if isinstance(conflict.facts, dict) else None
    return {str(remedy.get("kind")) for remedy in remedies or () if isinstance(remedy, dict)}


def _is_on(conflict: Conflict, kind: RemedyKind) -> bool:
    table = conflict.table
    if table is None:
        return True
    return table.deletion_vectors if kind is RemedyKind.DELETION_VECTORS else table.row_tracking


def find_later_commit(conflict: Conflict) -> LaterCommit | None:
    """Return the first commit of the job, of its reruns, or of the pipeline's other attempts.

    None: none so far, as known here.
    """
    job = conflict.job
    if conflict.kind == Conflict.Kind.RESOLVED:
        return None
    if job is None:
        return _find_pipeline_commit(conflict.transaction)
    if job.committed_version is not None:
        return LaterCommit(job.committed_version, job.pk, is_same_job=True)
    of_it = Q()
    for hops in range(1, _RERUNS_FOLLOWED + 1):
        of_it |= Q(**{"__".join(["retry_of"] * hops): job.pk})
    again = type(job).objects.filter(of_it, committed_version__isnull=False)
    row = again.order_by("finished_at").values_list("committed_version", "pk").first()
    if row is None or row[0] is None:
        return None
    return LaterCommit(row[0], row[1], is_same_job=False)


def _find_pipeline_commit(aborted: PipelineTransaction | None) -> LaterCommit | None:
    """Return the commit of a later attempt of the same run."""
    if aborted is None or not aborted.run_id:
        return None
    run = PipelineTransaction.objects.filter(pipeline=aborted.pipeline_id, run_id=aborted.run_id)
    later = run.filter(
        table=aborted.table_id, attempt__gt=aborted.attempt, committed_version__isnull=False
    )
    versions = later.order_by("attempt", "committed_version")
    version = versions.values_list("committed_version", flat=True).first()
    return None if version is None else LaterCommit(version, None, is_same_job=True)
