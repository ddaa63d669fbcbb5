"""Periodic rounds run one at a time, and every sweep ends."""

from datetime import timedelta

import pytest
from django.conf import settings
from django.utils import timezone

from lakeui.catalog.models import Table
from lakeui.celery import app
from lakeui.jobs import job_rows
from lakeui.jobs.job_rows import SWEEP_BUDGET_S, send_overdue
from lakeui.jobs.models import Job, JobEvent, PeriodicTurn
from lakeui.jobs.requests import request_job
from lakeui.jobs.turns import take_turns

pytestmark = pytest.mark.django_db


class Ticking:
    """A clock that advances at each reading."""

    def __init__(self, step_s):
        self._now_s, self._step_s = 0.0, step_s

    def monotonic_s(self):
        self._now_s += self._step_s
        return self._now_s


def create_waiting_jobs(lake, count):
    """Create jobs that were never sent, the oldest first."""
    table = Table.objects.create(name="sales.orders", uri=str(lake / "orders"))
    job = request_job(table=table, kind="optimize", parameters={}, requested_by=None)
    Job.objects.filter(pk=job.pk).update(sent_at=timezone.now())
    begun = timezone.now() - timedelta(hours=1)
    fields = {name: getattr(job, name) for name in ("table", "kind", "parameters", "queue")}
    jobs = [Job(**fields, state=job.state) for _ in range(count)]
    Job.objects.bulk_create(jobs)
    for number, one in enumerate(jobs):
        Job.objects.filter(pk=one.pk).update(created_at=begun + timedelta(seconds=number))
    return [one.pk for one in jobs]


def list_sent():
    return list(
        Job.objects.exclude(sent_at=None).order_by("created_at").values_list("pk", flat=True)
    )


def test_a_round_that_begins_while_another_runs_does_nothing():
    ran = []

    @take_turns("a", seconds=60)
    def sweep():
        ran.append("sweep")
        sweep()
        other()

    @take_turns("b", seconds=60)
    def other():
        ran.append("other")

    sweep()
    assert ran == ["sweep", "other"]
    sweep()
    assert ran == ["sweep", "other"] * 2


def test_a_round_that_fails_gives_its_turn_back():
    @take_turns("a", seconds=60)
    def fail():
        raise ValueError

    for _ in range(2):
        with pytest.raises(ValueError):  # noqa: PT011 - the round's own
            fail()


def test_the_turn_of_a_dead_worker_expires_and_a_late_one_leaves_its_successor_alone():
    ran = []

    @take_turns("a", seconds=60)
    def late():
        PeriodicTurn.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
        next_round()

    @take_turns("a", seconds=60)
    def next_round():
        ran.append(PeriodicTurn.objects.get().holder)
        outer()

    @take_turns("a", seconds=60)
    def outer():
        ran.append("beside the next")

    late()
    assert len(ran) == 1


def test_every_periodic_task_takes_turns():
    app.loader.import_default_modules()
    for module in ("managed", "mirror", "periodic_tasks"):
        app.loader.import_task_module(f"workers.{module}")
    for entry in settings.CELERY_BEAT_SCHEDULE.values():
        run = app.tasks[entry["task"]].run
        assert hasattr(run, "__wrapped__"), entry["task"]


def test_a_sweep_sends_the_oldest_unsent_jobs_up_to_its_bound(tmp_path, settings, monkeypatch):
    settings.TABLE_ROOTS = [str(tmp_path)]
    jobs = create_waiting_jobs(tmp_path, 5)
    before = list_sent()
    monkeypatch.setattr(job_rows, "MOST_A_SWEEP", 3)
    assert send_overdue() == 3
    assert list_sent() == jobs[:3] + before
    assert send_overdue() == 2
    assert send_overdue() == 0


def test_a_sweep_begins_nothing_after_its_time(tmp_path, settings):
    settings.TABLE_ROOTS = [str(tmp_path)]
    create_waiting_jobs(tmp_path, 5)
    assert send_overdue(Ticking(SWEEP_BUDGET_S / 2)) == 1


@pytest.mark.usefixtures("unreachable_broker")
def test_a_sweep_tries_an_unreachable_broker_once(tmp_path, settings):
    settings.TABLE_ROOTS = [str(tmp_path)]
    create_waiting_jobs(tmp_path, 5)
    assert send_overdue() == 0
    assert JobEvent.objects.filter(message__startswith="The broker is unreachable").count() == 1
