"""The values of the rows touched by both sides: a page requests them, a worker reads them.

Like previews they are deleted after an hour, and visible to people who may see the table.
"""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.contrib.auth.models import User
from django.db import transaction
from django.utils import timezone

from lakeui.catalog.previews import is_waiting
from lakeui.catalog.reads import check_room, note_read, send_read
from lakeui.conflicts.models import Conflict, ConflictRows
from lakeui.task_names import READ_CONFLICT_ROWS

MAX_ROWS = 50
_KEPT = timedelta(hours=1)


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
