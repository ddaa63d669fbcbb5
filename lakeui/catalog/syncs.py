"""The first sync of a registered table's log: requested by a request, done by a light worker.

A log may hold thousands of versions and a schema megabytes, so no request waits for it. The
worker's progress is in a row beside the table's, which is deleted when the log is read; a worker
that dies leaves it, and the next one takes it over.
"""

from datetime import datetime, timedelta

from django.conf import settings
from django.db import transaction
from django.db.models import Q
from django.utils import timezone
from kombu.exceptions import OperationalError

from lakeui.catalog.models import Table, TableSync
from lakeui.celery import app
from lakeui.task_names import LIGHT_QUEUE, MIRROR_TABLE

PATIENCE = timedelta(minutes=2)
"""How long a silent worker may still be reading."""
LONGEST_PAUSE = timedelta(minutes=15)
_MOST_DOUBLINGS = 10
_TELL_EVERY = timedelta(seconds=1)


def ask_for_sync(table: Table) -> TableSync:
    """Have a light worker read the log once the table's row is committed.

    Without a broker nobody is asked now: the periodic sync of all tables will do it.
    """
    sync = TableSync.objects.create(table=table, requested_at=timezone.now())
    transaction.on_commit(lambda: ask_worker(table), robust=True)
    return sync


def ask_worker(table: Table) -> bool:
    """Have a light worker mirror the new versions of the log; return whether it was asked."""
    try:
        app.send_task(MIRROR_TABLE, [table.pk], queue=LIGHT_QUEUE)
    except (OperationalError, OSError):
        return False
    return True


def sync_of(table: Table) -> TableSync | None:
    """Return the first sync of the log, None if it is over."""
    return TableSync.objects.filter(table=table).first() if table.version is None else None


def claim_sync(table: Table) -> bool:
    """Whether the caller shall read the log: not while another worker is at its first reading."""
    now = timezone.now()
    waits = nobody_at_it(now, PATIENCE)
    mine = {"started_at": now, "seen_at": now, "stage": "", "done": 0, "total": 0}
    if TableSync.objects.filter(waits, table=table).update(**mine):
        return True
    return not TableSync.objects.filter(table=table).exists()


def end_sync(table: Table) -> None:
    """End the first sync: the log was read, or the table records why it cannot be."""
    TableSync.objects.filter(table=table).delete()


def nobody_at_it(now: datetime, patience: timedelta) -> Q:
    """Return the condition for rows whose worker has not begun or was silent for `patience`.

    A time that far in the future counts as silent too.
    """
    return Q(seen_at=None) | ~Q(seen_at__range=(now - patience, now + patience))


def next_sync_at(table: Table) -> datetime | None:
    """Return when the periodic sync reads the table again; None where it is due.

    After each failure the pause doubles, from `MIRROR_SECONDS` to a quarter of an hour.
    """
    tried_at, tries = table.mirror_tried_at, table.mirror_tries
    if not table.mirror_error_code or tried_at is None:
        return None
    every: float = settings.CELERY_BEAT_SCHEDULE["sync the mirror of every table"]["schedule"]
    pause = min(timedelta(seconds=every * 2 ** min(tries, _MOST_DOUBLINGS)), LONGEST_PAUSE)
    now = timezone.now()
    return tried_at + pause if now - pause < tried_at <= now else None


class SyncProgress:
    """Writes down how far the first reading of a log is, once a second at most."""

    def __init__(self, table: Table) -> None:
        self._sync = TableSync.objects.filter(table=table)
        self._is_told = self._sync.exists()
        self._stage, self._at = "", datetime.min.replace(tzinfo=timezone.get_default_timezone())

    def __call__(self, stage: str, done: int = 0, total: int = 0) -> None:
        """Record `done` parts of a stage."""
        now = timezone.now()
        if self._is_told and (stage != self._stage or now - self._at >= _TELL_EVERY):
            self._stage, self._at = stage, now
            self._sync.update(seen_at=now, stage=stage, done=done, total=total)
