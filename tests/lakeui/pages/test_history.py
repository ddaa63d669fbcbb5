"""The history of a table: filters, details, and the description of a version."""

import json
import re
from datetime import timedelta

import pytest
from django.utils import timezone

from lakeui.catalog.models import CommitFile
from lakeui.conflicts.models import Conflict, Pipeline
from lakeui.jobs.models import Job
from tests.lakeui.factories import SCHEMA, make_commit, make_conflict, make_job, make_table


@pytest.fixture
def address(lake):
    return f"/tables/{lake.table.pk}/history/"


def rows(body):
    """Return the listed versions from the top, with "lost" for an attempt."""
    listed = body.partition("data-rows")[2].partition("</table>")[0]
    matches = re.findall(r'<tr id="v(\d+)"|<tr class="(is-lost)"', listed)
    return [int(version) if version else "lost" for version, _ in matches]


def filter_rows(client, address, query):
    return rows(client.get(f"{address}?{query}").content.decode())


def create_resolved(lake, version, **fields):
    job = make_job(lake.table, "merge", committed_version=version)
    return make_conflict(
        lake.table, job=job, kind=Conflict.Kind.RESOLVED, winning_version=version - 1, **fields
    )


def test_lost_attempts_stand_above_their_winner(client_for, lake, address):
    assert filter_rows(client_for("viewer"), address, "") == ["lost", 3, 2, 1, 0]
    assert filter_rows(client_for("viewer"), address, "aborted=off") == [3, 2, 1, 0]


def test_a_lost_attempt_is_narrowed_by_its_own_operation_and_writer(client_for, lake, address):
    client = client_for("viewer")
    assert filter_rows(client, address, "operation=UPDATE") == ["lost"]
    assert filter_rows(client, address, "operation=MERGE") == [2]
    assert filter_rows(client, address, "user=price-fixer") == ["lost"]
    assert filter_rows(client, address, "user=nobody") == []


def test_versions_that_made_others_lose_come_with_their_losers(client_for, lake, address):
    assert filter_rows(client_for("viewer"), address, "beat=true") == ["lost", 3]


def test_versions_that_resolved_a_conflict_are_distinguished_from_overlapping_ones(
    client_for, lake, address
):
    create_resolved(lake, 2)
    assert filter_rows(client_for("viewer"), address, "resolved=true") == [2]
    assert filter_rows(client_for("viewer"), address, "resolved=false") == [3, 1, 0]


def test_a_version_of_a_program_that_resolved_a_conflict_is_found_without_a_job(
    client_for, lake, address
):
    make_conflict(lake.table, kind="resolved", job=None, attempted_version=1, winning_version=0)
    assert 1 in filter_rows(client_for("viewer"), address, "resolved=true")


def test_text_is_looked_for_in_conditions_parameters_and_reasons(client_for, lake, address):
    make_commit(lake.table, 4, "DELETE", predicate="color = 'mauve'", operation_parameters={})
    make_commit(lake.table, 5, "WRITE", operation_parameters={"mode": "Overwrite"})
    make_commit(lake.table, 6, "WRITE", user_metadata="for the audit")
    client = client_for("viewer")
    assert filter_rows(client, address, "q=MAUVE") == [4]
    assert filter_rows(client, address, "q=overwrite") == [5]
    assert filter_rows(client, address, "q=audit") == [6]


def test_a_partition_is_found_by_the_files_that_a_version_touched(client_for, lake, address):
    for version, day in ((1, "2026-11-19"), (2, "2026-11-20")):
        CommitFile.objects.create(
            commit=lake.table.commits.get(version=version), action="add", path=str(version),
            partition_values={"day": day, "shop": "7"},
        )  # fmt: skip
    client = client_for("viewer")
    assert filter_rows(client, address, "partition=day=2026-11-20") == [2]
    assert filter_rows(client, address, "partition=day=2026-11-19/shop=7") == [1]
    assert filter_rows(client, address, "partition=day=2026-11-19/shop=8") == []


def test_counts_beside_operations_are_those_of_the_range(client_for, lake, address):
    old = timezone.now() - timedelta(days=3)
    make_commit(lake.table, 4, "OPTIMIZE", committed_at=old)
    client = client_for("viewer")
    day = client.get(f"{address}?range=24h").content.decode()
    week = client.get(f"{address}?range=7d").content.decode()
    assert "All <small>4</small>" in day
    assert "OPTIMIZE <small>" not in day
    assert "All <small>5</small>" in week
    assert "OPTIMIZE <small>1</small>" in week


def test_a_table_that_was_quiet_shows_the_span_that_holds_its_last_commit(
    client_for, lake, address
):
    lake.conflict.delete()
    lake.table.commits.update(committed_at=timezone.now() - timedelta(days=4))
    lake.table.last_commit_at = timezone.now() - timedelta(days=4)
    lake.table.save()
    body = client_for("viewer").get(address).content.decode()
    assert "counts of the last 7 d" in body
    old = client_for("viewer").get(f"{address}?range=6h").content.decode()
    assert "No commit in the last 6 h" in old


def test_the_drawing_marks_where_the_listed_versions_lie(client_for, lake, address):
    assert "band-view" in client_for("viewer").get(address).content.decode()
    assert "band-view" not in client_for("viewer").get(f"{address}?q=nothing").content.decode()


def test_a_bucket_of_the_drawing_lists_its_versions_alone(client_for, lake, address):
    client = client_for("viewer")
    body = client.get(f"{address}?range=6h").content.decode()
    links = re.findall(r'class="bucket" href="\?([^"]+)"', body)
    lists = [filter_rows(client, address, link.replace("&amp;", "&")) for link in links]
    assert sorted(v for listed in lists for v in listed if v != "lost") == [0, 1, 2, 3]


def test_an_opened_version_names_the_writes_it_aborted_and_how_it_was_committed(
    client_for, lake, address
):
    body = client_for("owner").get(f"{address}?open=3").content.decode()
    detail = body.partition('<tr class="detail">')[2].partition('name="v"')[0]
    assert f"c-{lake.conflict.pk}" in detail
    assert "UPDATE by price-fixer" in detail
    assert "Restore to v2…" in body
    assert "Schema, properties, layout, protocol: unchanged" in body
    assert re.search(r'name="v" value="3"[^>]* checked', body)
    assert re.search(r'name="v" value="2"[^>]* checked', body)
    assert not re.search(r'name="v" value="1"[^>]* checked', body)


def test_restoring_is_offered_to_people_who_may(client_for, lake, address):
    assert "Restore to" not in client_for("operator").get(f"{address}?open=3").content.decode()


def test_an_opened_version_shows_the_property_it_changed_among_its_neighbors(
    client_for, lake, address
):
    _define(lake.table, 4, {"a": "1", "b": "2", "c": "3", "d": "4", "keep": "7 days"})
    _define(lake.table, 5, {"a": "1", "b": "2", "c": "3", "d": "4", "keep": "14 days"})
    body = client_for("viewer").get(f"{address}?open=5").content.decode()
    assert "keep = 7 days" in body
    assert "keep = 14 days" in body
    assert "2 unchanged" in body
    assert "a = 1" not in body


def test_an_opened_version_names_the_stream_that_it_stopped(client_for, lake, address):
    commit = make_commit(lake.table, 4, "ADD COLUMNS")
    facts = {"version": 4, "table": lake.table.uri}
    make_job(
        lake.table, "stream", state=Job.State.FAILED, finished_at=commit.committed_at + timedelta(1),
        parameters={"source_table": lake.table.name, "stream_name": "orders-to-search"},
        error_code="DELTA_SCHEMA_CHANGED_WITH_VERSION", error_facts=facts,
    )  # fmt: skip
    client = client_for("viewer")
    assert "orders-to-search" in client.get(f"{address}?open=4").content.decode()
    assert "orders-to-search" not in client.get(f"{address}?open=3").content.decode()


@pytest.mark.parametrize(
    ("operation", "fields", "shown"),
    [
        ("WRITE", {"operation_metrics": {"numOutputRows": "5120"}}, "+5,120"),
        ("MERGE", {"operation_metrics": {"numTargetRowsInserted": 1, "numTargetRowsDeleted": 2}}, "+1 −2"),
        ("UPDATE", {"operation_metrics": {"numUpdatedRows": "812406"}}, "~812 k"),
        ("WRITE", {"rows_added": 77}, "+77"),
        ("WRITE", {"rows_added": 20, "rows_removed": 1000, "files_removed": 1}, "+20 −1,000"),
        ("OPTIMIZE", {}, "0"),
        ("UPDATE", {"files_removed": 1}, "not recorded"),
    ],
)  # fmt: skip
def test_rows_are_those_that_were_recorded(client_for, lake, address, operation, fields, shown):
    make_commit(lake.table, 4, operation, **fields)
    body = client_for("viewer").get(f"{address}?aborted=off").content.decode()
    row = body.partition('<tr id="v4"')[2].partition("</tr>")[0]
    cell = re.findall(r'<td class="num">(.*?)</td>', row)[0]
    assert re.sub("<[^>]+>", "", cell) == shown


def test_the_pages_of_a_narrowed_history_lose_no_lost_attempt_between_them(
    client_for, lake, address
):
    for version in range(4, 60):
        make_commit(lake.table, version, "WRITE" if version % 2 else "MERGE")
    lake.table.version = 59
    lake.table.save()
    Conflict.objects.all().delete()
    for version in range(2, 60):
        make_conflict(lake.table, winning_version=version, current_operation="WRITE")
    client = client_for("viewer")
    pages = [filter_rows(client, address, f"operation=WRITE&page_size=25&page={n}") for n in (1, 2)]
    assert sum(page.count("lost") for page in pages) == 58


def test_the_commit_can_be_had_as_it_is_kept(client_for, lake, address):
    answer = client_for("viewer").get(f"{address}3/?raw=download")
    assert answer.content.decode() == lake.table.commits.get(version=3).raw
    assert "attachment" in answer["Content-Disposition"]


def test_a_truncated_commit_shows_its_remaining_part(client_for, lake, address):
    lake.table.commits.filter(version=3).update(raw='{"commitInfo":{}}\n{"add":{"pa', raw_bytes=999)
    body = client_for("viewer").get(f"{address}3/").content.decode()
    assert "Cut at 29 characters of 999 bytes" in body
    assert "{&quot;add&quot;:{&quot;pa" in body


def _define(table, version, properties):
    metadata = {"id": "x", "schemaString": json.dumps(SCHEMA), "configuration": properties}
    raw = json.dumps({"commitInfo": {}}) + "\n" + json.dumps({"metaData": metadata}) + "\n"
    make_commit(
        table, version, "SET TBLPROPERTIES", changes_metadata=True, files_added=0, raw=raw,
        raw_bytes=len(raw),
    )  # fmt: skip


def test_a_file_that_only_got_another_vector_is_distinguished_from_an_added_one(
    client_for, lake, address
):
    commit = lake.table.commits.get(version=3)
    for action, path, marked in (("remove", "kept", 4), ("add", "kept", 11), ("remove", "gone", 2)):
        CommitFile.objects.create(commit=commit, action=action, path=path, deleted_row_count=marked)
    body = client_for("viewer").get(f"{address}3/").content.decode()
    files = body.partition('id="files"')[2].partition("</table>")[0]
    assert files.count("~ new vector") == files.count("~ old vector") == 1
    assert ">+7</span> 11" in files
    assert files.count("− removed") == 1


def test_a_version_leads_to_the_program_the_notebook_and_the_job_that_wrote_it(
    client_for, lake, settings
):
    commit, now = lake.table.commits.get(version=3), timezone.now()
    pipeline = Pipeline.objects.create(name="nightly", first_seen_at=now, last_seen_at=now)
    pipeline.transactions.create(
        table=lake.table, txn_id=commit.txn_id, committed_version=3, host="etl-3", user_name="ada",
        reported_at=now,
    )  # fmt: skip
    job = {"jobId": "7", "jobName": "<b>nightly</b>"}
    info = {"commitInfo": {"notebook": {"notebookId": "44/5"}, "job": job}}
    lake.table.commits.filter(version=3).update(raw=json.dumps(info))
    address = f"/tables/{lake.table.pk}/history/3/"
    body = " ".join(client_for("viewer").get(address).text.split())
    assert 'href="/conflicts/?user=pipeline+nightly">pipeline nightly</a> on etl-3 as ada' in body
    assert '<span class="mono">44/5</span>' in body
    assert "&lt;b&gt;nightly" in body
    settings.WORKSPACE_URL = "https://adb-1.example/"
    body = client_for("viewer").get(address).text
    assert 'href="https://adb-1.example/#notebook/44%2F5"' in body
    assert 'href="https://adb-1.example/#job/7"' in body
    for odd in ({"notebook": [1], "job": "x"}, {"notebook": {"notebookId": None}, "job": {}}):
        lake.table.commits.filter(version=3).update(raw=json.dumps({"commitInfo": odd}))
        assert "Workspace job" not in client_for("viewer").get(address).text


def test_a_transaction_shows_its_statements_and_the_tables_it_changed_with(client_for, lake):
    statements = [
        {"operation": "UPDATE", "predicate": json.dumps(["k = 2"])},
        {"operation": "WRITE", "mode": "Append"},
    ]
    fields = {
        "operation": "TRANSACTION",
        "txn_id": "of both",
        "operation_parameters": {"statements": json.dumps(statements)},
        "operation_metrics": {"numTargetRowsInserted": "3", "numTargetRowsUpdated": "1"},
        "files_removed": 1,
    }
    other = make_table("sales.people")
    make_commit(lake.table, 4, **fields)
    make_commit(other, 7, **fields)
    make_commit(other, 8, operation="TRANSACTION", txn_id="another")
    body = client_for("viewer").get(f"/tables/{lake.table.pk}/history/4/").content.decode()
    assert "<code>UPDATE k = 2</code>" in body
    assert "+3 ~1" in body
    linked = re.findall(rf"/tables/{other.pk}/history/(\d+)/", body)
    assert linked == ["7"]
