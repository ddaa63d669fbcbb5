"""The first page: running jobs with deadlines, tables, and costs of conflicts by place."""

import re
from datetime import timedelta

import pytest
from django.utils import timezone

from lakeui.catalog.hours import count_in
from lakeui.jobs.models import Job, Schedule, WorkerReport
from tests.lakeui.factories import make_commit, make_conflict, make_job, make_table

pytestmark = pytest.mark.django_db


def words(client, path="/"):
    text = re.sub(r"<[^>]+>", " ", client.get(path).content.decode())
    return re.sub(r"\s+", " ", text).replace("&#x27;", "'")


def rows(client, path):
    body = client.get(path).content.decode()
    listed = body.partition('<h2 id="tables">')[2].partition("</tbody>")[0]
    return re.findall(r'<th scope="row"><a href="/tables/\d+/">([^<]+)</a>', listed)


def create_ended_run(table, minutes, days):
    at = timezone.now() - timedelta(days=days)
    return make_job(table, "merge", started_at=at, finished_at=at + timedelta(minutes=minutes))


def test_a_running_job_ends_when_runs_like_it_did(client_for):
    table = make_table()
    for days, minutes in enumerate((9, 10, 30), 1):
        create_ended_run(table, minutes, days)
    began = timezone.now() - timedelta(minutes=4)
    make_job(table, "merge", state=Job.State.RUNNING, started_at=began)
    assert "about 6 min" in words(client_for("viewer"))
    (run,) = client_for("viewer").get("/api/v1/overview/").json()["running"]
    assert run["expected_from_runs"] == 3
    assert run["expected_at"] == (began + timedelta(minutes=10)).isoformat().replace("+00:00", "Z")


def test_of_too_few_runs_nothing_is_expected(client_for):
    table, other = make_table(), make_table("crm.customers")
    create_ended_run(table, 9, 1)
    create_ended_run(table, 9, 2)
    create_ended_run(other, 9, 2)
    make_job(table, "merge", state=Job.State.RUNNING, started_at=timezone.now())
    assert "about" not in words(client_for("viewer")).partition("Running")[2].partition("Next")[0]
    (run,) = client_for("viewer").get("/api/v1/overview/").json()["running"]
    assert run["expected_at"] is None


def test_coming_next_are_the_queue_and_then_the_schedules(client_for, people):
    table = make_table()
    make_job(table, "optimize", state=Job.State.QUEUED)
    due = timezone.now() + timedelta(hours=1)
    Schedule.objects.create(
        name="nightly", table=table, cron="0 2 * * *", kind="vacuum", owner=people["owner"],
        next_due_at=due,
    )  # fmt: skip
    body = words(client_for("viewer")).partition(" Next ")[2]
    assert body.index("OPTIMIZE") < body.index("VACUUM") < body.index("nightly")
    assert "1 in the queue, oldest" in body
    answer = client_for("viewer").get("/api/v1/overview/").json()
    assert [row["name"] for row in answer["due"]] == ["nightly"]


def test_costs_by_partition_name_table_partition_and_pair(client_for):
    table = make_table("sales.items")
    for day in ("2026-11-19", "2026-11-19", "2026-11-20"):
        make_conflict(table, partitions=[f"event_date={day}"], wasted_ms=120_000)
    make_conflict(make_table("sales.plain"), wasted_ms=60_000)
    body = words(client_for("viewer"), "/?heat=partition").partition(
        "Cost of conflicts by partition"
    )[2]
    assert "sales.items event_date=2026-11-19 4 4" in body
    assert "sales.items event_date=2026-11-20 2 2" in body
    assert "sales.plain no partition named 1 1" in body
    costs = client_for("viewer").get("/api/v1/overview/").json()["cost_by_partition"]
    assert [(cost["partition"], cost["times"]) for cost in costs] == [
        ("event_date=2026-11-19", 2), ("event_date=2026-11-20", 1), (None, 1),
    ]  # fmt: skip


def test_costs_by_hour_have_a_table_beside_the_picture(client_for):
    make_conflict(make_table(), wasted_ms=120_000, occurred_at=timezone.now())
    body = words(client_for("viewer"))
    hour = timezone.now().strftime("%H:00")
    assert f"UPDATE × DELETE {hour}" in re.sub(r"\d+ \w{3} (?=\d\d:00)", "", body)


def test_tables_are_narrowed_and_sorted_by_the_address(client_for):
    small = make_table("a.small", size_bytes=1, row_level_eligible=False)
    make_table("b.large", size_bytes=10**12)
    make_table("c.ill", size_bytes=10**6, mirror_error_code="X", mirror_error="gone")
    make_conflict(small)
    client = client_for("viewer")
    assert rows(client, "/") == ["a.small", "b.large", "c.ill"]
    assert rows(client, "/?sort=-size") == ["b.large", "c.ill", "a.small"]
    assert rows(client, "/?show=attention") == ["c.ill"]
    assert rows(client, "/?show=aborted") == ["a.small"]
    assert rows(client, "/?show=no_row_level&sort=name") == ["a.small"]
    kept = client.get("/?show=attention&sort=-size").content.decode()
    assert "?show=attention&amp;sort=-size&amp;heat=partition#cost" in kept
    counts = client.get("/api/v1/overview/").json()["table_counts"]
    assert counts == {"attention": 1, "aborted": 1, "no_row_level": 1}
    body = words(client)
    assert "Attention 1" in body
    assert "Aborted writes 1" in body
    assert "No row-level 1" in body


def test_a_table_with_many_aborted_writes_needs_attention_in_every_list(client_for, settings):
    settings.ATTENTION_ABORTED = 2
    many, few = make_table("a.many"), make_table("b.few")
    for table in (many, many, few):
        make_conflict(table)
    make_conflict(few, occurred_at=timezone.now() - timedelta(hours=25))
    client = client_for("viewer")
    for path in ("/", "/tables/"):
        health = re.findall(
            r">([^<]+)</a></th>\s*<td><span class=.mark[^>]*>.*?</svg>([\w ]+)",
            client.get(path).content.decode(),
            re.DOTALL,
        )
        assert health == [("a.many", "needs attention"), ("b.few", "ok")]


@pytest.mark.parametrize("path", ["/?show=all-of-it", "/?sort=color", "/?heat=planet"])
def test_an_address_with_an_unknown_order_is_refused(client_for, path):
    assert client_for("viewer").get(path).status_code == 404


def test_growth_is_shown_with_the_data_and_the_last_writer_with_each_table(client_for):
    table = make_table(last_writer="stream-orders")
    count_in([vars(make_commit(table, 12, bytes_added=3 * 2**30, bytes_removed=2**30))])
    body = words(client_for("viewer"), "/?range=24h")
    assert "+2 GiB" in body
    assert "stream-orders" in body
    assert client_for("viewer").get("/api/v1/overview/").json()["growth_bytes"] == str(2 * 2**30)


def test_the_frame_counts_workers_by_their_reports(client_for, settings):
    settings.INSTALLATION_NAME = "blue lake"
    now = timezone.now()
    for name, ago in (("spark@a", 2), ("spark@b", 3600)):
        WorkerReport.objects.create(
            name=name, queue="spark", pid=1, started_at=now, seen_at=now - timedelta(seconds=ago)
        )
    body = words(client_for("viewer"), "/tables/")
    assert "1 of 2" in body
    assert "blue lake" in body


def test_a_first_visit_shows_the_news_of_a_day(client_for):
    make_table()
    client = client_for("viewer")
    for _ in range(2):  # a look lasts as long as one keeps looking
        body = words(client)
        assert "The last 24 hours, since" in body
        assert "last visit" not in body
    before, _, current = client.cookies["looked"].value.partition(".")
    client.cookies["looked"] = f"{before}.{int(current) - 7 * 3600}"
    assert "Since your last visit" in words(client)
    assert "Since your last visit" in words(client)


def test_aborted_writes_are_counted_where_no_check_reports_them(client_for):
    make_conflict(make_table())
    body = words(client_for("viewer"))
    assert "Nothing needs attention" in body
    assert "1 write aborted" in body
    assert "few writes" not in body + words(client_for("viewer"), "/monitoring/")


@pytest.mark.parametrize(("small", "told"), [(1, False), (9, False), (10, True)])
def test_small_files_of_a_table_have_a_share_where_compacting_them_matters(client_for, small, told):
    table = make_table(file_count=small, small_file_count=small)
    assert ("100 %" in words(client_for("viewer"), "/tables/")) is told
    assert ("100 %" in words(client_for("viewer"), f"/tables/{table.pk}/files/")) is told
