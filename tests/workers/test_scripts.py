"""Scripts: each step runs on its own table, in its own commit, and never twice."""

import pytest
from django.contrib.auth.models import User

from engine.commands.model import SetProperties
from engine.errors import ExpressionError, RequestError
from engine.operations.run import run
from engine.table import DeltaTable
from lakeui.catalog.access import Role
from lakeui.catalog.models import Table, TableGrant
from lakeui.catalog.registration import register_table
from lakeui.conflicts.lanes.swim_lane import swim_lane
from lakeui.jobs import leases
from lakeui.jobs.cancel_retry import retry_job
from lakeui.jobs.errors import NotPermittedError
from lakeui.jobs.events import log_event
from lakeui.jobs.models import Job, JobAttempt
from lakeui.jobs.requests import check_request, read_request, request_job
from lakeui.jobs.version_jobs import job_of_version
from tests.lakeui.catalog.log_writer import new_table
from tests.lakeui.factories import make_user
from tests.lakeui.managed.staged import make_managed
from workers.job_run import run_attempt
from workers.job_tables import open_table

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def tables(lake):
    """Return two registered tables at version 0."""
    for name in ("orders", "people"):
        new_table(lake / "lake" / name)
    return [
        register_table(str(lake / "lake" / name), f"sales.{name}") for name in ("orders", "people")
    ]


def _run(job):
    lease = leases.claim(job.pk, "light@here")
    assert lease is not None
    run_attempt(lease)
    job.refresh_from_db()
    return job


def _versions(tables):
    return [DeltaTable.open(table.uri).version() for table in tables]


def _script(tables, *statements, by=None):
    return request_job(table=tables[0], sql="; ".join(statements), requested_by=by)


FIRST = "ALTER TABLE sales.orders SET TBLPROPERTIES ('team' = 'a')"
SECOND = "ALTER TABLE sales.people SET TBLPROPERTIES ('team' = 'b')"
WRONG = "ALTER TABLE sales.people UNSET TBLPROPERTIES ('nobody')"


def test_each_step_commits_at_its_own_table(tables):
    job = _run(_script(tables, FIRST, SECOND, "TRUNCATE TABLE t"))
    assert (job.queue, job.state) == ("light", Job.State.SUCCEEDED)
    assert (job.committed_version, job.metrics["numCommittedSteps"]) == (1, 2)
    assert _versions(tables) == [1, 1]
    message = job.attempt_rows.get().message
    assert message.startswith(
        "Step 1 committed version 1 of sales.orders; step 2 committed version 1"
    )
    for table in tables:
        table.refresh_from_db()
        assert table.version == 1
    assert job.statement.endswith("TRUNCATE TABLE sales.orders")


def test_a_step_that_fails_names_the_committed_steps_and_a_retry_continues_from_there(tables):
    job = _run(_script(tables, FIRST, WRONG, SECOND))
    assert job.state == Job.State.FAILED
    assert job.error_facts["ended"] == [{"step": 1, "table": "sales.orders", "version": 1}]
    assert (job.error_facts["step"], job.error_code) == (2, "LAKE_SCRIPT_STEP_FAILED")
    assert (
        "The steps before it stay committed: step 1 committed version 1 of sales.orders."
        in job.error_message
    )
    assert _versions(tables) == [1, 0]
    amended = SetProperties({"nobody": "here"})
    run(amended, DeltaTable.open(tables[1].uri), None)
    again = _run(retry_job(job, None))
    assert again.state == Job.State.SUCCEEDED
    assert _versions(tables) == [1, 3]


def test_a_version_of_any_step_leads_to_its_script(tables):
    job = _run(_script(tables, FIRST, SECOND, SECOND.replace("'b'", "'c'"), WRONG))
    assert (job.state, _versions(tables)) == (Job.State.FAILED, [1, 2])
    for table, version in ((tables[0], 1), (tables[1], 1), (tables[1], 2)):
        assert job_of_version(Job.objects.all(), table, version) == job
    assert job_of_version(Job.objects.all(), tables[1], 0) is None
    assert job_of_version(Job.objects.exclude(table=tables[0]), tables[1], 1) is None
    tables[1].refresh_from_db()
    bars = {bar.version: bar for bar in swim_lane(tables[1]).bars}
    assert [bars[version].job_id for version in (0, 1, 2)] == [None, str(job.pk), str(job.pk)]
    assert not bars[2].started_is_estimated
    assert bars[1].started_at < bars[2].started_at, "each step began by itself"


def test_a_script_runs_in_the_lane_of_the_table_that_its_step_is_at(tables):
    job = _script(tables, FIRST, SECOND)
    Job.objects.filter(pk=job.pk).update(state=Job.State.RUNNING)
    now = job.created_at
    JobAttempt.objects.create(job=job, number=1, started_at=now, read_version=0)
    for number, here in enumerate(tables, 1):
        log_event(job.pk, "A step begins", base_of_step=number, table=here.name)
        for table in tables:
            running = [bar.job_id for bar in swim_lane(table).running]
            assert running == ([str(job.pk)] if table == here else [])


def test_a_transaction_is_one_version_of_its_own_table(tables):
    deletes = "BEGIN ATOMIC DELETE FROM sales.orders WHERE id = 1", "DELETE FROM t WHERE id = 2"
    job = _run(_script(tables, *deletes, "END"))
    assert (job.kind, job.state, job.error_message) == ("transaction", Job.State.SUCCEEDED, "")
    assert job.statement.startswith("BEGIN ATOMIC\nDELETE FROM sales.orders")
    with pytest.raises(RequestError, match=r"a statement changes sales\.people"):
        _script(tables, "BEGIN ATOMIC DELETE FROM t", "DELETE FROM sales.people", "END")


def test_a_transaction_on_managed_tables_is_one_version_of_each(lake, settings):
    settings.CATALOG_ROOT = str(lake / "lake")
    ann = make_user("ann", Role.ADMIN)
    orders, people = (make_managed(ann, name).mirror for name in ("orders", "people"))
    for table in (orders, people):
        run("INSERT INTO t VALUES (1), (2)", open_table(table.uri))
    delete = "DELETE FROM {} WHERE id = {}".format
    first, second = delete(orders.name, 1), delete(people.name, 2)
    job = _script([orders], f"BEGIN ATOMIC {first}", second, "END", by=ann)
    assert [*job.also_changes.all()] == [people]
    job = _run(job)
    assert (job.state, job.error_message) == (Job.State.SUCCEEDED, "")
    for table, left in ((orders, 2), (people, 1)):
        table.refresh_from_db()
        assert (table.version, table.last_operation) == (2, "TRANSACTION")
        assert open_table(table.uri).snapshot().to_arrow().to_pylist() == [{"id": left}]
    Job.objects.filter(pk=job.pk).update(state=Job.State.QUEUED, finished_at=None)
    assert _run(job).state == Job.State.SUCCEEDED
    assert [open_table(table.uri).version() for table in (orders, people)] == [2, 2]


def test_a_rerun_finds_a_step_that_had_landed_before_anybody_could_say_so(tables):
    job = _run(_script(tables, FIRST, SECOND))
    job.events.filter(data__has_key="ended_step").delete()
    Job.objects.filter(pk=job.pk).update(state=Job.State.QUEUED)
    assert _run(job).state == Job.State.SUCCEEDED
    assert _versions(tables) == [1, 1]


def test_every_step_needs_its_own_rights(tables):
    person = User.objects.create_user("ines")
    TableGrant.objects.create(user=person, table=tables[0], role=Role.MAINTAINER)
    with pytest.raises(RequestError, match=r"sales\.people does not exist"):
        _script(tables, FIRST, SECOND, by=person)
    TableGrant.objects.create(user=person, table=tables[1], role=Role.VIEWER)
    with pytest.raises(NotPermittedError):
        _script(tables, FIRST, SECOND, by=person)
    TableGrant.objects.filter(table=tables[1]).update(role=Role.MAINTAINER)
    job = _script(tables, FIRST, SECOND, by=User.objects.get(pk=person.pk))
    TableGrant.objects.filter(table=tables[1]).update(role=Role.VIEWER)
    assert _run(job).state == Job.State.FAILED
    assert _versions(tables) == [0, 0]


@pytest.mark.parametrize(
    "sql",
    [
        "INSERT INTO sales.orders SELECT * FROM sales.orders WHERE id IN (SELECT id FROM sales.people)",
        "INSERT INTO sales.orders SELECT o.* FROM sales.orders o JOIN sales.people p ON o.id = p.id",
        "INSERT INTO sales.orders WITH p AS (SELECT * FROM sales.people) SELECT * FROM p",
        "INSERT INTO sales.orders SELECT * FROM sales.orders UNION ALL SELECT * FROM sales.people",
        "DELETE FROM sales.orders WHERE EXISTS (SELECT 1 FROM sales.people p WHERE p.id = orders.id)",
        "UPDATE sales.orders SET id = 1 WHERE id = (SELECT max(id) FROM sales.people)",
        "UPDATE sales.orders SET id = (SELECT max(id) FROM sales.people)",
        "MERGE INTO sales.orders t USING (VALUES (1)) AS s (id) ON t.id = s.id "
        "WHEN NOT MATCHED THEN INSERT (id) VALUES ((SELECT max(id) FROM sales.people))",
        "TRUNCATE TABLE sales.orders; UPDATE t SET id = (SELECT max(id) FROM sales.people)",
        "MERGE INTO sales.orders t USING (SELECT id FROM sales.people GROUP BY id) s ON t.id = s.id "
        "WHEN MATCHED THEN DELETE",
    ],
)
def test_a_table_one_may_not_see_cannot_be_read_by_a_query(tables, sql):
    person = User.objects.create_user("ines")
    TableGrant.objects.create(user=person, table=tables[0], role=Role.MAINTAINER)
    with pytest.raises(RequestError, match=r"sales\.people does not exist"):
        request_job(table=tables[0], sql=sql, requested_by=person)
    TableGrant.objects.create(user=person, table=tables[1], role=Role.VIEWER)
    job = request_job(table=tables[0], sql=sql, requested_by=User.objects.get(pk=person.pk))
    assert job.state == Job.State.QUEUED


MAKES = (
    "CREATE TABLE sales.returns (id BIGINT)",
    "ALTER TABLE sales.returns ADD COLUMNS (why STRING)",
    "ALTER TABLE sales.returns CLUSTER BY (why)",
    "CREATE TABLE sales.kept SHALLOW CLONE sales.returns",
)


def test_a_script_creates_tables_and_uses_them(tables):
    job = _run(_script(tables, *MAKES))
    assert (job.state, job.error_message) == (Job.State.SUCCEEDED, "")
    made = list(Table.objects.order_by("pk").values_list("name", "version"))[2:]
    assert made == [("sales.returns", 2), ("sales.kept", 0)]
    assert job.committed_version is None, "its own table is another one"
    failed = _run(_script(tables, *MAKES))
    assert "already a Delta table" in failed.error_message


def test_a_step_fits_the_columns_that_an_earlier_one_left(tables):
    with pytest.raises(ExpressionError):
        _script(tables, "ALTER TABLE t CLUSTER BY (why)")
    job = _run(
        _script(tables, "ALTER TABLE t ADD COLUMNS (why STRING)", "ALTER TABLE t CLUSTER BY (why)")
    )
    assert (job.state, job.error_message) == (Job.State.SUCCEEDED, "")


def test_a_check_or_dry_run_of_a_script_makes_no_table_row(tables):
    sql = "; ".join(MAKES)
    command, _ = read_request(sql=sql)
    check_request(command, tables[0], None)
    assert command.kind == "script"
    with pytest.raises(RequestError, match="a dry run cannot use"):
        request_job(table=tables[0], sql=sql, requested_by=None, dry_run=True)
    with pytest.raises(RequestError, match=r"sales\.nothing does not exist"):
        _script(tables, *MAKES, "CREATE TABLE sales.other SHALLOW CLONE sales.nothing")
    assert Table.objects.count() == 2


def test_tables_are_created_only_by_people_who_may_create_any(tables):
    person = User.objects.create_user("ines")
    for table in tables:
        TableGrant.objects.create(user=person, table=table, role=Role.ADMIN)
    with pytest.raises(NotPermittedError, match="new tables"):
        _script(tables, *MAKES, by=person)
    replaced = f"CREATE OR REPLACE TABLE {tables[1].name} (id BIGINT)"
    assert _run(_script(tables, FIRST, replaced, by=person)).state == Job.State.SUCCEEDED
    assert _versions(tables) == [1, 1]
