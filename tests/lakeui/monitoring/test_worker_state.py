"""Workers by their reports, jobs by the hour, and the page and the answer about both."""

from datetime import timedelta
from uuid import uuid4

import pytest
from django.utils import timezone

from lakeui.catalog.roles import Role
from lakeui.jobs.models import Job, WorkerReport
from lakeui.monitoring.models import LineageEvent
from lakeui.monitoring.worker_state import spark_sum, throughput, worker_states
from lakeui.pages.monitoring import draw_outcomes
from tests.lakeui.factories import make_job, make_table, make_user
from tests.lakeui.page_client import PageClient as Client

pytestmark = pytest.mark.django_db


@pytest.fixture
def viewer():
    return make_user("viewer", Role.VIEWER)


@pytest.fixture
def table():
    return make_table()


def report(name="spark@a", seconds_ago=1, **fields):
    now = timezone.now()
    spark = {"cores": 16, "busy_cores": 9, "executors": 4, "active_stages": 2}
    return WorkerReport.objects.create(
        **{"name": name, "queue": name[:5], "pid": 1, "slots": 4, "started_at": now}
        | (spark if name.startswith("spark") else {})
        | {"seen_at": now - timedelta(seconds=seconds_ago)}
        | fields
    )


def test_a_silent_worker_comes_last_and_counts_no_core(viewer, table):
    report("spark@a", seconds_ago=300)
    report("spark@b")
    report("light@c")
    make_job(table, state=Job.State.RUNNING, worker="spark@b/17", started_at=timezone.now())
    states = worker_states(viewer)
    shown = [(state.report.name, state.is_here, state.busy, len(state.jobs)) for state in states]
    assert shown == [
        ("light@c", True, 0, 0),
        ("spark@b", True, 1, 1),
        ("spark@a", False, 0, 0),
    ]
    spark = spark_sum(states)
    assert (spark.executors, spark.cores, spark.busy_cores, spark.active_stages) == (4, 16, 9, 2)


def test_jobs_of_others_are_counted_and_not_named(table):
    report("spark@b")
    make_job(table, state=Job.State.RUNNING, worker="spark@b/17", started_at=timezone.now())
    [state] = worker_states(make_user("stranger"))
    assert (state.busy, state.jobs) == (1, ())


def test_without_spark_there_is_no_sum(viewer):
    report("light@c")
    assert spark_sum(worker_states(viewer)) is None


def test_jobs_are_counted_in_the_hour_they_ended_in(viewer, table):
    now = timezone.now()
    for state, hours, waited in (
        (Job.State.SUCCEEDED, 0, 1),
        (Job.State.CONFLICTED, 1, 3),
        (Job.State.FAILED, 1, 5),
        (Job.State.SUCCEEDED, 30, 900),
    ):
        at = now - timedelta(hours=hours)
        began = at - timedelta(seconds=9)
        make_job(
            table, state=state, finished_at=at, started_at=began,
            created_at=began - timedelta(seconds=waited),
        )  # fmt: skip
    sums = throughput(viewer, now)
    assert [(hour.succeeded, hour.unsuccessful) for hour in sums.hours[-2:]] == [(0, 2), (1, 0)]
    assert (sums.total.ended, sums.mean_wait_ms, sums.longest_wait_ms) == (3, 3000, 5000)
    chart = draw_outcomes(sums.hours)
    assert chart.highest == 2
    lost, well = chart.columns[-2:]
    assert (lost.unsuccessful_height, lost.well_height) == (96, 0)
    assert (well.unsuccessful_height, well.well_height) == (0, 48)


def test_the_page_and_its_twin_agree(viewer, table):
    report("spark@b")
    report("light@c", seconds_ago=300)
    make_job(table, state=Job.State.QUEUED, created_at=timezone.now() - timedelta(minutes=20))
    client = Client()
    client.force_login(viewer)
    body = client.get("/monitoring/").content.decode()
    for said in ("in the queue spark", "9 of 16 cores", "Silent since", "of 2 here"):
        assert said in body, said
    told = client.get("/api/v1/monitoring/").json()
    assert "jobs_wait" in {alert["check_name"] for alert in told["alerts"]}
    assert told["spark"] == {"executors": 4, "cores": 16, "busy_cores": 9, "active_stages": 2}
    assert [worker["is_here"] for worker in told["workers"]] == [True, False]
    assert len(told["hours"]) == 24
    assert told["mirror"][0]["table"] == "sales.orders"


@pytest.mark.parametrize(
    ("role", "names"), [(Role.MAINTAINER, ["alerts", "lineage"]), (Role.VIEWER, [])]
)
def test_deliveries_are_shown_to_people_who_may_see_the_alerts(table, role, names):
    now = timezone.now()
    LineageEvent.objects.create(
        run_id=uuid4(), type="START", at=now, created_at=now, next_try_at=now, error="answered 500"
    )
    client = Client()
    client.force_login(make_user("rita", role))
    assert ("answered 500" in client.get("/monitoring/").content.decode()) is bool(names)
    told = client.get("/api/v1/monitoring/").json()["outboxes"]
    assert [outbox["name"] for outbox in told] == names
    assert [outbox["error"] for outbox in told] == [None, "answered 500"][: len(names)]


def test_the_page_renews_itself_without_its_frame(viewer, table):
    client = Client()
    client.force_login(viewer)
    body = client.get("/monitoring/", headers={"HX-Request": "true"}).content.decode()
    assert "<html" not in body
    assert "No worker has reported" in body
