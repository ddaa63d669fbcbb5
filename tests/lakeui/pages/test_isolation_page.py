"""The isolation page: the matrix with past overlaps, the settings with their effects, and changing them."""

import csv
import html
import re

import pytest

from engine.commands.model import Command
from engine.protocol.properties import RESOLUTION_PROPERTY
from lakeui.catalog.models import Table
from lakeui.jobs.models import Job
from tests.lakeui.factories import make_commit, make_job


@pytest.fixture
def page(lake):
    """Return the page of a table whose v6, a DELETE that read v3, overlapped with two blind appends."""
    for version in (4, 5):
        make_commit(lake.table, version, "WRITE", rows_added=20, committed_at=lake.job.started_at)
    make_commit(
        lake.table, 6, "DELETE", read_version=3, predicate="customer_id = 81204",
        committed_at=lake.job.started_at,
        operation_parameters={"predicate": '["customer_id = 81204"]'},
    )  # fmt: skip
    Table.objects.update(version=6)
    return f"/tables/{lake.table.pk}/isolation/"


def test_a_cell_counts_overlaps_and_not_conflicts_alone(client_for, page):
    body = client_for("viewer").get(page).content.decode()
    assert "2 overlaps" in body
    assert "In all: 3 overlaps, 0 resolved, 1 aborted" in body


def test_the_page_and_rest_say_whether_writes_pass_commits_that_enable_a_feature(
    client_for, page, lake
):
    for asked, said in ((False, "aborts running"), (True, "does not abort running appends")):
        Table.objects.filter(pk=lake.table.pk).update(
            properties={RESOLUTION_PROPERTY: str(asked).lower()}
        )
        assert said in client_for("viewer").get(page).content.decode()
        answer = client_for("viewer").get(f"/api/v1/tables/{lake.table.pk}/isolation/").json()
        assert answer["resolves_feature_enablement"] is asked


def test_a_picked_cell_shows_its_conflicts_and_lists_its_overlaps(client_for, page, lake):
    client = client_for("viewer")
    body = client.get(page, {"cell": "UPDATE|DELETE"}).content.decode()
    assert "price-fixer was aborted by" in body
    assert "the same 3 rows of 1 file" in body
    listed = client.get(page, {"cell": "DELETE|INSERT", "show": "overlaps"}).content.decode()
    assert "1 to 2 of 2" in listed
    assert listed.count("no conflict</span>") == 2
    query = {"cell": "DELETE|INSERT", "export": "csv"}
    lines = b"".join(client.get(page, query).streaming_content).decode().splitlines()
    rows = list(csv.DictReader(lines))
    assert [(row["verdict"], row["version"], row["winning_version"]) for row in rows] == [
        ("passes", "6", "5"),
        ("passes", "6", "4"),
    ]


def test_a_snapshot_that_never_existed_is_shown_by_the_later_writes_condition(client_for, page):
    body = client_for("viewer").get(page).content.decode()
    assert ">customer_id = 81204</code> would have removed" in body
    assert "≤ 40" in body
    shown = client_for("viewer").get(page, {"show": "reordered"}).content.decode()
    assert "1 to 1 of 1" in shown
    lines = client_for("viewer").get(page, {"show": "reordered", "export": "csv"}).streaming_content
    rows = list(csv.DictReader(b"".join(lines).decode().splitlines()))
    assert [(row["version"], row["append_versions"]) for row in rows] == [("6", "4 5")]
    strict = client_for("viewer").get(page, {"level": "Serializable"}).content.decode()
    assert "1 out-of-order version would not" in strict


@pytest.mark.usefixtures("page")
def test_history_and_the_version_mark_reordered_writes(client_for, lake):
    client, below = client_for("viewer"), f"/tables/{lake.table.pk}/history/"
    body = client.get(below).content.decode()
    assert re.findall(r'href="[^"]*/history/(\d+)/#out-of-order"', body) == ["6"]
    assert 'id="out-of-order"' in client.get(f"{below}6/").content.decode()
    assert 'id="out-of-order"' not in client.get(f"{below}5/").content.decode()


def test_a_cell_behind_an_append_shows_the_caveat_on_fresh_data(client_for, page):
    body = client_for("viewer").get(page, {"cell": "UPDATE|INSERT"}).content.decode()
    assert "no other write has read the append" in body
    assert "in either order" not in body


def test_the_preview_shows_the_commit_and_who_would_notice(client_for, page, lake):
    make_job(lake.table, "stream", parameters={"source_table": lake.table.name, "stream_name": "orders-to-search"})  # fmt: skip
    query = {"level": "Serializable", "clustering": "customer_id"}
    body = client_for("viewer").get(page, query).content.decode()
    assert "delta.isolationLevel = Serializable" in body
    assert "clusteringColumns = customer_id" in body
    assert "1 running job would be aborted" in body
    assert "<code>orders-to-search</code> reads this table" in body
    assert "SET TBLPROPERTIES, then CLUSTER BY" in body
    assert "Of 2 overlaps with appends" in body


def test_clustering_is_the_only_change_that_every_open_write_passes(client_for, page):
    body = client_for("viewer").get(page, {"clustering": "order_date"}).content.decode()
    assert "No running write would be aborted" in body
    assert "running job would be aborted" not in body
    assert "No row moves until OPTIMIZE runs" in body
    assert "CLUSTER BY (order_date, customer_id)" in body


def test_settings_are_set_from_the_page_with_a_reason(client_for, page, lake):
    client, address = client_for("owner"), f"{page}?level=Serializable"
    assert 'name="confirm"' not in client.get(address).content.decode()
    refused = client.post(page, {"reason": "T-1"})
    assert refused.status_code == 400
    assert 'value="T-1"' in refused.content.decode()
    client.post(address, {"reason": "T-1"})
    job = Job.objects.get(kind="set_properties")
    assert (job.reason, job.parameters["properties"]) == (
        "T-1",
        {"delta.isolationLevel": "Serializable"},
    )


def test_two_changes_are_one_job_that_a_worker_understands(client_for, page):
    address = f"{page}?row_tracking=false&clustering="
    client_for("owner").post(address)
    job = Job.objects.get(kind="script")
    assert "UNSET" not in job.statement
    assert Command.from_parameters(job.kind, job.parameters).steps[1].columns == ()


def test_a_viewer_cannot_set_and_sees_who_can(client_for, page):
    address = f"{page}?level=Serializable"
    assert "need the role maintainer" in client_for("viewer").get(address).content.decode()
    assert client_for("viewer").post(address).status_code == 403
    assert client_for("stranger").post(address).status_code == 404
    assert not Job.objects.filter(kind="set_properties").exists()


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("clustering=nothing", "There is no top-level column nothing"),
        ("clustering=order_id,order_id", "at most 4 different columns"),
    ],
)
def test_impossible_columns_are_reported(client_for, page, query, said):
    assert said in client_for("owner").get(f"{page}?{query}").content.decode()
    client_for("owner").post(f"{page}?{query}")
    assert not Job.objects.filter(kind="alter_cluster_by").exists()


def test_the_twin_is_of_the_shown_list(client_for, page):
    client = client_for("viewer")
    for query, count in (("show=reordered", 1), ("cell=DELETE|INSERT&show=overlaps", 2)):
        body = client.get(f"{page}?{query}").content.decode()
        twin = re.search(r'href="([^"]+)" title="This page as JSON"', body)[1]
        assert len(client.get(html.unescape(twin)).json()["items"]) == count


@pytest.mark.parametrize("query", ["show=reordered&page=9", "cell=DELETE|INSERT&show=overlaps&page=x", "row_tracking=maybe"])  # fmt: skip
def test_unknown_pages_and_switches_are_not_found(client_for, page, query):
    assert client_for("viewer").get(f"{page}?{query}").status_code == 404
