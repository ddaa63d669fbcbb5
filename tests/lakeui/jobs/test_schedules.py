"""Schedules fire when they are due, as their owner, and one at a time."""

from datetime import UTC, datetime, timedelta

import pytest
from django.contrib.auth.models import Group, User
from django.utils import timezone

from engine.errors import RequestError
from lakeui.catalog.models import Table
from lakeui.jobs.errors import NotPermittedError
from lakeui.jobs.models import Job, Schedule
from lakeui.jobs.schedules import create_schedule, fire_due, next_due, set_enabled

pytestmark = pytest.mark.django_db


@pytest.fixture
def table(tmp_path, settings) -> Table:
    settings.TABLE_ROOTS = [str(tmp_path)]
    return Table.objects.create(name="sales.orders", uri=str(tmp_path / "orders"))


@pytest.fixture
def owner() -> User:
    user = User.objects.create_user("opt-scheduler")
    user.groups.add(Group.objects.get(name="maintainer"))
    return user


@pytest.fixture
def nightly(table, owner) -> Schedule:
    return create_schedule(
        table=table, name="nightly", cron="0 3 * * *", owner=owner, sql="OPTIMIZE sales.orders"
    )


def make_due(schedule: Schedule) -> None:
    past = timezone.now() - timedelta(days=3)
    Schedule.objects.filter(pk=schedule.pk).update(next_due_at=past)


@pytest.mark.parametrize(
    ("cron", "due"),
    [
        ("0 3 * * *", datetime(2026, 11, 3, 3, 0, tzinfo=UTC)),
        ("*/15 * * * *", datetime(2026, 11, 2, 12, 45, tzinfo=UTC)),
        ("  30  12 * *  1 ", datetime(2026, 11, 9, 12, 30, tzinfo=UTC)),
        ("0 0 1 1 *", datetime(2027, 1, 1, tzinfo=UTC)),
    ],
)
def test_a_cron_text_is_due_after_the_moment_it_is_asked_for(cron, due):
    assert next_due(cron, datetime(2026, 11, 2, 12, 30, tzinfo=UTC)) == due


@pytest.mark.parametrize(
    "cron", ["", "often", "* * * *", "61 * * * *", "0 0 31 2 *", "* * * * * *"]
)
def test_what_is_no_cron_text_is_refused(cron):
    with pytest.raises(RequestError) as refused:
        next_due(cron, timezone.now())
    assert refused.value.field == "cron"


def test_a_due_schedule_requests_one_job_for_all_it_missed(nightly, owner):
    assert fire_due() == 0
    make_due(nightly)
    assert fire_due() == 1
    assert fire_due() == 0
    job = Job.objects.get()
    assert (job.kind, job.requested_by, job.reason) == ("optimize", owner, "Schedule nightly")
    nightly.refresh_from_db()
    assert nightly.last_job == job
    assert nightly.next_due_at > timezone.now()


def test_a_schedule_waits_while_its_last_job_runs(nightly):
    for _ in range(2):
        make_due(nightly)
        fire_due()
    nightly.refresh_from_db()
    assert Job.objects.count() == 1
    assert "had not ended" in nightly.note


def test_an_owner_who_may_no_longer_is_refused_each_time(nightly, owner):
    owner.groups.clear()
    make_due(nightly)
    assert fire_due() == 0
    nightly.refresh_from_db()
    assert "needs the right" in nightly.note


def test_a_schedule_at_rest_does_not_fire_nor_make_up_for_it(nightly):
    make_due(nightly)
    nightly.refresh_from_db()
    set_enabled(nightly, enabled=False)
    assert fire_due() == 0
    set_enabled(nightly, enabled=True)
    assert fire_due() == 0


def test_a_schedule_is_checked_like_a_job(table, owner, nightly):
    with pytest.raises(NotPermittedError):
        create_schedule(
            table=table,
            name="x",
            cron="0 3 * * *",
            owner=User.objects.create_user("x"),
            kind="optimize",
        )
    for fault in ({"name": "nightly"}, {"name": " "}, {"cron": "x"}, {"kind": "unknown"}):
        request = {"name": "other", "cron": "0 3 * * *", "kind": "optimize", **fault}
        with pytest.raises(RequestError):
            create_schedule(table=table, owner=owner, **request)
