"""Rows of an outbox: claimed under a lease, deleted when sent, postponed when a try failed.

If a worker dies, its claimed rows are due again when the lease ends. So each row is delivered at
least once, or given up, and never waits unseen.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TypeVar

from django.db import connection
from django.db.models import Count, F, Min, QuerySet

from lakeui.monitoring.models import AlertDelivery, Delivery, LineageEvent

LEASE = timedelta(minutes=3)  # at least; a try that may take long has longer
LINEAGE_KEPT = timedelta(days=7)  # events of lineage; longer than their rounds look back
FIRST_PAUSE, LONGEST_PAUSE = timedelta(seconds=30), timedelta(hours=1)
_Row = TypeVar("_Row", bound=Delivery)


@dataclass(frozen=True, slots=True)
class OutboxState:
    """The waiting rows of an outbox, and its latest failure: "" if there is none."""

    name: str
    waiting: int
    oldest_at: datetime | None
    error: str


def outboxes() -> tuple[OutboxState, ...]:
    """Return the outbox of alerts and the outbox of lineage."""
    return _outbox("alerts", AlertDelivery), _outbox("lineage", LineageEvent)


def claim(due: QuerySet[_Row], now: datetime, seconds: float) -> _Row | None:
    """Claim the first due row for this worker until its lease ends.

    A try of it takes at most `seconds`.
    """
    row = due.first()
    if row is None:
        return None
    same = type(row)._default_manager.filter(pk=row.pk, next_try_at=row.next_try_at)
    lease = max(LEASE, timedelta(seconds=2 * seconds))
    if not same.update(next_try_at=now + lease, tries=F("tries") + 1):
        return None  # another worker has it
    row.tries += 1
    return row


def release_connection() -> None:
    """Leave the database to others while this thread waits for an answer, outside of transactions."""
    if not connection.in_atomic_block:
        connection.close()


def record_delivery(row: Delivery, now: datetime, **fields: object) -> None:
    """Write a row off."""
    ended = {"next_try_at": None, "ended_at": now, "error": ""} | fields
    _write(row, outcome=Delivery.Outcome.DELIVERED, **ended)


def record_failure(
    row: Delivery, what: str, now: datetime, hours: float, asked: timedelta = timedelta()
) -> None:
    """Postpone a row, each time twice as long and at least as `asked`; give it up in the end."""
    pause = min(FIRST_PAUSE * 2 ** min(row.tries - 1, 20), LONGEST_PAUSE)
    pause = max(pause, min(asked, LONGEST_PAUSE))
    if now + pause > row.created_at + timedelta(hours=hours):
        ended = {"next_try_at": None, "ended_at": now, "error": what}
        _write(row, outcome=Delivery.Outcome.GIVEN_UP, **ended)
    else:
        _write(row, next_try_at=now + pause, error=what)


def _outbox(name: str, model: type[Delivery]) -> OutboxState:
    waiting = model._default_manager.filter(next_try_at__isnull=False)
    sums = waiting.aggregate(count=Count("pk"), oldest=Min("created_at"))
    failed = waiting.exclude(error="").order_by("-next_try_at").values_list("error", flat=True)
    error = failed.first() if sums["count"] else None
    return OutboxState(name, sums["count"], sums["oldest"], error or "")


def _write(row: Delivery, **fields: object) -> None:
    type(row)._default_manager.filter(pk=row.pk).update(**fields)
