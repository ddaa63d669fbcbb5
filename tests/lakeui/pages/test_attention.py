"""Attention on the first page, and its mutes."""

import re
from datetime import timedelta

import pytest
from auditlog.models import LogEntry
from django.utils import timezone

from lakeui.catalog.models import Table
from lakeui.conflicts.models import Erasure
from lakeui.jobs.models import Job, Schedule
from lakeui.monitoring.attention_queries import quiet_hours
from lakeui.monitoring.models import Mute
from tests.lakeui.factories import make_commit, make_conflict, make_job, make_table

pytestmark = pytest.mark.django_db


def body_of(client, path="/attention/"):
    """Return the page's words, without markup."""
    text = re.sub(r"<[^>]+>", " ", client.get(path).content.decode())
    return re.sub(r"\s+", " ", text).replace("&#x27;", "'")


def test_rows_that_outlived_an_erasure_are_reported_until_it_ran_again(client_for):
    table = make_table()
    row = Erasure.objects.create(
        table=table, append_version=9, delete_version=10, predicate="`customer_id` = 7",
        delete_writer="gdpr-eraser", rows_at_most=5120, at=timezone.now(),
    )  # fmt: skip
    body = body_of(client_for("viewer"))
    assert "Up to 5,120 rows may have survived a DELETE in sales.orders" in body
    assert "appended in v9 while gdpr-eraser was deleting customer_id = 7." in body
    assert "orders that append after v10" in body
    Erasure.objects.filter(pk=row.pk).update(settled_by=12)
    assert "Nothing needs attention" in body_of(client_for("viewer"))


def test_an_unreachable_table_says_since_when_and_how_often_it_was_tried(client_for):
    began = timezone.now() - timedelta(hours=3)
    make_table(
        "ml.features", mirror_error_code="LAKE_STORAGE_ERROR", mirror_error="403 Forbidden.",
        mirror_failed_at=began, mirror_tries=38, mirrored_at=began,
    )  # fmt: skip
    body = body_of(client_for("viewer"))
    assert "ml.features cannot be read 403 Forbidden." in body
    assert "38 tries. Pages show version 12 as mirrored 3 h ago." in body
    assert "Try now" not in body
    assert "Try now" in body_of(client_for("owner"))


def test_many_aborted_writes_name_those_that_would_pass_at_row_level(client_for):
    table = make_table("sales.items", row_level_eligible=False, row_level_reason="partitioned")
    for number in range(3):
        make_conflict(table, occurred_at=timezone.now() - timedelta(hours=number))
    make_conflict(table, rule="metadata_changed", occurred_at=timezone.now() - timedelta(days=9))
    body = body_of(client_for("viewer"))
    assert "3 writes aborted in 24 h on sales.items" in body
    assert (
        "No row-level concurrency: partitioned. 0 of the 4 in 30 days would pass at row level"
        in body
    )
    assert "Row-level eligibility" in body


def test_writes_that_would_pass_by_rows_are_counted_from_the_records(client_for):
    table = make_table("sales.items", row_level_eligible=False, row_level_reason="partitioned")
    for version in range(3):
        make_commit(table, version, "DELETE", predicate="order_id = 2")
        make_conflict(
            table, current_operation="UPDATE", winner_operation="DELETE", row_count=None, subclass="",
            current_predicate="order_id = 1", winning_version=version,
        )  # fmt: skip
    assert "3 of the 3 in 30 days would pass at row level." in body_of(client_for("viewer"))


def test_one_metadata_change_that_cost_two_writes_is_reported_once(client_for):
    table = make_table()
    for operation in ("MERGE", "OPTIMIZE"):
        make_conflict(
            table, rule="metadata_changed", winning_version=9, current_operation=operation,
            winner_operation="SET TBLPROPERTIES", winner_user_name="schema-bot", wasted_ms=60_000,
            wasted_bytes=2**30,
        )  # fmt: skip
    make_conflict(table, rule="metadata_changed", winning_version=4)
    response = client_for("viewer").get("/attention/").content.decode()
    assert f"/tables/{table.pk}/concurrency/?last=12" in response
    body = body_of(client_for("viewer"))
    assert body.count("One SET TBLPROPERTIES aborted 2 writes") == 1
    assert (
        "v9 by schema-bot was committed while a MERGE and an OPTIMIZE ran: 2 min and 2 GiB" in body
    )
    items = client_for("viewer").get("/api/v1/attention/").json()["items"]
    facts = next(item["facts"] for item in items if item["check_name"] == "metadata_cost")
    assert (facts["aborted"], facts["aborted_operations"]) == (2, ["MERGE", "OPTIMIZE"])


def test_a_costly_change_names_the_hours_without_commits():
    table, now = make_table(), timezone.now()
    midnight = now.replace(hour=0, minute=30)
    for version, hour in enumerate((1, 2, 6, 7, 12, 18, 22)):
        make_commit(
            table, version, committed_at=midnight - timedelta(days=1) + timedelta(hours=hour)
        )
    assert quiet_hours([table.pk], now) == {table.pk: (13, 18)}
    assert quiet_hours([make_table("never.written").pk], now) == {}


def test_hours_without_a_commit_may_lie_around_midnight():
    table, noon = make_table(), timezone.now().replace(hour=12, minute=0)
    for version, hour in enumerate(range(-6, 7)):
        made = noon - timedelta(days=1) + timedelta(hours=hour)
        make_commit(table, version, committed_at=made)
    assert quiet_hours([table.pk], timezone.now()) == {table.pk: (19, 6)}


def test_a_failed_job_that_was_run_again_is_no_longer_reported(client_for):
    table = make_table()
    ended = {"state": Job.State.FAILED, "finished_at": timezone.now()}
    failed = make_job(table, "append", error_message="4 rows do not fit.", **ended)
    assert "APPEND on sales.orders failed 4 rows do not fit." in body_of(client_for("viewer"))
    make_job(table, "append", retry_of=failed)
    assert "Nothing needs attention" in body_of(client_for("viewer"))


def test_an_unknown_outcome_is_not_listed_as_a_failure(client_for):
    make_job(
        make_table(), "merge", state=Job.State.FAILED, finished_at=timezone.now() - timedelta(days=3),
        error_code="LAKE_COMMIT_OUTCOME_UNKNOWN",
    )  # fmt: skip
    body = body_of(client_for("viewer"))
    assert "The outcome of MERGE on sales.orders is unknown" in body
    assert "MERGE on sales.orders failed" not in body


def test_a_schedule_whose_last_job_was_aborted_is_reported_with_its_next_time(client_for, people):
    table = make_table()
    job = make_job(table, "merge", state=Job.State.CONFLICTED, error_message="Version 9 landed.")
    Schedule.objects.create(
        name="nightly", table=table, cron="0 2 * * *", kind="merge", owner=people["owner"],
        last_job=job, last_fired_at=timezone.now(), next_due_at=timezone.now() + timedelta(hours=1),
    )  # fmt: skip
    body = body_of(client_for("viewer"))
    assert "Schedule nightly fails on sales.orders Version 9 landed. It is due again at" in body


def test_waiting_jobs_and_silent_workers_are_reported(client_for):
    long_ago = timezone.now() - timedelta(hours=1)
    table = make_table()
    make_job(table, "optimize", state=Job.State.QUEUED, created_at=long_ago)
    make_job(
        table, "delete", state=Job.State.RUNNING, worker="spark-2", started_at=long_ago,
        heartbeat_at=long_ago, lease_expires_at=long_ago,
    )  # fmt: skip
    body = body_of(client_for("viewer"))
    assert "1 job waits in the queue spark" in body
    assert "The worker of DELETE on sales.orders sends no heartbeat" in body


def test_small_files_say_when_they_were_packed_last(client_for):
    packed = timezone.now() - timedelta(days=11)
    make_table("web.events", file_count=100, small_file_count=80, last_optimize_at=packed)
    assert "80 of 100 files, last OPTIMIZE 11 d ago." in body_of(client_for("viewer"))


def test_a_check_muted_for_one_table_still_reports_the_others(client_for):
    first, second = (
        make_table(name, file_count=100, small_file_count=80) for name in ("web.a", "web.b")
    )
    client = client_for("owner")
    posted = {"check": "small_files", "table": first.pk, "days": "7", "reason": "packed on Monday"}
    assert client.post("/attention/mute/", posted).status_code == 302
    body = body_of(client)
    assert "the files of web.a are small" not in body
    assert "the files of web.b are small" in body
    assert "packed on Monday" in body
    assert "1 muted" in body_of(client, "/")
    entry = LogEntry.objects.get(content_type__model="mute")
    assert entry.actor.username == "owner"
    assert "packed on Monday" in entry.changes["reason"]
    client.post(f"/attention/mutes/{Mute.objects.get().pk}/end/")
    assert "the files of web.a are small" in body_of(client)
    assert second.mutes.count() == 0


def test_a_check_muted_for_all_reports_nothing_until_then(client_for):
    make_table("web.a", file_count=100, small_file_count=80)
    client_for("owner").post("/attention/mute/", {"check": "small_files", "days": "1"})
    assert "Nothing needs attention" in body_of(client_for("viewer"))
    Mute.objects.update(until=timezone.now() - timedelta(seconds=1))
    assert "80 % of the files of web.a are small" in body_of(client_for("viewer"))


@pytest.mark.parametrize(
    ("who", "posted", "status"),
    [
        ("viewer", {"check": "small_files", "days": "7"}, 403),
        ("operator", {"check": "small_files", "days": "7"}, 403),
        ("owner", {"check": "imagined", "days": "7"}, 404),
        ("owner", {"check": "small_files", "days": "9999"}, 404),
        ("owner", {"check": "small_files", "days": "7", "table": "x"}, 404),
        ("owner", {"check": "small_files", "days": "7", "table": "99"}, 404),
    ],
)
def test_muting_needs_a_maintainer_and_an_existing_check(client_for, who, posted, status):
    assert client_for(who).post("/attention/mute/", posted).status_code == status
    assert not Mute.objects.exists()


def test_nothing_is_muted_while_read_only(client_for, settings):
    settings.READ_ONLY = True
    posted = {"check": "small_files", "days": "7"}
    assert client_for("owner").post("/attention/mute/", posted).status_code == 403


def test_a_stranger_learns_of_no_table(client_for):
    table = make_table("secret.salaries", file_count=100, small_file_count=80)
    for number in range(3):
        make_conflict(table, winning_version=number)
    assert "secret.salaries" not in body_of(client_for("stranger"))
    answer = client_for("stranger").get("/api/v1/attention/").json()
    assert answer["items"] == []


def test_rest_shows_the_same_and_mutes_the_same(client_for):
    table = make_table("web.a", file_count=100, small_file_count=80)
    client = client_for("owner")
    answer = client.get("/api/v1/attention/").json()
    (item,) = answer["items"]
    assert (item["check_name"], item["table"]) == ("small_files", "web.a")
    assert item["facts"]["small_file_count"] == 80
    mute = {
        "check_name": "small_files",
        "table_id": table.pk,
        "until": (timezone.now() + timedelta(days=3)).isoformat(),
    }
    muted = client.post("/api/v1/attention/mutes/", mute, content_type="application/json")
    assert muted.status_code == 201
    answer = client.get("/api/v1/attention/").json()
    assert answer["items"] == []
    assert [row["table"] for row in answer["mutes"]] == ["web.a"]
    assert client.get("/api/v1/overview/").json()["attention_count"] == 0
    far = mute | {"until": (timezone.now() + timedelta(days=300)).isoformat()}
    refused = client.post("/api/v1/attention/mutes/", far, content_type="application/json")
    assert refused.status_code == 422
    client.delete(f"/api/v1/attention/mutes/{answer['mutes'][0]['id']}/")
    assert client.get("/api/v1/attention/").json()["count"] == 1


def test_a_healthy_lake_needs_no_attention(client_for):
    make_table()
    Table.objects.create(name="not.yet", uri="memory://not-yet")
    assert "Nothing needs attention" in body_of(client_for("viewer"), "/")
