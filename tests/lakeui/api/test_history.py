"""The history of a table over REST: the numbers that its pages show."""

from datetime import timedelta

import pytest
from django.utils import timezone

from lakeui.catalog.models import CommitFile
from lakeui.conflicts.models import Conflict
from tests.lakeui.api.problem import problem
from tests.lakeui.people import make_conflict, make_job


@pytest.fixture
def api(table):
    return f"/api/v1/tables/{table.pk}"


def test_the_timeline_counts_commits_and_losses_by_bucket(client_for, table, api):
    now = timezone.now()
    table.commits.update(committed_at=now - timedelta(minutes=3))
    make_conflict(table, occurred_at=now - timedelta(hours=2))
    make_conflict(table, occurred_at=now - timedelta(days=9))
    body = client_for("viewer").get(f"{api}/timeline/?range=6h").json()
    assert (body["range"], body["bucket_seconds"], body["commit_count"]) == ("6h", 600, 3)
    assert (body["aborted"], body["beaten"]) == (1, 1)
    assert sum(bucket["aborted"] for bucket in body["buckets"]) == 1
    assert {row["operation"] for row in body["operations"]} == {"CREATE TABLE", "WRITE", "DELETE"}


def test_an_unknown_range_is_refused(client_for, api):
    problem(client_for("viewer").get(f"{api}/timeline/?range=7y"), 422, "INVALID_REQUEST")


def test_growth_has_sizes_as_text(client_for, table, api):
    body = client_for("viewer").get(f"{api}/growth/").json()
    assert [point["version"] for point in body["points"]] == [0, 1, 2]
    assert body["points"][-1]["size_bytes"] == str(3 * 2**53)


def test_the_layout_counts_every_mirrored_file_once(client_for, table, api):
    body = client_for("viewer").get(f"{api}/layout/").json()
    assert sum(size["files"] for size in body["sizes"]) == 2
    assert body["sizes"][0] == {
        "from_bytes": "0", "below_bytes": "65536", "files": 2, "size_bytes": "300",
    }  # fmt: skip
    assert body["unclustered"] is None


def test_a_version_names_the_conflicts_it_won_and_its_job(client_for, table, api):
    job = make_job(table, committed_version=2)
    lost = make_conflict(table)
    make_conflict(table, job=job, kind=Conflict.Kind.RESOLVED, winning_version=1)
    body = client_for("viewer").get(f"{api}/versions/2/").json()
    assert [loss["conflict_id"] for loss in body["effects"]["aborted"]] == [lost.pk]
    assert body["effects"]["resolved_count"] == 1
    assert body["job_id"] == str(job.pk)
    [row, *_] = client_for("viewer").get(f"{api}/versions/").json()["items"]
    assert (row["version"], row["aborted_by_it"], row["resolved"]) == (2, 1, 1)
    assert client_for("viewer").get(f"{api}/versions/?beat=true").json()["items"][0]["version"] == 2


def test_rows_of_a_version_are_text_or_null(client_for, table, api):
    table.commits.filter(version=1).update(operation_metrics={"numOutputRows": str(2**60)})
    body = client_for("viewer").get(f"{api}/versions/1/").json()
    assert body["rows"] == {"inserted": str(2**60), "updated": None, "deleted": None}
    replaced = {"operation": "WRITE", "predicate": "", "files_removed": 1}
    table.commits.filter(version=1).update(rows_removed=1000, changes_data=True, **replaced)
    body = client_for("viewer").get(f"{api}/versions/1/").json()
    assert (body["rows"]["deleted"], body["rows_removed"]) == ("1000", "1000")


def test_a_difference_lists_added_removed_and_marked_files(client_for, table, api):
    first, second = table.commits.get(version=1), table.commits.get(version=2)
    table.commits.filter(version__in=(1, 2)).update(files_added=1, files_mirrored=9)
    for commit, action, path in (
        (first, "add", "passing"), (second, "remove", "passing"), (second, "remove", "old"),
        (second, "remove", "marked"), (second, "add", "marked"),
    ):  # fmt: skip
        CommitFile.objects.create(commit=commit, action=action, path=path, size_bytes=7)
    files = client_for("viewer").get(f"{api}/diff/0...2/").json()["files"]
    said = {
        fate: [file["path"] for file in files[fate]["files"]]
        for fate in ("came", "gone", "changed")
    }
    assert said == {"came": ["f1", "f2"], "gone": ["old"], "changed": ["marked"]}
    assert (files["passing"], files["is_whole"]) == (1, True)


def test_a_difference_says_where_its_files_are_not_whole(client_for, table, api):
    table.commits.filter(version=2).update(files_added=900, files_mirrored=500)
    assert not client_for("viewer").get(f"{api}/diff/0...2/").json()["files"]["is_whole"]
