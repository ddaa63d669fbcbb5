"""Rows to show: a page asks for them, a worker reads them, and an hour later they are gone."""

from datetime import datetime, timedelta
from typing import Protocol

from django.db import transaction
from django.utils import timezone

from lakeui.catalog.models import Preview, Table
from lakeui.celery import app
from lakeui.task_names import LIGHT_QUEUE, PREVIEW_TABLE

PREVIEW_ROWS = 100
PREVIEW_COLUMNS = 200
PREVIEW_TEXT = 500
PREVIEW_CONDITION = 2000
"""Characters of a condition."""
PATIENCE = timedelta(seconds=60)
_KEPT = timedelta(hours=1)  # what a DELETE erased does not stay here either


def ask_for_preview(table: Table, version: int, where: str = "") -> Preview:
    """Have a worker read a version's first rows that match, unless one was asked to a moment ago."""
    forget_old_previews()
    now = timezone.now()
    with transaction.atomic():
        preview, is_new = Preview.objects.get_or_create(
            table=table, version=version, where=where, defaults={"asked_at": now}
        )
        if not is_new and is_waiting(preview):
            return preview
        Preview.objects.filter(pk=preview.pk).update(
            asked_at=now, read_at=None, columns=[], rows=[], error_code="", error_message=""
        )
    app.send_task(PREVIEW_TABLE, [preview.pk], queue=LIGHT_QUEUE, expires=PATIENCE.seconds)
    preview.refresh_from_db()
    return preview


class RequestedRows(Protocol):
    """Rows that a worker was asked to read: of a preview, or those that a conflict is about."""

    @property
    def asked_at(self) -> datetime:
        """When."""

    @property
    def read_at(self) -> datetime | None:
        """When the worker answered; None: not yet."""

    @property
    def error_code(self) -> str:
        """Why they could not be read."""


def is_waiting(rows: RequestedRows) -> bool:
    """Whether a worker may still answer."""
    return rows.read_at is None and timezone.now() - rows.asked_at < PATIENCE


def state_of_rows(rows: RequestedRows) -> str:
    """Waiting, read, failed, or lost where no worker answered in time."""
    if rows.read_at is not None:
        return "failed" if rows.error_code else "read"
    return "waiting" if is_waiting(rows) else "lost"


def forget_old_previews() -> None:
    Preview.objects.filter(asked_at__lt=timezone.now() - _KEPT).delete()
