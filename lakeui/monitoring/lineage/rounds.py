"""The light worker's round: jobs and transactions that began or ended are reported, once each.

It reads the record, so no job and no report waits for it. An event of a run and a type is stored
once, however many rounds and workers find it.
"""

import logging
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import TypeVar

from django.conf import settings
from django.db.models import Exists, Max, OuterRef, Q

from lakeui.catalog.log_values import json_value
from lakeui.catalog.models import Commit
from lakeui.conflicts.models import PipelineTransaction
from lakeui.jobs.models import Job
from lakeui.monitoring.lineage.events import RunEventDraft, events_of_job, events_of_transaction
from lakeui.monitoring.models import LineageEvent

logger = logging.getLogger(__name__)

AT_ONCE = 500  # jobs, and transactions, of a round
MOST_WAITING = 20_000  # events; beyond them nothing is noted until some are delivered or given up
OVERLAP = timedelta(hours=1)  # rows that were written down late are found within it
GRACE = timedelta(minutes=2)  # for another attempt at a transaction, and for the mirror
State = PipelineTransaction.State
_Row = TypeVar("_Row", Job, PipelineTransaction)


def note(now: datetime) -> int:
    """Store new events; return how many. An event that cannot be made stops no other."""
    if LineageEvent.objects.filter(next_try_at__isnull=False).count() >= MOST_WAITING:
        logger.warning(
            "Lineage: %s events are waiting, and no more are queued", f"{MOST_WAITING:,}"
        )
        return 0
    noted = _note(_jobs(now), events_of_job, now)
    return noted + _note(_transactions(now), events_of_transaction, now)


def _note(
    rows: Iterable[_Row], events: Callable[[_Row], list[RunEventDraft]], now: datetime
) -> int:
    made = []
    for row in rows:
        try:
            made += [_build_event_row(told, row, now) for told in events(row)]
        except Exception:  # a fault of ours in one may not hold up the rest
            logger.exception(
                "The lineage event of %s %s could not be created", type(row).__name__, row.pk
            )
    before = LineageEvent.objects.filter(run_id__in={event.run_id for event in made})
    noted = set(before.values_list("run_id", "type"))
    new = [event for event in made if (event.run_id, event.type) not in noted]
    LineageEvent.objects.bulk_create(new, ignore_conflicts=True)
    return len(new)


def _build_event_row(
    told: RunEventDraft, row: Job | PipelineTransaction, now: datetime
) -> LineageEvent:
    about = {"job": row} if isinstance(row, Job) else {"transaction": row}
    return LineageEvent(
        run_id=told.run_id,
        type=told.type,
        at=told.at,
        content=json_value(told.as_json()),
        created_at=now,
        next_try_at=now,
        **about,
    )


def _jobs(now: datetime) -> Iterable[Job]:
    """Return running jobs without a START, and ended jobs without an end, in order of their end."""
    told = LineageEvent.objects.filter(job=OuterRef("pk"))
    begun = Job.objects.filter(state__in=Job.AT_WORK, finished_at=None).exclude(Exists(told))
    since = _find_start(Q(job__isnull=False), now)
    ended = Job.objects.filter(state__in=Job.ENDED, finished_at__gte=since).exclude(
        Exists(told.filter(type__in=LineageEvent.ENDS, run_id=OuterRef("pk")))
    )
    for rows in (begun.order_by("created_at"), ended.order_by("finished_at")):
        with_tables = rows.select_related("table", "schedule", "caused_by", "retry_of")
        yield from with_tables[:AT_ONCE]


def _transactions(now: datetime) -> Iterable[PipelineTransaction]:
    """Return transactions without events, or without their end.

    An aborted attempt waits for the next one, which continues its run; a commit waits for the
    mirror, which knows its contents. Neither waits for long.
    """
    told = LineageEvent.objects.filter(transaction=OuterRef("pk"))
    since = _find_start(Q(transaction__isnull=False), now)
    rows = PipelineTransaction.objects.filter(reported_at__gte=since - GRACE)
    running = Q(state=State.RUNNING) & ~Exists(told)
    ended = ~Q(state=State.RUNNING) & ~Exists(told.filter(type__in=LineageEvent.ENDS))
    waits = _waits_for_attempt(now) | _waits_for_mirror(now)
    due = rows.filter(running | (ended & ~waits)).exclude(_went_on())
    yield from due.select_related("table", "pipeline").order_by("reported_at", "pk")[:AT_ONCE]


def _waits_for_attempt(now: datetime) -> Q:
    aborted = Q(state__in=[State.ABORTED, State.FAILED], ended_at__gt=now - GRACE)
    return aborted & ~Q(run_id="")


def _waits_for_mirror(now: datetime) -> Q:
    mirrored = Commit.objects.filter(table=OuterRef("table"), version=OuterRef("committed_version"))
    return Q(~Exists(mirrored), state=State.COMMITTED, ended_at__gt=now - GRACE)


def _went_on() -> Q:
    """Return the condition for a later attempt at the same command, which has the run's end."""
    later = PipelineTransaction.objects.filter(
        pipeline=OuterRef("pipeline"),
        table=OuterRef("table"),
        run_id=OuterRef("run_id"),
        attempt__gt=OuterRef("attempt"),
    )
    return Q(Exists(later), ~Q(run_id=""), state__in=[State.ABORTED, State.FAILED])


def _find_start(of: Q, now: datetime) -> datetime:
    """Return from when rows are read: a little before the last noted end, at most a day back."""
    back = now - timedelta(hours=settings.LINEAGE_GIVE_UP_HOURS)
    last = LineageEvent.objects.filter(of, type__in=LineageEvent.ENDS).aggregate(Max("at"))
    return max(back, last["at__max"] - OVERLAP) if last["at__max"] else back
