"""Quiet hours: the hours of the day with the fewest row changes of a table."""

from datetime import UTC, datetime, timedelta

import pytest
from django.urls import reverse
from django.utils import timezone

from lakeui.catalog.hours import quiet_hours
from lakeui.catalog.models import Commit
from tests.lakeui.factories import make_commit, make_table
from tests.lakeui.people import person

NOW = datetime(2026, 11, 23, 12, 30, tzinfo=UTC)
pytestmark = pytest.mark.django_db


def busy(table, hours, days=5, **fields):
    """Create a commit at each of these hours on each of the last days."""
    base = Commit.objects.filter(table=table).count()
    made = [(day, hour) for day in range(1, days + 1) for hour in hours]
    for version, (day, hour) in enumerate(made, base):
        at = (NOW - timedelta(days=day)).replace(hour=hour)
        make_commit(table, version, committed_at=at, **fields)


def test_the_middle_of_the_longest_pause_is_offered():
    table = make_table()
    busy(table, range(8, 20))
    found = quiet_hours(table, NOW)
    assert (found.start, found.end, found.commits, found.all_commits) == (0, 3, 0, 60)
    assert found.cron == "0 1 * * *"


def test_hours_go_on_past_midnight():
    table = make_table()
    busy(table, [hour for hour in range(24) if hour not in {22, 23, 0}])
    assert (quiet_hours(table, NOW).start, quiet_hours(table, NOW).end) == (22, 1)


def test_operations_without_row_changes_keep_no_hour_busy():
    table = make_table()
    busy(table, [hour for hour in range(24) if hour not in {4, 5, 6}])
    busy(table, [4, 5, 6], operation="OPTIMIZE", changes_data=False)
    assert quiet_hours(table, NOW).start == 4


@pytest.mark.parametrize(
    ("hours", "days"),
    [(range(24), 5), (range(8, 20), 2), ([9], 19), ([], 1), ([h for h in range(24) if h % 3], 5)],
)
def test_no_hours_are_offered_where_none_are_quiet_or_commits_are_too_few(hours, days):
    table = make_table()
    busy(table, hours, days)
    assert quiet_hours(table, NOW) is None


def test_commits_of_a_month_ago_and_of_other_tables_say_nothing():
    table, other = make_table(), make_table("sales.others")
    busy(other, range(8, 20))
    busy(table, range(8, 20))
    Commit.objects.filter(table=table).update(committed_at=NOW - timedelta(days=31))
    assert quiet_hours(table, NOW) is None


def test_the_form_of_a_schedule_offers_them_and_so_does_rest(client):
    table = make_table()
    busy(table, range(8, 20))
    now = timezone.now()
    for commit in Commit.objects.filter(table=table):
        commit.committed_at += timedelta(days=(now - NOW).days)
        commit.save(update_fields=["committed_at"])
    client.force_login(person("ada", "admin"))
    page = client.get(reverse("schedule-new"), {"table": table.pk}).content.decode()
    assert "is quiet from 00:00 to 03:00 UTC: 0 of the 60 commits" in " ".join(page.split())
    assert "cron=0+1+%2A+%2A+%2A" in page or "cron=0+1+*+*+*" in page
    chosen = client.get(reverse("schedule-new"), {"table": table.pk, "cron": "0 1 * * *"})
    assert 'value="0 1 * * *"' in chosen.content.decode()
    told = client.get(f"/api/v1/tables/{table.pk}/quiet-hours/").json()["quiet_hours"]
    assert told == {
        "start": 0, "end": 3, "commits": "0", "all_commits": "60", "cron": "0 1 * * *",
    }  # fmt: skip
