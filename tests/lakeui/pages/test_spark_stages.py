"""Spark's stages on the page of a job and in its JSON, and links to Spark's own pages."""

from datetime import timedelta

import pytest
from django.utils import timezone

from lakeui.jobs.models import Job, JobAttempt, JobStage, WorkerReport
from lakeui.jobs.spark_stages import SparkStage

APPLICATION = "app-20261124-0001"
SPARK_UI = "http://spark-1:4040"


@pytest.fixture
def attempt(lake):
    """Return the attempt of an ended job, which read for 4 s and wrote for 6 s."""
    end = timezone.now()
    began = end - timedelta(seconds=10)
    Job.objects.filter(pk=lake.job.pk).update(
        state=Job.State.SUCCEEDED, created_at=began, started_at=began, finished_at=end
    )
    lake.job.attempt_rows.update(
        started_at=began, finished_at=end, outcome="committed", spark_application=APPLICATION
    )
    attempt = lake.job.attempt_rows.get()
    step(attempt, 0, "find rows", began, 4, stage(3, began, 0, 1), stage(4, began, 1, 3, failed=2))
    step(attempt, 1, "write files", began + timedelta(seconds=4), 6)
    return attempt


def stage(number, began, start, end, **more):
    at = int(began.timestamp() * 1000)
    given = {"tasks": 8, "done": 8, "bytes_read": 4096, "rows_read": 1234, "core_ms": 100}
    return SparkStage(
        number, started_ms=at + start * 1000, ended_ms=at + end * 1000, **given | more
    )


def step(attempt: JobAttempt, place, name, began, seconds, *stages):
    return JobStage.objects.create(
        attempt=attempt, place=place, name=name, started_at=began, took_ms=seconds * 1000,
        finished_at=began + timedelta(seconds=seconds), unit="tasks",
        spark_stages=[one.to_row() for one in stages], spark_stage_count=len(stages),
    )  # fmt: skip


def create_report(**more):
    given = {"queue": "spark", "pid": 7, "started_at": timezone.now(), "seen_at": timezone.now()}
    given |= {"spark_application": APPLICATION, "spark_ui": SPARK_UI, "cores": 4, "busy_cores": 0}
    return WorkerReport.objects.create(name="spark@a", **given | more)


def page(client, lake):
    return client.get(f"/jobs/{lake.job.pk}/")


def get_attempt(client, lake):
    (attempt,) = client.get(f"/api/v1/jobs/{lake.job.pk}/").json()["attempt_rows"]
    return attempt


def test_each_stage_is_a_row_on_the_axis_of_its_attempt(client_for, lake, attempt):
    response = page(client_for("viewer"), lake)
    table = response.context["spark_stages"]
    assert [(row.stage.stage_id, row.step, row.took_ms) for row in table.rows] == [
        (3, "Find matches", 1000),
        (4, "Find matches", 2000),
    ]
    assert [(round(row.x), round(row.width)) for row in table.rows] == [(0, 10), (10, 20)]
    body = response.content.decode()
    assert 'id="spark-stages"' in body
    assert "1,234" in body
    assert "2 failed" in body
    assert "longest of" not in body
    marked = [row.spark for row in response.context["gantt"].rows if row.spark]
    assert [[(round(x), round(width)) for x, width in row] for row in marked] == [
        [(0, 10), (10, 20)]
    ]


def test_the_json_has_the_same_stages(client_for, lake, attempt):
    first, second = get_attempt(client_for("viewer"), lake)["stages"]
    assert (first["spark_stage_count"], second["spark_stages"]) == (2, [])
    one, two = first["spark_stages"]
    assert (one["stage_id"], one["took_ms"], one["tasks"], one["failed"]) == (3, "1000", 8, 0)
    assert (two["rows_read"], two["bytes_read"], two["failed"]) == ("1234", "4096", 2)
    assert (one["status"], one["shuffle_read"], one["spilled"]) == ("complete", "0", "0")


def test_numbers_of_files_and_lines_are_not_shown_as_rows(client_for, lake, attempt):
    of_files = stage(5, attempt.started_at, 5, 6, bytes_read=0, rows_read=1).to_row()
    attempt.stages.filter(place=1).update(spark_stages=[of_files])
    attempt.stages.filter(place=0).update(name="infer the schema")
    client = client_for("viewer")
    body = page(client, lake).content.decode()
    assert body.count(">not known</span>") == 3
    assert "1,234" not in body
    rows = [
        one["rows_read"]
        for step in get_attempt(client, lake)["stages"]
        for one in step["spark_stages"]
    ]
    assert rows == [None, None, None]


def test_many_stages_are_limited_and_the_page_says_so(client_for, lake, attempt):
    rows = [stage(number, attempt.started_at, 0, 1).to_row() for number in range(40)]
    attempt.stages.update(spark_stages=rows, spark_stage_count=70)
    body = page(client_for("viewer"), lake).content.decode()
    assert "The 60 longest of 140 stages." in " ".join(body.split())
    assert body.count('class="gantt-step"') == 60


def test_the_bar_of_a_running_stage_ends_now_and_a_waiting_one_has_none(client_for, lake, attempt):
    Job.objects.filter(pk=lake.job.pk).update(state=Job.State.RUNNING, finished_at=None)
    JobAttempt.objects.filter(pk=attempt.pk).update(finished_at=None, outcome="running")
    waits = SparkStage(9, status="pending", tasks=5)
    runs = SparkStage(8, status="active", started_ms=stage(8, attempt.started_at, 5, 5).started_ms)
    attempt.stages.filter(place=1).update(
        finished_at=None, spark_stages=[waits.to_row(), runs.to_row()], spark_stage_count=2
    )
    rows = page(client_for("viewer"), lake).context["spark_stages"].rows
    running, waiting = rows[-2:]
    assert (running.stage.stage_id, running.is_open, running.took_ms >= 5000) == (8, True, True)
    assert (waiting.stage.stage_id, waiting.is_open, waiting.took_ms) == (9, False, None)


def test_the_timeline_names_the_start_of_spark_and_counts_one_task_in_the_singular(
    client_for, lake, attempt
):
    earlier = attempt.started_at - timedelta(seconds=20)
    Job.objects.filter(pk=lake.job.pk).update(created_at=earlier)
    JobAttempt.objects.filter(pk=attempt.pk).update(
        session_from=earlier, session_until=earlier + timedelta(seconds=8)
    )
    attempt.stages.filter(place=1).update(done=1, total=1)
    body = page(client_for("viewer"), lake)
    rows = {row.label: row for row in body.context["gantt"].rows}
    assert list(rows)[:3] == ["Start Spark", "Queue", "Attempt 1"]
    assert (rows["Start Spark"].took_ms, rows["Queue"].took_ms) == (8000, 12_000)
    assert rows["Write"].words == "1 task"


def test_a_job_without_spark_has_no_such_panel(client_for, lake, attempt):
    attempt.stages.update(spark_stages=[], spark_stage_count=0)
    assert 'id="spark-stages"' not in page(client_for("viewer"), lake).content.decode()


@pytest.mark.parametrize("who", ["viewer", "operator"])
def test_only_admins_are_led_to_sparks_own_pages(client_for, lake, attempt, who):
    create_report()
    admin = client_for("owner")
    assert get_attempt(admin, lake)["spark_ui"] == f"{SPARK_UI}/jobs/"
    body = page(admin, lake).content.decode()
    assert f'href="{SPARK_UI}/jobs/"' in body
    assert f'href="{SPARK_UI}/stages/stage/?id=4&amp;attempt=0"' in body
    assert f'href="{SPARK_UI}/jobs/"' in admin.get("/monitoring/").content.decode()
    (worker,) = admin.get("/api/v1/monitoring/").json()["workers"]
    assert (worker["spark_ui"], worker["spark_application"]) == (f"{SPARK_UI}/jobs/", APPLICATION)

    client = client_for(who)
    assert get_attempt(client, lake)["spark_ui"] is None
    assert SPARK_UI not in page(client, lake).content.decode()
    assert SPARK_UI not in client.get("/monitoring/").content.decode()
    (worker,) = client.get("/api/v1/monitoring/").json()["workers"]
    assert worker["spark_ui"] is None


@pytest.mark.parametrize(
    "more",
    [
        {"seen_at": timezone.now() - timedelta(hours=1)},
        {"spark_application": "app-2"},
        {"spark_ui": ""},
        {"spark_ui": "javascript:alert(1)"},
        {"spark_ui": "ftp://spark-1/"},
        {"spark_ui": "http:///jobs"},
        {"spark_ui": "http://[1/"},
    ],
    ids=["its worker is gone", "another's", "not served", "script", "ftp", "no host", "no address"],
)
def test_no_link_is_shown_where_spark_does_not_serve_its_pages(client_for, lake, attempt, more):
    create_report(**more)
    client = client_for("owner")
    assert get_attempt(client, lake)["spark_ui"] is None
    assert "Spark UI" not in page(client, lake).content.decode()


def test_an_address_from_the_settings_is_permanent_and_contains_the_application(
    client_for, lake, attempt, settings
):
    settings.SPARK_UI_URL = "https://spark.example.org/history/{application}/"
    JobAttempt.objects.update(spark_application='app"1/2')
    assert (
        get_attempt(client_for("owner"), lake)["spark_ui"]
        == "https://spark.example.org/history/app%221%2F2/jobs/"
    )
    assert (
        "history/app%221%2F2/stages/stage/?id=3" in page(client_for("owner"), lake).content.decode()
    )
    assert get_attempt(client_for("viewer"), lake)["spark_ui"] is None
    JobAttempt.objects.update(spark_application="")
    assert get_attempt(client_for("owner"), lake)["spark_ui"] is None
