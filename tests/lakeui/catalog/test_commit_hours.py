"""Commits by the hour: counted by the mirror, exact to the second; a guest sees those of visible tables."""

from datetime import UTC, datetime, timedelta

import pytest
from django.db.models import Sum

from lakeui.catalog.hours import (
    commits_since,
    count_in,
    count_out,
    growth_since,
    recount,
)
from lakeui.catalog.models import Commit, CommitHour
from lakeui.catalog.roles import Role
from tests.lakeui.factories import grant, make_table, make_user

pytestmark = pytest.mark.django_db
START = datetime(2026, 11, 1, 10, 0, tzinfo=UTC)


@pytest.fixture
def tables():
    """Return two tables with a commit every twenty minutes of a day."""
    made = [make_table("sales.orders"), make_table("crm.customers")]
    for table in made:
        rows = [
            Commit(
                table=table,
                version=n,
                committed_at=START + timedelta(minutes=20 * n),
                bytes_added=100,
                bytes_removed=30,
            )
            for n in range(72)
        ]
        count_in(map(vars, Commit.objects.bulk_create(rows)))
    return made


@pytest.mark.parametrize("minutes", [0, 1, 20, 59, 60, 61, 605, 1440, 5000])
def test_the_count_is_exact_to_the_second(tables, minutes):
    since = START + timedelta(minutes=minutes)
    counted = commits_since(make_user("viewer", Role.VIEWER), since)
    assert counted == Commit.objects.filter(committed_at__gte=since).count()


def test_a_guest_counts_the_tables_that_are_theirs(tables):
    guest = make_user("guest")
    grant(guest, tables[0], Role.VIEWER)
    assert commits_since(guest, START) == 72
    assert commits_since(make_user("stranger"), START) == 0


def test_commits_of_a_deleted_table_leave_the_sums(tables):
    count_out(tables[0])
    assert CommitHour.objects.aggregate(n=Sum("commits"))["n"] == 72


def test_counting_again_agrees_with_the_sums(tables):
    fields = ("hour", "commits", "bytes_added", "bytes_removed")
    before = list(CommitHour.objects.values_list(*fields))
    recount()
    assert list(CommitHour.objects.values_list(*fields)) == before


def test_growth_is_added_less_removed_bytes_and_hidden_from_readers_of_a_part(tables):
    viewer, guest = make_user("viewer", Role.VIEWER), make_user("guest")
    grant(guest, tables[0], Role.VIEWER)
    assert growth_since(viewer, START) == 2 * 72 * 70
    assert growth_since(viewer, START + timedelta(hours=23, minutes=30)) == 2 * 3 * 70
    assert growth_since(guest, START) is None


def test_commits_without_a_time_are_in_no_hour():
    table = make_table()
    count_in(map(vars, Commit.objects.bulk_create([Commit(table=table, version=0)])))
    assert not CommitHour.objects.exists()
