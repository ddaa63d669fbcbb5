"""Rows that nobody needs any more: spent sessions, answers that may no longer be asked for again."""

from datetime import timedelta
from typing import Any

from auditlog.models import LogEntry
from django.conf import settings
from django.contrib.sessions.models import Session
from django.db.models import QuerySet
from django.utils import timezone

from lakeui.api.idempotency import WINDOW
from lakeui.api.models import IdempotentAnswer

BATCH = 1000
MOST = 100_000
"""At once; the next turn goes on."""


def forget_spent_rows() -> int:
    """Remove them, and what the audit trail holds from before `AUDIT_KEEP_DAYS`; how many went.

    Jobs and conflicts stay: a loser is written down nowhere else, and the metrics count them.
    """
    now, days = timezone.now(), settings.AUDIT_KEEP_DAYS
    gone = _remove(Session.objects.filter(expire_date__lt=now))
    gone += _remove(IdempotentAnswer.objects.filter(created_at__lt=now - WINDOW))
    if days:
        gone += _remove(LogEntry.objects.filter(timestamp__lt=now - timedelta(days=days)))
    return gone


def _remove(rows: QuerySet[Any]) -> int:
    """In batches: no other writer waits for long."""
    gone = 0
    while gone < MOST and (batch := list(rows.order_by("pk").values_list("pk", flat=True)[:BATCH])):
        rows.model._default_manager.filter(pk__in=batch).delete()
        gone += len(batch)
    return gone
