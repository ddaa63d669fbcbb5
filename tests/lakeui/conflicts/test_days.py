"""Conflicts are counted by day on insertion, so that a month's sums match its conflicts."""

from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest

from lakeui.catalog.roles import Role
from lakeui.conflicts.costs import OperationPair, count_out, recount, sums_since
from lakeui.conflicts.models import Conflict, ConflictDay
from lakeui.conflicts.unregistration import unregister_table
from lakeui.monitoring.recent_conflicts import conflict_sums
from tests.lakeui.people import make_conflict, make_table, person

pytestmark = pytest.mark.django_db

START = datetime(2026, 11, 1, 20, 30, tzinfo=UTC)
PAIRS = (("UPDATE", "DELETE"), ("MERGE", ""), ("OPTIMIZE", "MERGE"))


@pytest.fixture
def tables():
    """Return two tables with conflicts every five hours for four days, of each kind and pair."""
    made = [make_table("sales.orders"), make_table("sales.items")]
    for n in range(20):
        current, winner = PAIRS[n % 3]
        make_conflict(
            made[n % 2],
            kind=Conflict.Kind.values[n // 3 % 3],
            occurred_at=START + timedelta(hours=5 * n),
            current_operation=current,
            winner_operation=winner,
            wasted_ms=100 + n,
            wasted_bytes=n,
        )
    return made


def one_by_one(since):
    sums = {}
    for row in Conflict.objects.filter(occurred_at__gte=since):
        pair = OperationPair(row.kind, row.current_operation, row.winner_operation)
        before = sums.get(pair, (0, 0, 0))
        sums[pair] = (before[0] + 1, before[1] + row.wasted_ms, before[2] + row.wasted_bytes)
    return sums


def now_counted(since):
    return {pair: sums for pair, sums in sums_since(since).items() if sums[0]}


@pytest.mark.parametrize("hours", [-1, 0, 3.5, 20, 27.5, 51, 200])
def test_sums_since_a_moment_are_those_of_each_conflict_since(tables, hours):
    since = START + timedelta(hours=hours)
    assert now_counted(since) == one_by_one(since)


def test_unregistering_a_table_subtracts_its_conflicts_from_the_sums(tables):
    unregister_table(tables[0], None)
    assert 0 < sum(n for n, _, _ in now_counted(START).values()) == Conflict.objects.count()
    assert now_counted(START) == one_by_one(START)


def test_a_recount_mends_sums_of_rows_that_were_changed_by_hand(tables):
    Conflict.objects.filter(current_operation="MERGE").delete()
    assert now_counted(START) != one_by_one(START)
    recount()
    assert now_counted(START) == one_by_one(START)
    count_out(tables[0])
    count_out(tables[1])
    assert set(ConflictDay.objects.values_list("conflicts", "wasted_ms", "wasted_bytes")) == {
        (0, 0, 0)
    }


def test_a_person_who_sees_every_table_gets_the_same_sums_as_one_with_a_role_on_each(tables):
    viewer, guest = person("viewer", "viewer"), person("guest")
    for table in tables:
        table.grants.create(user=guest, role=Role.VIEWER)
    of_all, given = (conflict_sums(user, START + timedelta(hours=7)) for user in (viewer, guest))
    assert of_all == given
    assert Counter(pair.current for pair in of_all.pairs).keys() == {"UPDATE", "MERGE", "OPTIMIZE"}
    assert of_all.resolved > 0
