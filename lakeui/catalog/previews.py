"""Rows for display: a page requests them, a worker reads them, an hour later they are deleted."""

import re
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any, Protocol

from django.db import transaction
from django.db.models import Model
from django.utils import timezone
from kombu.exceptions import OperationalError

from engine.errors import InvalidSchemaError, UnknownColumnError
from engine.expressions.parse import parse_condition
from engine.schema.types import parse_schema
from lakeui.catalog.models import Preview, Table
from lakeui.celery import app
from lakeui.task_names import LIGHT_QUEUE, PREVIEW_TABLE

PREVIEW_ROWS = 100
PREVIEW_COLUMNS = 200
PREVIEW_TEXT = 500
PREVIEW_CONDITION = 2000
"""Characters of a condition."""
PREVIEW_NAMES = 4000
"""Characters of a list of columns."""
DIFFERENT_ROWS = 500
"""Stored rows of a comparison for each kind: removed, added and changed."""
PATIENCE = timedelta(seconds=60)
_NAME = re.compile(r"\s*(?:`(?:[^`]|``)*`|[^,]+)\s*")
_KEPT = timedelta(hours=1)  # erased rows must not stay here either


def ask_for_preview(
    table: Table,
    version: int,
    where: str = "",
    **more: Any,  # noqa: ANN401 - fields of a request
) -> Preview:
    """Have a worker read the requested rows, unless one was just asked to.

    `more` are `wanted`, `older_version`, `keys` and `profiled` of a `Preview`: the columns of the
    first matching rows, the differences from another version, or the contents of a column.
    """
    forget_old_previews()
    now = timezone.now()
    request: dict[str, Any] = {"version": version, "where": where, **more}
    digest = Preview(**request).digest_of_request()
    earlier = Preview.objects.filter(table=table, digest=digest).first()
    with transaction.atomic():
        preview, is_new = Preview.objects.get_or_create(
            table=table, digest=digest, defaults=request | {"asked_at": now}
        )
        if not is_new and is_waiting(preview):
            return preview
        Preview.objects.filter(pk=preview.pk).update(
            asked_at=now, read_at=None, columns=[], rows=[], answer={}, error_code="",
            error_message="",
        )  # fmt: skip
    send_or_undo(PREVIEW_TABLE, preview, earlier)
    preview.refresh_from_db()
    return preview


def send_or_undo(task: str, asked: Model, earlier: Model | None) -> None:
    """Have a worker answer a stored request, or restore the previous one.

    Otherwise people who ask again once the broker is back would wait for an answer that never
    comes.

    Raises:
        OperationalError, OSError: the broker cannot be reached.
    """
    try:
        app.send_task(task, [asked.pk], queue=LIGHT_QUEUE, expires=PATIENCE.seconds)
    except (OperationalError, OSError):
        if earlier is None:
            asked.delete()
        else:
            earlier.save()
        raise


def find_preview(table: Table, **request: Any) -> Preview | None:  # noqa: ANN401 - fields of a request
    """Return the stored answer to a request, named as in `ask_for_preview`."""
    digest = Preview(**request).digest_of_request()
    return Preview.objects.filter(table=table, digest=digest).first()


def check_condition(table: Table, where: str) -> None:
    """Refuse an invalid condition before a worker is asked.

    A condition with a column that the latest version lacks is left to the worker: another version
    may have it.

    Raises:
        ExpressionError: it is not allowed, not boolean, or does not parse.
    """
    if not where or not table.schema:
        return
    with suppress(UnknownColumnError, InvalidSchemaError):
        parse_condition(where, parse_schema(table.schema))


def names_in(text: str) -> list[str]:
    """Parse names of columns separated by commas; backticks surround one with a comma."""
    names = (match[0].strip() for match in _NAME.finditer(text))
    plain = (name[1:-1].replace("``", "`") if name.startswith("`") else name for name in names)
    return list(dict.fromkeys(name for name in plain if name))


def names_text(names: Sequence[str]) -> str:
    """Render names as the text that `names_in` parses."""
    return ", ".join(
        f"`{name.replace('`', '``')}`" if re.search(r"[,`]|^\s|\s$", name) else name
        for name in names
    )


class RequestedRows(Protocol):
    """Rows requested from a worker: of a preview, or of a conflict."""

    @property
    def asked_at(self) -> datetime:
        """Time of the request."""

    @property
    def read_at(self) -> datetime | None:
        """When the worker answered; None: not yet."""

    @property
    def error_code(self) -> str:
        """Why they could not be read."""


def is_waiting(rows: RequestedRows) -> bool:
    """Whether a worker may still answer; a request from a clock far ahead does not count."""
    return rows.read_at is None and abs(timezone.now() - rows.asked_at) < PATIENCE


def state_of_rows(rows: RequestedRows) -> str:
    """Return the state: waiting, read, failed, or lost if no worker answered in time."""
    if rows.read_at is not None:
        return "failed" if rows.error_code else "read"
    return "waiting" if is_waiting(rows) else "lost"


def forget_old_previews() -> None:
    Preview.objects.filter(asked_at__lt=timezone.now() - _KEPT).delete()
