"""Periodic tasks run again soon after a clock was set back."""

from datetime import timedelta

import pytest
from celery import Celery
from django.conf import settings
from django.db import OperationalError, connection
from django.utils import timezone
from django_celery_beat.models import PeriodicTask

from lakeui.jobs.beat import REPORT_MS, Beat
from lakeui.jobs.models import PeriodicTurn
from lakeui.jobs.turns import BEAT_SILENCE, beat_seen_at

pytestmark = pytest.mark.django_db(transaction=True)

HOUR = timedelta(hours=1)


class Ahead:
    """A clock that is ahead until it is corrected."""

    by = timedelta()
    pauses = 0

    def pause(self, _):
        self.pauses += 1

    def now_ms(self):
        return int((timezone.now() + self.by).timestamp() * 1000)


class Recorded(Beat):
    """A scheduler that records the tasks it would send."""

    def __init__(self, app, clock):
        self.sent, self.clock = [], clock
        super().__init__(app=app)
        self._finalize.cancel()  # at the end of the process the database of this test is gone

    def apply_entry(self, entry, **_):
        self.sent.append(entry.name)


@pytest.fixture
def app():
    app = Celery("clock", broker="memory://", set_as_current=False)
    app.conf.beat_schedule = {
        name: {"task": name, "schedule": seconds} for name, seconds in (("a", 0.01), ("b", 0.02))
    }
    app.conf.timezone = "UTC"
    return app


@pytest.fixture
def clock():
    return Ahead()


def turns(beat, many=200):
    """Return the tasks that are sent in a number of turns."""
    for _ in range(many):
        beat.tick()
    told, beat.sent = set(beat.sent), []
    return told


def test_celery_runs_this_scheduler():
    module, _, name = settings.CELERY_BEAT_SCHEDULER.partition(":")
    assert (module, name) == (Beat.__module__, Beat.__name__)


def test_tasks_that_ran_by_a_clock_ahead_run_again_after_a_start_with_the_right_clock(app, clock):
    assert turns(Recorded(app, clock)) == {"a", "b"}
    PeriodicTask.objects.update(last_run_at=timezone.now() + HOUR)
    assert turns(Recorded(app, clock)) == {"a", "b"}


def test_a_clock_set_back_while_it_runs_stops_no_task(app, clock):
    beat = Recorded(app, clock)
    clock.by = HOUR
    assert turns(beat) == {"a", "b"}
    beat._heap = [event._replace(time=event.time + HOUR.total_seconds()) for event in beat._heap]
    for entry in beat.schedule.values():
        entry.model.last_run_at = entry.last_run_at = timezone.now() + HOUR
    assert turns(beat) == set(), "it waits for the moments that it has noted"
    clock.by = timedelta()
    assert turns(beat) == {"a", "b"}


def test_a_start_while_the_database_is_away_waits_for_it(app, clock):
    class Away(Recorded):
        def connect(self):
            if self.clock.pauses < 3:
                raise OperationalError

    assert turns(Away(app, clock)) == {"a", "b"}
    assert clock.pauses == 3


def test_beat_reports_that_it_runs_and_outlives_an_unreachable_database(app, clock):
    def refuse(execute, sql, params, many, context):
        if "periodicturn" in sql:
            raise OperationalError
        return execute(sql, params, many, context)

    assert beat_seen_at() is None
    beat = Recorded(app, clock)
    with connection.execute_wrapper(refuse):
        beat.tick()
    assert beat_seen_at() is None
    clock.by = timedelta(milliseconds=REPORT_MS)
    beat.tick()
    assert timezone.now() - beat_seen_at() < BEAT_SILENCE
    PeriodicTurn.objects.update(expires_at=None)
    beat.tick()
    assert beat_seen_at() is None, "it says so from time to time"
