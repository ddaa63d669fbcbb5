"""Times grouped by the hour in the database: in UTC, regardless of their zone."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from lakeui.catalog.hours import UtcHour, hour_named
from lakeui.catalog.models import Commit
from tests.lakeui.factories import make_table

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    "moment",
    [
        datetime(2026, 11, 22, 9, 0, tzinfo=UTC),
        datetime(2026, 11, 22, 9, 59, 59, 999_999, tzinfo=UTC),
        datetime(2026, 11, 22, 0, 30, 0, 1, tzinfo=UTC),
        datetime(2026, 11, 22, 1, 15, tzinfo=timezone(timedelta(hours=5, minutes=30))),
        datetime(1999, 12, 31, 23, 59, 59, tzinfo=UTC),
    ],
)
def test_a_moment_is_in_its_hour_of_utc(moment):
    Commit.objects.create(table=make_table("sales.orders"), version=0, committed_at=moment)
    hours = Commit.objects.annotate(hour=UtcHour("committed_at")).values_list("hour", flat=True)
    exact = moment.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
    assert [hour_named(text) for text in hours] == [exact]


def test_a_commit_without_a_time_has_no_hour():
    Commit.objects.create(table=make_table("sales.orders"), version=0, committed_at=None)
    assert Commit.objects.annotate(hour=UtcHour("committed_at")).get().hour is None
