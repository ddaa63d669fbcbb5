"""Costs of conflicts on their list: by pair, by hour or partition; aborted and resolved apart."""

from datetime import timedelta

import pytest
from django.utils import timezone

from lakeui.conflicts.costs import cost_by_column, cost_by_pair
from lakeui.conflicts.models import Conflict
from tests.lakeui.factories import make_conflict, make_table

NOW = timezone.now()


@pytest.fixture
def costs(lake):
    """Add losses to the small lake: one by partition, one resolved, one reported, one two days ago."""
    Conflict.objects.all().delete()
    table = make_table("sales.order_items")
    common = {"facts": {}, "current_operation": "MERGE", "winner_operation": "DELETE"}
    make_conflict(
        table,
        occurred_at=NOW - timedelta(hours=2),
        partitions=["day=2026-11-19"],
        wasted_ms=120_000,
        wasted_bytes=7,
        **common,
    )
    make_conflict(table, occurred_at=NOW, kind=Conflict.Kind.RESOLVED, wasted_ms=999_999, **common)
    make_conflict(
        table, occurred_at=NOW, kind=Conflict.Kind.REPORTED, wasted_ms=0, wasted_bytes=0, **common
    )
    make_conflict(table, occurred_at=NOW - timedelta(days=2), wasted_ms=1, wasted_bytes=1, **common)
    return table


def test_a_pair_counts_aborted_and_resolved_writes_separately(costs):
    (pair,) = cost_by_pair(Conflict.objects.all()).pairs
    assert (pair.current, pair.winner) == ("MERGE", "DELETE")
    assert (pair.aborted, pair.reported, pair.resolved) == (2, 1, 1)
    assert (pair.wasted_ms, pair.wasted_bytes) == (120_001, 8), "what was resolved cost nothing"


def test_hours_are_of_the_last_day_and_of_losses(costs):
    hours = cost_by_column(Conflict.objects.all(), NOW)
    assert sum(hours.values()) == 120_000
    assert {pair for pair, _ in hours} == {"MERGE × DELETE"}


def test_the_list_shows_cost_by_hour_or_by_partition_as_its_address_says(client_for, costs):
    client = client_for("viewer")
    assert "Cost of conflicts by hour" in client.get("/conflicts/").content.decode()
    body = client.get("/conflicts/?heat=partition").content.decode()
    assert "Cost of conflicts by partition" in body
    assert "day=2026-11-19" in body
    assert client.get("/conflicts/?heat=color").status_code == 404


def test_costs_are_narrowed_as_the_list_is(client_for, costs):
    client = client_for("viewer")
    assert client.get("/api/v1/conflicts/costs/").json()["pairs"][0]["aborted"] == 2
    narrowed = client.get("/api/v1/conflicts/costs/?pair=UPDATE,DELETE").json()
    assert (narrowed["pairs"], narrowed["hours"], narrowed["partitions"]) == ([], [], [])
    assert client_for("stranger").get("/api/v1/conflicts/costs/").json()["pairs"] == []


def test_the_twin_of_costs_has_hours_and_partitions(client_for, costs):
    body = client_for("viewer").get("/api/v1/conflicts/costs/").json()
    assert [hour["wasted_ms"] for hour in body["hours"]] == ["120000", "0"]
    assert body["partitions"][0]["partition"] == "day=2026-11-19"
    assert body["partitions_are_cut"] is False


def test_the_link_to_all_pairs_leads_to_the_same_list(client_for, costs):
    client = client_for("viewer")
    twin = client.get("/conflicts/?heat=partition&page=1&operation=MERGE").context["costs_twin"]
    assert [pair["current"] for pair in client.get(twin).json()["pairs"]] == ["MERGE"]
