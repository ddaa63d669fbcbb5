"""The scheduler of recurring tasks: it survives a wall clock that is set back.

Celery's scheduler stores each task's last and next run as times of that clock. On a machine whose
wrong clock is set back by an hour, it would send nothing for an hour: no lost job is found, no
table mirrored, no schedule fired, no alert sent.
"""

import logging
from datetime import datetime, timedelta

from celery.schedules import schedstate
from django.db import DatabaseError, InterfaceError, OperationalError, connection
from django_celery_beat.schedulers import DatabaseScheduler, ModelEntry

from engine.clock import Clock, SystemClock
from lakeui.jobs.turns import renew_beat

logger = logging.getLogger(__name__)

DATABASE_PAUSE_S = 2.0
REPORT_MS = 10_000
SLACK = timedelta(seconds=5)
"""Clocks are slewed by less."""


class Entry(ModelEntry):  # type: ignore[misc]  # it comes without types
    """A recurring task."""

    def is_due(self) -> schedstate:
        """Return as Celery does; a last run in the future counts as now."""
        now: datetime = self._default_now()
        if self.model.last_run_at > now + SLACK:
            self.last_run_at = self.model.last_run_at = now
        due: schedstate = super().is_due()
        return due


class Beat(DatabaseScheduler):  # type: ignore[misc]  # it comes without types
    """Celery's scheduler of tasks in the database, reset if the clock was set back."""

    Entry = Entry
    clock: Clock = SystemClock()
    _latest_ms = 0
    _reported_ms = 0

    def connect(self) -> None:
        """Connect to the database.

        Raises:
            OperationalError, InterfaceError: it is away.
        """
        connection.ensure_connection()

    def setup_schedule(self) -> None:
        """Wait for an unreachable database at the start, then do as Celery does."""
        while True:
            try:
                self.connect()
                break
            except (OperationalError, InterfaceError) as error:
                logger.warning("The database is unreachable, so beat waits for it: %s", error)
                self.clock.pause(DATABASE_PAUSE_S)
        super().setup_schedule()

    def report(self) -> None:
        """Record that beat lives; without a database, the next report does."""
        try:
            renew_beat()
        except (DatabaseError, InterfaceError) as error:
            logger.warning("Beat cannot report to the database: %s", error)
            connection.close()

    def tick(self, *args: object, **kwargs: object) -> float:
        """Run one turn, by the clock's present time."""
        now_ms = self.clock.now_ms()
        if now_ms < self._latest_ms - SLACK / timedelta(milliseconds=1):
            self._heap, self._last_timestamp, self._initial_read = None, None, True
        self._latest_ms = now_ms
        if abs(now_ms - self._reported_ms) >= REPORT_MS:
            self._reported_ms = now_ms
            self.report()
        seconds: float = super().tick(*args, **kwargs)
        return seconds
