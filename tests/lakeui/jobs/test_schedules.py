"""Schedules fire when due, as their owner, and one run at a time."""

import re
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from django.contrib.auth.models import Group, User
from django.utils import timezone

from engine.errors import RequestError
from lakeui.catalog.models import Table
from lakeui.jobs.errors import NotPermittedError, TooManyJobsError
from lakeui.jobs.models import Job, Schedule
from lakeui.jobs.schedules import (
    SHOWN,
    change_schedule,
    create_schedule,
    cron_in_words,
    fire_due,
    latest_runs,
    neighbors,
    next_due,
    next_runs,
    run_now,
    set_enabled,
)

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


def test_a_schedule_of_a_dry_run_is_refused(table, owner, nightly):
    sql = "VACUUM sales.orders DRY RUN"
    with pytest.raises(RequestError, match="DRY RUN"):
        create_schedule(table=table, name="clean", cron="0 3 * * *", owner=owner, sql=sql)
    with pytest.raises(RequestError, match="DRY RUN"):
        change_schedule(nightly, owner, sql=sql)


@pytest.mark.parametrize(
    ("cron", "due"),
    [
        ("0 3 * * *", datetime(2026, 11, 3, 3, 0, tzinfo=UTC)),
        ("*/15 * * * *", datetime(2026, 11, 2, 12, 45, tzinfo=UTC)),
        ("  30  12 * *  1 ", datetime(2026, 11, 9, 12, 30, tzinfo=UTC)),
        ("0 0 1 1 *", datetime(2027, 1, 1, tzinfo=UTC)),
        ("0 3 * * 7", datetime(2026, 11, 8, 3, 0, tzinfo=UTC)),  # Sunday is 0 and 7
        ("0 3 * * 6-7", datetime(2026, 11, 7, 3, 0, tzinfo=UTC)),
        ("0 3 * * 7,3", datetime(2026, 11, 4, 3, 0, tzinfo=UTC)),
        ("0 3 1-7 * 1", datetime(2026, 12, 7, 3, 0, tzinfo=UTC)),  # the first Monday
    ],
)
def test_a_cron_text_is_due_after_the_given_moment(cron, due):
    assert next_due(cron, datetime(2026, 11, 2, 12, 30, tzinfo=UTC)) == due


@pytest.mark.parametrize(
    "cron",
    ["", "often", "0 0 * * 17", "0 0 * * 8", "* * * *", "61 * * * *", "0 0 31 2 *", "* * * * * *"],
)
def test_text_that_is_no_cron_expression_is_refused(cron):
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


@pytest.mark.parametrize(
    ("broken", "told", "is_due_again"),
    [
        ({"cron": "every night"}, "is not a cron schedule", False),
        ({"parameters": {"where": 7}}, "where", True),
        ({"parameters": [7]}, "Internal error", True),
        ({"max_retries": 30_000}, "retries", True),
    ],
)
def test_a_schedule_that_cannot_be_requested_gives_the_reason_and_stops_no_other(
    table, owner, nightly, broken, told, is_due_again
):
    later = create_schedule(
        table=table, name="z", cron="0 4 * * *", owner=owner, sql="OPTIMIZE sales.orders"
    )
    Schedule.objects.filter(pk=nightly.pk).update(**broken)
    for other_schedule in (nightly, later):
        make_due(other_schedule)
    fire_due()
    nightly.refresh_from_db()
    assert told in nightly.note
    assert (nightly.next_due_at is not None) == is_due_again
    assert Job.objects.filter(schedule=later).count() == 1
    assert fire_due() == 0


def test_the_jobs_of_a_schedule_have_its_time_limit(nightly, owner, settings):
    settings.JOB_MAX_TIME_LIMIT_SECONDS = 90_000
    change_schedule(nightly, owner, time_limit_s=90_000)
    with pytest.raises(RequestError):
        change_schedule(nightly, owner, time_limit_s=90_001)
    make_due(nightly)
    assert fire_due() == 1
    assert Job.objects.get().time_limit_s == run_now(nightly, owner).time_limit_s == 90_000


def test_a_schedule_requests_no_more_retries_than_a_job_may_have(table, owner, nightly):
    words = {"table": table, "owner": owner, "cron": "0 3 * * *", "sql": "OPTIMIZE sales.orders"}
    with pytest.raises(RequestError) as refused:
        create_schedule(name="eager", retries=21, **words)
    assert refused.value.field == "retries"
    with pytest.raises(RequestError):
        change_schedule(nightly, owner, retries=21)


def test_an_owner_who_lost_the_right_is_refused_each_time(nightly, owner):
    owner.groups.clear()
    make_due(nightly)
    assert fire_due() == 0
    nightly.refresh_from_db()
    assert "requires the right" in nightly.note


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


@pytest.mark.parametrize(
    ("cron", "words"),
    [
        ("0 2 * * *", "every day at 02:00 UTC"),
        ("*/15 * * * *", "every 15 min"),
        ("30 */6 * * *", "every 6 h at :30"),
        ("5 * * * *", "every hour at :05"),
        ("0 4 * * 0", "Sundays at 04:00 UTC"),
        ("0 4 * * 7", "Sundays at 04:00 UTC"),
        ("15 1 1 * *", "on day 1 of each month at 01:15 UTC"),
        ("0 0 1 1 *", ""),
        ("0 1,2 * * *", ""),
    ],
)
def test_a_plain_cron_text_is_described_in_words(cron, words):
    assert cron_in_words(cron) == words


def test_a_job_knows_the_schedule_that_made_it(nightly):
    make_due(nightly)
    fire_due()
    assert Job.objects.get().schedule == nightly


def test_a_schedule_run_now_still_fires_when_it_is_due(nightly, owner):
    due = nightly.next_due_at
    job = run_now(nightly, owner)
    nightly.refresh_from_db()
    assert (job.schedule, job.kind, nightly.next_due_at) == (nightly, "optimize", due)


def test_running_a_schedule_now_counts_as_a_job_and_its_firing_is_not_refused(
    nightly, owner, settings
):
    settings.JOBS_PER_PERSON = 1
    run_now(nightly, owner)
    with pytest.raises(TooManyJobsError, match="1 unfinished job,"):
        run_now(nightly, owner)
    make_due(nightly)
    assert fire_due() == 1
    assert Job.objects.filter(schedule=nightly).count() == 2


def test_a_changed_schedule_fires_by_its_new_words(nightly, owner):
    before = nightly.next_due_at
    change_schedule(nightly, owner, cron="0 4 * * *", sql="VACUUM sales.orders")
    nightly.refresh_from_db()
    assert (nightly.kind, nightly.statement, nightly.name) == (
        "vacuum",
        "VACUUM sales.orders",
        "nightly",
    )
    assert nightly.next_due_at != before
    set_enabled(nightly, enabled=False)
    change_schedule(nightly, owner, cron="0 5 * * *")
    assert nightly.next_due_at is None
    with pytest.raises(RequestError):
        change_schedule(nightly, owner, name="  ")


def test_a_schedule_that_fires_while_it_is_changed_does_not_fire_once_more(nightly, owner):
    make_due(nightly)
    opened = Schedule.objects.get(pk=nightly.pk)
    assert fire_due() == 1
    change_schedule(opened, owner, name="nights", retries=1, cron="0  3 * * *", sql="OPTIMIZE t")
    nightly.refresh_from_db()
    assert (nightly.name, nightly.max_retries, nightly.last_job) == ("nights", 1, Job.objects.get())
    Job.objects.update(state=Job.State.SUCCEEDED)
    assert fire_due() == 0


def test_a_due_run_is_not_lost_with_the_schedules_old_statement(nightly, owner):
    make_due(nightly)
    nightly.refresh_from_db()
    change_schedule(nightly, owner, cron="0 3 * * *", retries=1)
    set_enabled(nightly, enabled=True)
    assert fire_due() == 1


def test_a_schedule_that_fired_by_a_clock_ahead_fires_by_the_right_one(nightly):
    ahead = timezone.now() + timedelta(days=30)
    Schedule.objects.update(last_fired_at=ahead, next_due_at=ahead + timedelta(days=1))
    assert fire_due() == 0
    nightly.refresh_from_db()
    assert nightly.next_due_at - timezone.now() <= timedelta(days=1)


def test_statements_that_the_owner_may_not_run_are_not_scheduled_by_another(nightly, owner):
    operator = User.objects.create_user("operator")
    operator.groups.add(Group.objects.get(name="operator"))
    nightly.owner = operator
    with pytest.raises(NotPermittedError):
        change_schedule(nightly, owner, sql="VACUUM sales.orders")


def test_the_last_runs_of_each_schedule_are_shown_oldest_first(nightly, table, owner):
    other = create_schedule(table=table, name="b", cron="0 3 * * *", owner=owner, sql="OPTIMIZE t")
    now = timezone.now()
    for hours in range(SHOWN + 3):
        job = Job.objects.create(table=table, kind="optimize", schedule=nightly)
        Job.objects.filter(pk=job.pk).update(created_at=now - timedelta(hours=hours))
    runs = latest_runs([nightly, other], now - timedelta(days=30))
    moments = [job.created_at for job in runs[nightly.pk]]
    assert (len(moments), moments) == (SHOWN, sorted(moments))
    assert moments[-1] == now
    assert other.pk not in runs
    assert len(latest_runs([nightly, other], now - timedelta(hours=2))[nightly.pk]) == 3
    assert not latest_runs([], now)


def test_schedules_of_one_table_meet_within_the_hour(nightly, table, owner):
    def another(name: str, cron: str) -> Schedule:
        return create_schedule(
            table=table, name=name, cron=cron, owner=owner, sql="OPTIMIZE sales.orders"
        )

    near, far = another("near", "20 3 * * *"), another("far", "0 9 * * *")
    midnight = timezone.now().replace(hour=0, minute=0)
    for schedule, hours in ((nightly, 27), (near, 27.3), (far, 33)):  # whatever the hour is now
        schedule.next_due_at = midnight + timedelta(hours=hours)
        schedule.save()
    met = neighbors([nightly, near, far])
    assert [other_schedule.name for other_schedule in met[nightly.pk]] == ["near"]
    assert met[far.pk] == []


def test_the_next_runs_follow_one_another():
    after = datetime(2026, 11, 27, 7, 0, tzinfo=UTC)  # a Friday
    runs = next_runs("30 6 * * 1-5", after, 3)
    assert [f"{run:%a %H:%M}" for run in runs] == ["Mon 06:30", "Tue 06:30", "Wed 06:30"]
    with pytest.raises(RequestError):
        next_runs("every night", after)


@pytest.mark.parametrize(
    ("cron", "words"),
    [
        ("30 6 * * 1-5", "Mondays to Fridays at 06:30 UTC"),
        ("0 8 * * MON-FRI", "Mondays to Fridays at 08:00 UTC"),
        ("0 8 * * 0,6", "Saturdays and Sundays at 08:00 UTC"),
    ],
)
def test_spans_of_days_are_described_in_words(cron, words):
    assert cron_in_words(cron) == words


@pytest.mark.parametrize("step", range(1, 100))
def test_words_for_a_step_say_how_far_apart_the_runs_are(step):
    after = datetime(2026, 11, 24, tzinfo=UTC)
    for cron, unit in ((f"*/{step} * * * *", 60), (f"0 */{step} * * *", 3600)):
        runs = next_runs(cron, after, 100)
        apart = {(later - run).total_seconds() / unit for run, later in pairwise(runs)}
        said = re.search(r"every (\d+) (?:min|h)", cron_in_words(cron))
        assert said is None or apart == {int(said[1])}
        assert bool(cron_in_words(cron)) is (apart in ({1}, {step}))


def test_a_day_that_some_months_lack_is_described_as_such():
    assert cron_in_words("0 2 31 * *") == "on day 31 of each month that has one at 02:00 UTC"
    assert cron_in_words("0 2 28 * *") == "on day 28 of each month at 02:00 UTC"
