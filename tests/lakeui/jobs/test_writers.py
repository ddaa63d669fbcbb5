"""Writers of a table: its own jobs, and scripts with a step that names it, in every answer."""

import pytest
from django.contrib.auth.models import User

from engine.commands.model import COMMANDS
from engine.errors import RequestError
from lakeui.catalog.models import Table, TableGrant
from lakeui.catalog.roles import Role
from lakeui.conflicts.unregistration import unregister_table
from lakeui.jobs.cancel_retry import retry_job
from lakeui.jobs.filters import JobFilter
from lakeui.jobs.models import Job
from lakeui.jobs.requests import request_job
from lakeui.jobs.schedules import change_schedule, create_schedule
from lakeui.jobs.writers import active_jobs, active_writers, schedules_changing
from lakeui.monitoring.outlook import forecast_of
from tests.lakeui.people import person
from workers.job_tables import oldest_other_start_ms, other_writers
from workers.mirror import tables_with_a_log

pytestmark = pytest.mark.django_db

SCRIPT = "TRUNCATE TABLE sales.orders; TRUNCATE TABLE sales.people"


@pytest.fixture
def tables(tmp_path, settings) -> list[Table]:
    settings.TABLE_ROOTS, settings.LAKE_HOME = [str(tmp_path)], tmp_path
    uris = {f"sales.{name}": str(tmp_path / name) for name in ("orders", "people", "returns")}
    return [Table.objects.create(name=name, uri=uri, version=1) for name, uri in uris.items()]


def script(table: Table, sql: str = SCRIPT, **fields) -> Job:
    job = request_job(table=table, sql=sql, requested_by=None)
    Job.objects.filter(pk=job.pk).update(**fields)
    job.refresh_from_db()
    return job


def test_a_script_writes_to_each_table_that_its_steps_name(tables):
    orders, people, returns = tables
    job = script(orders, f"{SCRIPT}; TRUNCATE TABLE t; TRUNCATE TABLE `{people.uri}`")
    assert [list(active_jobs(table)) for table in tables] == [[job], [job], []]
    assert not active_writers(people).exists()
    Job.objects.filter(pk=job.pk).update(state=Job.State.COMMITTING)
    assert [list(active_writers(table)) for table in tables] == [[job], [job], []]
    assert list(job.also_changes.all()) == [people]
    assert not schedules_changing(returns).exists()


def test_a_dry_run_writes_nowhere_and_an_ended_script_no_more(tables):
    orders, people, _ = tables
    job = script(orders, state=Job.State.RUNNING, dry_run=True)
    assert (active_jobs(people).count(), active_writers(people).count()) == (1, 0)
    Job.objects.filter(pk=job.pk).update(state=Job.State.FAILED)
    assert not active_jobs(people).exists()
    job.refresh_from_db()
    again = retry_job(job, None)
    assert list(active_jobs(people)) == [again] == list(active_jobs(orders))


def test_no_command_but_a_script_names_a_second_table_to_change():
    naming = {(kind, part.name) for kind, c in COMMANDS.items() for part in c.list_parameters()}
    tables = {(kind, name) for kind, name in naming if "table" in name and name != "table"}
    assert tables == {("clone", "source_table"), ("stream", "source_table")}


def test_vacuum_spares_since_the_script_began(tables):
    job = script(tables[0], state=Job.State.RUNNING)
    Job.objects.filter(pk=job.pk).update(started_at=job.created_at)
    since = int(job.created_at.timestamp() * 1000)
    vacuums = [Job(table=table, kind="vacuum") for table in tables]
    assert [oldest_other_start_ms(vacuum) for vacuum in vacuums] == [since, since, None]
    assert oldest_other_start_ms(job) is None


def test_a_dry_run_shows_the_script_without_its_words(tables):
    orders, people, _ = tables
    script(orders, state=Job.State.RUNNING)
    told = other_writers(Job(table=people, kind="vacuum"))
    assert told == ["script of sales.people"], "who sees people need not see orders"


def test_a_forecast_includes_the_running_script_and_the_schedule_of_one(tables):
    orders, people, returns = tables
    job = script(orders, state=Job.State.RUNNING)
    schedule = create_schedule(
        table=orders, name="nightly", cron="* * * * *", owner=person("ada", "admin"), sql=SCRIPT
    )
    coming = forecast_of(people, "delete", {"where": "id = 1"}).coming
    assert [(writer.job_id, writer.schedule) for writer in coming] == [
        (job.pk, ""),
        (None, "nightly"),
    ]
    assert forecast_of(returns, "delete", {"where": "id = 1"}).coming == ()
    change_schedule(schedule, schedule.owner, sql="TRUNCATE TABLE t")
    assert not schedules_changing(people).exists()


def test_a_schedule_may_name_a_table_that_its_job_is_to_make(tables):
    sql = "CREATE OR REPLACE TABLE sales.new (id BIGINT); TRUNCATE TABLE sales.people"
    schedule = create_schedule(
        table=tables[0], name="n", cron="* * * * *", owner=person("ada", "admin"), sql=sql
    )
    assert list(schedule.also_changes.all()) == [tables[1]]


def test_a_table_that_a_script_changes_cannot_be_unregistered_meanwhile(tables):
    orders, people, returns = tables
    job = script(orders)
    with pytest.raises(RequestError, match=r"1 job that changes sales\.people must end first"):
        unregister_table(people, None)
    unregister_table(returns, None)
    Job.objects.filter(pk=job.pk).update(state=Job.State.SUCCEEDED)
    unregister_table(people, None)
    assert not job.also_changes.exists()


def test_the_log_of_a_table_that_a_script_is_still_to_create_is_not_read(tables):
    script(tables[0], "CREATE TABLE sales.new (id BIGINT); TRUNCATE TABLE sales.new")
    missing = Table.objects.create(name="gone", uri="/lake/gone")
    assert set(tables_with_a_log()) == {*tables, missing}


def test_jobs_of_a_table_are_those_that_change_it(tables, client):
    orders, people, _ = tables
    job = script(orders)
    listed = JobFilter({"table": "sales.people"}, Job.objects.all()).qs
    assert list(listed) == [job]
    client.force_login(person("ada", "viewer"))
    address = f"/api/v1/tables/{people.pk}/jobs/"
    assert [row["table"] for row in client.get(address).json()["items"]] == ["sales.orders"]
    assert client.get(f"/api/v1/jobs/{job.pk}/").json()["also_changes"] == ["sales.people"]
    for page in (f"/tables/{people.pk}/", f"/jobs/?table={people.pk}"):
        assert "on sales.orders" in client.get(page).content.decode()


def test_a_script_on_a_hidden_table_is_not_listed_for_readers_of_the_other(tables, client):
    orders, people, _ = tables
    script(orders)
    guest = User.objects.create_user("guest")
    TableGrant.objects.create(table=people, user=guest, role=Role.VIEWER)
    client.force_login(guest)
    assert client.get(f"/api/v1/tables/{people.pk}/jobs/").json()["items"] == []
    assert "sales.orders" not in client.get(f"/tables/{people.pk}/").content.decode()
