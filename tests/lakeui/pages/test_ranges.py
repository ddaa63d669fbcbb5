"""The time range in the address: used by every panel of a page, and kept by the next page."""

import re
from datetime import UTC, datetime, timedelta

import pytest
from django.utils import timezone

from lakeui.catalog.hours import RANGES
from lakeui.conflicts.costs import cost_by_column
from lakeui.conflicts.models import Conflict
from lakeui.jobs.models import Job
from lakeui.monitoring.worker_state import throughput
from tests.lakeui.factories import make_conflict, make_job, make_table

PAGES = ("/", "/conflicts/", "/conflicts/repeated/", "/jobs/", "/schedules/", "/monitoring/")


def body_of(client, address):
    return client.get(address).content.decode()


def test_columns_of_a_range_are_its_hours_or_its_days_in_utc():
    now = datetime(2026, 11, 20, 2, 32, tzinfo=UTC)
    hours, days = RANGES["24h"].columns(now), RANGES["7d"].columns(now)
    assert (hours[0], hours[-1], len(hours)) == (
        now.replace(day=19, minute=0),
        now.replace(minute=0),
        25,
    )
    assert (days[0], len(days)) == (datetime(2026, 11, 13, tzinfo=UTC), 8)
    assert RANGES["30d"].columns(now)[-1] == datetime(2026, 11, 20, tzinfo=UTC)


def test_a_conflict_within_the_range_counts_in_every_panel_and_an_older_one_in_none(client_for):
    table, client = make_table(), client_for("owner")
    now = timezone.now()
    make_conflict(table, occurred_at=now - timedelta(days=3), wasted_ms=5_000)
    make_conflict(table, occurred_at=now - timedelta(days=20), wasted_ms=7_000)
    everything = Conflict.objects.all()
    for name, wasted_ms in (("24h", 0), ("7d", 5_000), ("30d", 12_000)):
        costs = cost_by_column(everything, now, RANGES[name])
        assert sum(costs.values()) == wasted_ms, name
        rows = client.get("/api/v1/conflicts/", {"range": name}).json()["items"]
        assert len(rows) == len(costs), name
        total = client.get("/api/v1/conflicts/costs/", {"range": name}).json()["total"]
        assert int(total["wasted_ms"]) == wasted_ms, name
        page = body_of(client, f"/conflicts/?range={name}")
        assert len(re.findall(r'class="mono" href="/conflicts/\d+/"', page)) == len(costs), name
        assert f'href="/api/v1/conflicts/?range={name}"' in page
    assert "2 conflicts in this list" in body_of(client, "/conflicts/?range=24h")
    assert "5.0 s" in body_of(client, "/?range=7d")


def test_jobs_that_ended_are_columns_of_the_range(client_for, people):
    now = timezone.now()
    for days in (0, 2, 9):
        job = make_job(make_table(f"sales.t{days}"), state=Job.State.SUCCEEDED)
        Job.objects.filter(pk=job.pk).update(
            finished_at=now - timedelta(days=days), created_at=now - timedelta(days=days)
        )
    ended = {name: throughput(people["owner"], now, RANGES[name]) for name in RANGES}
    assert [ended[name].total.ended for name in RANGES] == [1, 2, 3]
    assert [len(ended[name].hours) for name in RANGES] == [24, 7, 30]
    client = client_for("viewer")
    hours = client.get("/api/v1/monitoring/", {"range": "30d"}).json()["hours"]
    assert len(hours) == 30
    assert len(client.get("/api/v1/jobs/", {"range": "7d"}).json()["items"]) == 2


@pytest.mark.parametrize("address", PAGES)
def test_a_page_keeps_the_range_for_the_next_one(client_for, address):
    body = body_of(client_for("owner"), f"{address}?range=7d")
    main = re.search(r'aria-label="Main">.*?</nav>', body, re.DOTALL)[0]
    for kept in ("/", "/conflicts/", "/jobs/", "/schedules/", "/monitoring/"):
        assert f'href="{kept}?range=7d"' in main, kept
    assert 'href="/tables/"' in main
    plain = body_of(client_for("owner"), address)
    assert "range=7d" not in re.search(r'aria-label="Main">.*?</nav>', plain, re.DOTALL)[0]
    assert re.search(r'aria-label="Range[^"]*">', body)
