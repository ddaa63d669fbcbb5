"""News by table: every table counts once, regardless of its number of events."""

from datetime import timedelta

import pytest
from django.utils import timezone

from lakeui.catalog.roles import Role
from lakeui.conflicts.models import Conflict
from lakeui.jobs.models import Job
from lakeui.monitoring.overview import news
from lakeui.monitoring.recent_conflicts import day_of
from tests.lakeui.factories import make_conflict, make_job, make_table, make_user

pytestmark = pytest.mark.django_db


@pytest.fixture
def two_hours_ago():
    return timezone.now() - timedelta(hours=2)


@pytest.fixture
def lake(two_hours_ago):
    """Create tables: one changed and lost, one only lost, one has a failed job, and one is idle."""
    recent, old = two_hours_ago + timedelta(hours=1), two_hours_ago - timedelta(days=3)
    names = {"sales.orders": recent, "sales.returns": old, "crm.customers": None, "crm.old": old}
    made = {name: make_table(name, last_commit_at=at) for name, at in names.items()}
    for name in ("sales.orders", "sales.returns"):
        make_conflict(made[name], kind=Conflict.Kind.ABORTED, occurred_at=recent)
    failed = make_job(made["crm.customers"], state=Job.State.FAILED)
    Job.objects.filter(pk=failed.pk).update(finished_at=recent)
    return made


def test_a_table_with_news_of_two_kinds_counts_once(lake, two_hours_ago):
    told = news(make_user("viewer", Role.VIEWER), two_hours_ago, 8)
    assert (told.table_count, told.tables_with_aborts) == (3, 2)
    assert {row.table.name for row in told.first} == {*lake} - {"crm.old"}
    said = {row.table.name: (row.aborted, row.failed_jobs) for row in told.first}
    assert said == {"sales.orders": (1, 0), "sales.returns": (1, 0), "crm.customers": (0, 1)}


def test_those_that_failed_or_lost_most_come_first_and_all_are_counted(lake, two_hours_ago):
    for _ in range(2):
        make_conflict(
            lake["sales.returns"],
            kind=Conflict.Kind.ABORTED,
            occurred_at=two_hours_ago + timedelta(hours=1),
        )
    told = news(make_user("viewer", Role.VIEWER), two_hours_ago, 2)
    assert [row.table.name for row in told.first] == ["crm.customers", "sales.returns"]
    assert [row.aborted for row in told.first] == [0, 3]
    assert (told.table_count, told.tables_with_aborts) == (3, 2)


def test_the_losses_of_a_day_add_up_over_tables_hours_and_pairs(lake):
    day = day_of(make_user("viewer", Role.VIEWER), timezone.now())
    by_hour = sum(n for hours in day.aborted_by_hour.values() for n in hours.values())
    assert day.aborted.aborted == by_hour == sum(pair.times for pair in day.aborted.pairs) == 2
    assert day.aborted.wasted_ms == sum(loss.wasted_ms for loss in day.by_table.values())
    assert day.aborted.wasted_ms == sum(day.cost_by_hour.values())
