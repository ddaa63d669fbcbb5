"""The eligibility page: losses, obstacles, and tables that would benefit."""

import html
import re

import pytest
from django.utils import timezone

from lakeui.catalog.models import Table
from tests.lakeui.factories import make_commit, make_conflict, make_job, make_table

OLD = {
    "partition_columns": ["order_date"], "clustering_columns": [], "properties": {},
    "reader_features": [], "writer_features": [], "min_reader_version": 1, "min_writer_version": 4,
    "deletion_vectors": False, "row_tracking": False, "row_level_eligible": False,
}  # fmt: skip


@pytest.fixture
def page_path(lake):
    Table.objects.update(**OLD)
    make_commit(
        lake.table, 4, "UPDATE", predicate="order_id IN (SELECT id FROM b)", read_version=1,
        committed_at=timezone.now(), engine_info="Apache-Spark/3.5.1 Delta-Lake/3.2.0",
    )  # fmt: skip
    job = make_job(lake.table, "optimize")
    make_conflict(
        lake.table, job=job, current_operation="OPTIMIZE", row_count=None, subclass="", wasted_ms=90_000,
        rule="removed_file_removed", winning_version=4,
    )  # fmt: skip
    return f"/tables/{lake.table.pk}/eligibility/"


def get_text(client, path):
    return html.unescape(client.get(path).content.decode())


def test_losses_and_those_that_rows_would_have_saved_head_the_page(client_for, page_path):
    body = get_text(client_for("viewer"), page_path)
    assert "Not eligible for row-level concurrency" in body
    assert 'aria-label="1 would pass at row level, 1 would still be aborted, 0 undecidable"' in body
    assert "1 min 30 s" in body
    assert re.search(r'class="seg-pass" x="0%" y="0" width="50%"', body)


def test_failed_conditions_are_named_with_evidence_and_fix(client_for, page_path):
    body = get_text(client_for("owner"), page_path)
    assert '<code>partitionColumns = ["order_date"]</code>' in body
    assert "<code>delta.enableDeletionVectors absent</code>" in body
    assert "protocol 1, 4" in body
    assert "Protocol becomes 3, 7." in body
    assert body.count("Set as a job…") == 2
    plan = re.search(r'href="(/jobs/new/\?[^"]+)">Plan the rewrite', body)[1]
    assert "CLUSTER+BY" in plan
    assert "Create" in get_text(client_for("owner"), plan)


def test_a_viewer_is_offered_no_job(client_for, page_path):
    body = get_text(client_for("viewer"), page_path)
    assert "Set as a job" not in body
    assert "Plan the rewrite" not in body
    assert "Check again" not in body


def test_nothing_is_offered_while_the_installation_is_read_only(client_for, page_path, settings):
    settings.READ_ONLY = True
    assert "Set as a job" not in get_text(client_for("owner"), page_path)


def test_a_condition_that_falls_back_is_shown_with_its_writer_and_a_rewrite(client_for, page_path):
    body = get_text(client_for("viewer"), page_path)
    assert "1 of 2 fall back" in body
    assert "MERGE INTO … t USING (SELECT DISTINCT id FROM b) s" in body


def test_runtimes_that_wrote_here_are_marked_and_the_state_is_in_the_address(client_for, page_path):
    as_is = get_text(client_for("viewer"), page_path)
    fixed = get_text(client_for("viewer"), f"{page_path}?state=fixed")
    table = re.compile(r'<table class="data runtimes">(.*?)</table>', re.DOTALL)
    assert "row level</span>" not in table.search(as_is)[1].partition("<tfoot>")[0]
    assert table.search(fixed)[1].partition("<tfoot>")[0].count("row level</span>") == 5
    heads = re.findall(r'<th scope="col"( class="is-used")?>(\w[^<]*)<span', as_is)
    assert [name for used, name in heads if used] == ["This engine", "delta-spark, delta-rs"]


def test_an_eligible_table_shows_its_resolved_overlaps(client_for, lake):
    make_conflict(lake.table, kind="resolved")
    body = get_text(client_for("viewer"), f"/tables/{lake.table.pk}/eligibility/")
    assert "Eligible for row-level concurrency" in body
    assert 'aria-label="1 resolved, 1 aborted"' in body
    assert "After the fixes" not in body


def test_fixes_have_columns_where_something_is_to_be_fixed(client_for, lake, page_path):
    fixes = '<th scope="col">Fix</th>'
    assert fixes in get_text(client_for("viewer"), page_path)
    whole = make_table(
        "sales.whole",
        properties={"delta.enableDeletionVectors": "true", "delta.enableRowTracking": "true"},
    )
    met = get_text(client_for("viewer"), f"/tables/{whole.pk}/eligibility/")
    assert "<code>delta.enableRowTracking = true</code>" in met
    assert fixes not in met


def test_rest_shows_the_evidence_of_eligibility(client_for, lake, page_path):
    body = client_for("viewer").get(f"/api/v1/tables/{lake.table.pk}/eligibility/").json()
    evidence = body["evidence"]
    assert (evidence["aborted_writes"]["passes"], evidence["aborted_writes"]["saved_ms"]) == (
        1,
        "90000",
    )
    assert [line["state"] for line in evidence["of_table"]] == [
        "fails", "fails", "fails", "holds", "optional",
    ]  # fmt: skip
    assert evidence["of_table"][1]["cost"]["protocol"] == [3, 7]
    assert [column["takes_part"] for column in evidence["mended"]] == [True] * 5 + [False]
    assert evidence["of_writes"][0]["affected"] == 1


def test_engines_that_check_at_file_level_are_named_though_the_log_names_no_writer(
    client_for, lake, page_path
):
    lake.table.commits.update(
        user_name="", engine_info="delta-rs:py-1.6.6", committed_at=timezone.now()
    )
    body = get_text(client_for("viewer"), page_path)
    assert "at file level, here delta-rs 1.6.6 (5 commits)." in body
