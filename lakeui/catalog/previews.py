"""Rows for display: a page requests them, a worker reads them, an hour later they are deleted."""

import re
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any, Protocol

from django.contrib.auth.models import User
from django.db import transaction
from django.utils import timezone

from engine.errors import InvalidSchemaError, UnknownColumnError
from engine.expressions.parse import parse_condition
from engine.schema.types import parse_schema
from lakeui.catalog.models import Preview, Table
from lakeui.catalog.reads import PATIENCE, check_room, end_lost_reads, note_read, send_read
from lakeui.task_names import PREVIEW_TABLE

PREVIEW_ROWS = 100
PREVIEW_COLUMNS = 200
PREVIEW_TEXT = 500
PREVIEW_CONDITION = 2000
"""Characters of a condition."""
PREVIEW_NAMES = 4000
"""Characters of a list of columns."""
DIFFERENT_ROWS = 500
"""Stored rows of a comparison for each kind: removed, added and changed."""
_NAME = re.compile(r"\s*(?:`(?:[^`]|``)*`|[^,]+)\s*")
_KEPT = timedelta(hours=1)  # erased rows must not stay here either


def ask_for_preview(
    table: Table,
    version: int,
    where: str = "",
    *,
    by: User | None = None,
    **more: Any,  # noqa: ANN401 - fields of a request
) -> Preview:
    """Have a worker read the requested rows, unless one was just asked to.

    `more` are `wanted`, `older_version`, `keys` and `profiled` of a `Preview`: the columns of the
    first matching rows, the differences from another version, or the contents of a column.

    Raises:
        TooManyReadsError: the person waits for as many reads as one person may.
        OperationalError, OSError: the broker cannot be reached.
    """
    forget_old_previews()
    end_lost_reads()
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
        check_room(by)
        Preview.objects.filter(pk=preview.pk).update(
            asked_at=now, read_at=None, columns=[], rows=[], answer={}, error_code="",
            error_message="",
        )  # fmt: skip
        read = note_read(preview, now, table, _subject_of(preview), by)
    send_read(read, PREVIEW_TABLE, preview, earlier)
    preview.refresh_from_db()
    return preview


def _subject_of(preview: Preview) -> str:
    if preview.older_version is not None:
        return f"rows that differ, v{preview.older_version} to v{preview.version}"
    return f"{'a profile' if preview.profiled else 'rows'} of v{preview.version}"


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
        """The time of the worker's answer; None before it."""

    @property
    def error_code(self) -> str:
        """The code of the error that prevented the read."""


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
