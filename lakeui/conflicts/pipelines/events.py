"""Takes a batch of events of one program: each is stored once, or refused with its reason.

Events of a transaction may come twice, late, or without earlier ones dropped by the program: each
event therefore states all known facts of its transaction, and none relies on another.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import F, QuerySet
from django.utils import timezone

from engine.errors import ConflictError, RequestError
from lakeui.catalog.models import Table
from lakeui.conflicts.models import Conflict, Pipeline, PipelineTransaction
from lakeui.conflicts.pipelines.checks import (
    ABORTED,
    BEGUN,
    COMMITTED,
    ENDED,
    FAILED,
    REPORTED,
    CheckedEvent,
    Checks,
    Content,
    Event,
)
from lakeui.conflicts.pipelines.facts import ResolvedFacts
from lakeui.conflicts.recording import AttemptOrigin, record_aborted, record_resolved
from lakeui.conflicts.reports.links import LinkedReport, record_report
from lakeui.jobs.spans import span_ms

State = PipelineTransaction.State


@dataclass(frozen=True, slots=True, kw_only=True)
class Writer:
    """Who reports: the application, the machine it runs on, its user there, its engine."""

    application: str
    host: str = ""
    user: str = ""
    engine: str = ""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A refused event: its index in the batch, and why."""

    index: int
    field: str
    message: str
    remedy: str


@dataclass
class BatchResult:
    """The result of a batch."""

    accepted: int = 0
    duplicates: int = 0
    refused: list[Refusal] = field(default_factory=list)


def take_events(
    events: Sequence[Event],
    writer: Writer,
    by: User,
    tables: QuerySet[Table],
    *,
    dropped: int = 0,
) -> BatchResult:
    """Store a batch's events on these tables, all in one transaction.

    `dropped` is how many events the program had to drop since its last batch.
    """
    taken, now, checked = BatchResult(), timezone.now(), []
    checks = Checks(tables, now)
    for index, event in enumerate(events):
        try:
            checked.append(checks.check(event))
        except RequestError as fault:
            taken.refused.append(Refusal(index, fault.field, fault.what, fault.remedy))
    if not checked:
        return taken
    with transaction.atomic():
        pipeline = _pipeline(writer, by, now)
        for item in checked:
            is_new = _keep(item, _transaction(item, pipeline, writer, now), by)
            taken.accepted += is_new
            taken.duplicates += not is_new
        heard: dict[str, Any] = {"last_seen_at": now}
        if taken.accepted:  # a repeated batch reports the same drops
            heard["dropped"] = F("dropped") + dropped
        Pipeline.objects.filter(pk=pipeline.pk).update(**heard)
    return taken


def _pipeline(writer: Writer, by: User, now: datetime) -> Pipeline:
    pipeline, _ = Pipeline.objects.get_or_create(
        name=writer.application,
        reported_by=by,
        defaults={"first_seen_at": now, "last_seen_at": now},
    )
    return pipeline


def _transaction(
    checked: CheckedEvent, pipeline: Pipeline, writer: Writer, now: datetime
) -> PipelineTransaction:
    """Return the locked row, completed with the new facts of this event."""
    event = checked.event
    row, _ = PipelineTransaction.objects.select_for_update().get_or_create(
        pipeline=pipeline,
        table=checked.table,
        txn_id=event.txn_id,
        defaults={
            "host": writer.host,
            "user_name": writer.user,
            "engine": writer.engine,
            "attempt": event.attempt,
            "reported_at": now,
        },
    )
    row.run_id = row.run_id or event.run_id
    row.operation = row.operation or event.operation
    row.statement = row.statement or event.statement
    row.read_version = event.read_version if row.read_version is None else row.read_version
    return row


def _keep(checked: CheckedEvent, row: PipelineTransaction, by: User) -> bool:
    """Store one event; return whether it is new."""
    event, content = checked.event, checked.content
    if content is not None:
        is_new = not Conflict.objects.filter(transaction=row, sequence=event.sequence).exists()
        if is_new:
            _record(content, event, row, by)
    elif event.kind == BEGUN:
        is_new = row.started_at is None
    else:
        is_new = row.state == State.RUNNING
    row.started_at = row.started_at or event.started_at
    if event.kind in _ENDS and row.state == State.RUNNING:
        row.state, row.ended_at = _ENDS[event.kind], event.at
    if event.kind == COMMITTED and row.committed_version is None:
        row.committed_version = event.version
        resolved = row.conflicts.filter(kind=Conflict.Kind.RESOLVED)
        resolved.update(attempted_version=event.version)
    row.save()
    return is_new


def _record(content: Content, event: Event, row: PipelineTransaction, by: User) -> None:
    began = event.started_at or row.started_at or event.at
    origin = AttemptOrigin(
        attempt=event.attempt,
        transaction_id=row.pk,
        sequence=event.sequence,
        occurred_at=event.at,
    )
    writer = str(row.pipeline)
    wasted_ms = span_ms(began, event.at)
    match content:
        case None:
            return
        case ConflictError():
            facts = content.conflict
            current = replace(facts.current, user=writer)  # whatever name it reports
            record_aborted(
                type(content)(replace(facts, current=current)),
                table=row.table,
                origin=origin,
                wasted_ms=wasted_ms,
                wasted_bytes=event.wasted_bytes,
            )
        case ResolvedFacts():
            record_resolved(
                replace(content, current=replace(content.current, user=writer)),
                table=row.table,
                origin=origin,
                committed_version=row.committed_version,
            )
        case LinkedReport():
            record_report(
                content,
                by,
                read_version=event.read_version,
                operation=event.operation,
                origin=origin,
                user_name=writer,
                wasted_ms=wasted_ms,
            )


_ENDS: Mapping[str, State] = {
    ABORTED: State.ABORTED,
    REPORTED: State.ABORTED,
    COMMITTED: State.COMMITTED,
    FAILED: State.FAILED,
    ENDED: State.ENDED,
}
