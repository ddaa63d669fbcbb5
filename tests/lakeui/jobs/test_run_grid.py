"""The grid of scheduled runs: its rows are schedules, or the steps of one."""

from datetime import timedelta

from django.conf import settings
from django.utils import timezone

from lakeui.catalog.models import TableGrant
from lakeui.catalog.roles import Role
from lakeui.jobs.models import Job, JobAttempt, JobStage
from lakeui.jobs.run_grid import MOST, grid_of_schedules, grid_of_steps
from lakeui.jobs.schedules import create_schedule
from tests.lakeui.factories import make_job, make_table, make_user


def make_run(schedule, hours, state=Job.State.SUCCEEDED, steps=()):
    at = timezone.now() - timedelta(hours=hours)
    job = make_job(schedule.table, schedule=schedule, state=state, started_at=at)
    ended = None if state == Job.State.RUNNING else at + timedelta(seconds=len(steps) + 1)
    Job.objects.filter(pk=job.pk).update(created_at=at, finished_at=ended)
    for number in (1, 2):
        attempt = JobAttempt.objects.create(job=job, number=number, started_at=at)
    for place, (name, took_ms) in enumerate(steps):
        finished_at = at + timedelta(milliseconds=took_ms) if took_ms is not None else None
        JobStage.objects.create(
            attempt=attempt, place=place, name=name, started_at=at, finished_at=finished_at,
            took_ms=took_ms or 0,
        )  # fmt: skip
    return job


def table_named(name="sales.orders"):
    return make_table(name, uri=f"{settings.LAKE_HOME}/{name}")


def make_schedule(name, table, owner):
    sql = f"OPTIMIZE {table.name}"
    return create_schedule(table=table, name=name, cron="0 3 * * *", owner=owner, sql=sql)


def test_a_row_is_a_schedule_and_its_latest_run_is_last(db, django_assert_num_queries):
    owner, table = make_user("ann", Role.ADMIN), table_named()
    often, never = make_schedule("often", table, owner), make_schedule("never", table, owner)
    runs = [make_run(often, hours) for hours in range(MOST + 3)]
    with django_assert_num_queries(2):
        rows = grid_of_schedules([often, never], timezone.now() - timedelta(days=7))
    assert [cell.job_id for cell in rows[0].cells] == [run.pk for run in reversed(runs[:MOST])]
    assert (rows[1].name, rows[1].cells) == ("never", ())
    (recent, _) = grid_of_schedules([often, never], timezone.now() - timedelta(hours=1.5))
    assert len(recent.cells) == 2


def test_a_row_is_a_step_and_one_that_did_not_end_has_the_state_of_its_run(db):
    nightly = make_schedule("nightly", table_named(), make_user("ann", Role.ADMIN))
    make_run(nightly, 3, steps=[("read", 100), ("write", 400)])
    make_run(nightly, 2, Job.State.FAILED, steps=[("read", 200), ("write", None)])
    make_run(nightly, 1, Job.State.RUNNING, steps=[("read", 50)])
    rows = grid_of_steps(nightly, timezone.now() - timedelta(days=1))
    assert [row.name for row in rows] == ["nightly", "read", "write"]
    states = [[cell and str(cell.state) for cell in row.cells] for row in rows]
    assert states[0] == ["succeeded", "failed", "running"]
    assert states[1] == ["succeeded", "succeeded", "succeeded"]
    assert states[2] == ["succeeded", "failed", None]
    assert [cell.share for cell in rows[1].cells] == [50, 100, 25]


def test_pages_and_rest_show_the_same_runs_and_no_hidden_schedule(client, db):
    owner, table = make_user("ann", Role.ADMIN), table_named()
    nightly = make_schedule("nightly", table, owner)
    hidden = make_schedule("secret", table_named("secret.salaries"), owner)
    run = make_run(nightly, 1, steps=[("write", 400)])
    guest = make_user("guest")
    TableGrant.objects.create(user=guest, table=table, role=Role.VIEWER)
    client.force_login(guest)
    rows = client.get("/api/v1/schedules/runs/").json()["items"]
    assert [(row["name"], row["runs"][0]["job_id"]) for row in rows] == [("nightly", str(run.pk))]
    asked = {"schedule": nightly.pk, "range": "24h", "page_size": 1}
    answer = client.get("/api/v1/schedules/runs/", asked).json()
    token = {"page_token": answer["next_page_token"]}
    steps = answer["items"] + client.get("/api/v1/schedules/runs/", asked | token).json()["items"]
    assert [row["name"] for row in steps] == ["nightly", "write"]
    assert steps[1]["runs"][0]["took_ms"] == 400
    page = client.get("/schedules/runs/").content.decode()
    assert f"/jobs/{run.pk}/" in page
    assert "secret" not in page
    for address in ("/schedules/runs/", "/api/v1/schedules/runs/"):
        assert client.get(address, {"schedule": hidden.pk}).status_code == 404
    assert client.get("/schedules/runs/", {"range": "9y"}).status_code == 404
    assert client.get("/api/v1/schedules/runs/", {"range": "9y"}).status_code == 422
