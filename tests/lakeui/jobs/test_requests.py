"""Requests for jobs: checked, stored once, and sent after their row is committed."""

from datetime import timedelta
from itertools import product
from pathlib import Path

import pytest
from django.contrib.auth.models import Group, User
from django.utils import timezone

from engine.errors import ExpressionError, PathOutsideRootError, RequestError, TableExistsError
from lakeui.catalog.command_tables import names_others
from lakeui.catalog.models import Table, TableGrant
from lakeui.catalog.roles import Role
from lakeui.jobs import leases
from lakeui.jobs.cancel_retry import cancel_job, rerun_job, retry_job
from lakeui.jobs.command_rules import command_of
from lakeui.jobs.errors import (
    IdempotencyMismatchError,
    JobStateError,
    NotPermittedError,
    ReadOnlyError,
)
from lakeui.jobs.job_rows import send_job, send_overdue
from lakeui.jobs.models import Job
from lakeui.jobs.requests import request_create, request_job
from tests.engine.operations.own_names import FORMS, SHADOWS
from workers.mirror import tables_with_a_log

pytestmark = pytest.mark.django_db

SCHEMA = '{"type":"struct","fields":[{"name":"id","type":"long","nullable":true,"metadata":{}}]}'


@pytest.fixture
def lake(tmp_path, settings) -> Path:
    settings.LAKE_HOME = tmp_path / "lake"
    settings.TABLE_ROOTS = [str(settings.LAKE_HOME)]
    settings.SOURCE_ROOTS = [str(tmp_path / "uploads")]
    return tmp_path


@pytest.fixture
def table(lake) -> Table:
    return Table.objects.create(name="sales.orders", uri=str(lake / "lake/sales/orders"))


def person(role: str) -> User:
    user = User.objects.create_user(role)
    user.groups.add(Group.objects.get(name=role))
    return user


@pytest.fixture
def maintainer() -> User:
    return person("maintainer")


def optimize(table: Table, by: User | None, **more) -> Job:
    return request_job(table=table, kind="optimize", parameters={}, requested_by=by, **more)


def test_a_job_is_written_down_with_its_statement_and_queue(table, maintainer):
    job = optimize(table, maintainer)
    assert (job.state, job.kind, job.queue) == (Job.State.QUEUED, "optimize", "spark")
    assert job.statement.startswith("OPTIMIZE")
    assert job.events.get().message == "Queued"


@pytest.mark.parametrize(
    ("kind", "parameters", "dry_run", "queue"),
    [
        ("vacuum", {}, False, "light"),
        ("set_properties", {"properties": {"delta.appendOnly": "true"}}, False, "light"),
        ("optimize", {}, True, "reads"),
        ("delete", {"where": "id = 1"}, False, "spark"),
    ],
)
def test_only_jobs_that_need_a_jvm_go_to_the_spark_workers(table, kind, parameters, dry_run, queue):
    job = request_job(
        table=table, kind=kind, parameters=parameters, requested_by=None, dry_run=dry_run
    )
    assert job.queue == queue


def test_a_statement_gives_the_same_job_as_its_parameters(table, maintainer):
    job = request_job(
        table=table, sql="DELETE FROM t WHERE id = 3", requested_by=person("operator")
    )
    assert (job.kind, job.parameters["where"]) == ("delete", "id = 3")


def test_a_statement_for_another_table_is_refused(table, maintainer):
    with pytest.raises(RequestError) as refused:
        request_job(table=table, sql="OPTIMIZE sales.other", requested_by=maintainer)
    assert refused.value.field == "table"


def test_a_role_below_the_required_one_is_refused(table):
    with pytest.raises(NotPermittedError):
        optimize(table, person("operator"))
    with pytest.raises(NotPermittedError):
        optimize(table, person("viewer"))
    assert not Job.objects.exists()


def test_no_job_is_accepted_where_the_installation_is_read_only(table, maintainer, settings):
    settings.READ_ONLY = True
    with pytest.raises(ReadOnlyError):
        optimize(table, maintainer)


def test_a_table_or_source_outside_the_roots_is_refused(table, lake):
    source = {"kind": "files", "uri": "/etc/passwd", "format": "csv"}
    with pytest.raises(PathOutsideRootError):
        request_job(table=table, kind="append", parameters={"source": source}, requested_by=None)
    Table.objects.filter(pk=table.pk).update(uri="/elsewhere")
    table.refresh_from_db()
    with pytest.raises(PathOutsideRootError):
        optimize(table, None)


def test_a_source_table_that_the_person_may_not_see_is_as_if_it_were_not_there(table, lake):
    Table.objects.create(name="hr.salaries", uri=str(lake / "lake/hr/salaries"))
    stranger = User.objects.create_user("stranger")
    table.grants.create(user=stranger, role=20)
    source = {"kind": "table", "table": "hr.salaries"}
    with pytest.raises(RequestError) as refused:
        request_job(
            table=table, kind="append", parameters={"source": source}, requested_by=stranger
        )
    assert refused.value.field == "source.table"


def test_the_same_key_and_request_give_the_first_job_again(table, maintainer):
    first = optimize(table, maintainer, idempotency_key="k1")
    assert optimize(table, maintainer, idempotency_key="k1") == first
    assert optimize(table, maintainer, idempotency_key="k2") != first
    assert optimize(table, person("admin"), idempotency_key="k1") != first


def test_the_same_key_for_another_request_is_refused(table, maintainer):
    optimize(table, maintainer, idempotency_key="k1")
    with pytest.raises(IdempotencyMismatchError):
        optimize(table, maintainer, idempotency_key="k1", dry_run=True)
    assert Job.objects.count() == 1


def test_a_key_is_free_again_after_a_day(table, maintainer):
    first = optimize(table, maintainer, idempotency_key="k1")
    yesterday = timezone.now() - timedelta(hours=25)
    Job.objects.filter(pk=first.pk).update(created_at=yesterday)
    assert optimize(table, maintainer, idempotency_key="k1", dry_run=True) != first


@pytest.mark.parametrize(
    ("usual", "requested", "taken"), [(3600, 0, 3600), (3600, 60, 60), (0, 0, None), (0, 60, 60)]
)
def test_a_job_has_the_usual_time_limit_or_the_one_it_requests(
    table, maintainer, settings, usual, requested, taken
):
    settings.JOB_TIME_LIMIT_SECONDS = usual
    job = request_job(table=table, kind="optimize", requested_by=maintainer, time_limit_s=requested)
    assert job.time_limit_s == taken
    Job.objects.filter(pk=job.pk).update(state=Job.State.FAILED)
    job.refresh_from_db()
    assert retry_job(job, maintainer).time_limit_s == taken


@pytest.mark.parametrize("requested", [-1, 61])
def test_a_time_limit_longer_than_any_job_may_have_is_refused(
    table, maintainer, settings, requested
):
    settings.JOB_TIME_LIMIT_SECONDS, settings.JOB_MAX_TIME_LIMIT_SECONDS = 30, 60
    with pytest.raises(RequestError) as refused:
        request_job(table=table, kind="optimize", requested_by=maintainer, time_limit_s=requested)
    assert refused.value.field == "time_limit_s"


def test_a_queued_job_is_cancelled_at_once(table, maintainer):
    job = cancel_job(optimize(table, maintainer), maintainer)
    assert job.state == Job.State.CANCELLED
    with pytest.raises(JobStateError):
        cancel_job(job, maintainer)


def test_a_running_job_is_asked_to_stop(table, maintainer):
    job = optimize(table, maintainer)
    Job.objects.filter(pk=job.pk).update(state=Job.State.RUNNING)
    job = cancel_job(job, maintainer)
    assert (job.state, job.cancel_requested_at is not None) == (Job.State.CANCELLING, True)
    assert cancel_job(job, maintainer).cancel_requested_at == job.cancel_requested_at


def test_a_committing_job_commits_although_it_is_asked_to_stop(table, maintainer):
    job = optimize(table, maintainer)
    Job.objects.filter(pk=job.pk).update(state=Job.State.COMMITTING)
    job = cancel_job(job, maintainer)
    assert (job.state, job.cancel_requested_at is not None) == (Job.State.COMMITTING, True)


def lose_worker(job: Job) -> Job:
    """Simulate a worker that fell silent before or after its commit; the sweeper queued the job again."""
    lease = leases.claim(job.pk, "light@gone")
    assert lease is not None
    leases.record(lease, base_version=4)
    leases.begin_commit(lease)
    Job.objects.filter(pk=job.pk).update(lease_expires_at=timezone.now() - timedelta(seconds=1))
    assert leases.requeue_expired() == [job.pk]
    job.refresh_from_db()
    return job


def test_a_job_whose_silent_worker_may_have_committed_is_not_called_cancelled(table, maintainer):
    job = cancel_job(lose_worker(optimize(table, maintainer)), maintainer)
    assert (job.state, job.cancel_requested_at is not None) == (Job.State.CANCELLING, True)
    next_lease = leases.claim(job.pk, "light@next")
    assert next_lease is not None
    assert leases.is_cancelled(next_lease)


def test_a_retry_finds_the_commit_of_a_worker_that_fell_silent(table, maintainer):
    job = lose_worker(optimize(table, maintainer))
    Job.objects.filter(pk=job.pk).update(state=Job.State.CANCELLED)
    job.refresh_from_db()
    again = retry_job(job, maintainer)
    assert (again.txn_id, again.base_version) == (job.txn_id, 4)


def test_a_stranger_may_not_cancel(table, maintainer):
    job = optimize(table, maintainer)
    with pytest.raises(NotPermittedError):
        cancel_job(job, person("viewer"))


def test_a_retry_after_a_failure_keeps_the_transaction_and_after_a_conflict_draws_a_new_one(
    table, maintainer
):
    job = optimize(table, maintainer)
    Job.objects.filter(pk=job.pk).update(state=Job.State.FAILED, base_version=4)
    job.refresh_from_db()
    again = retry_job(job, maintainer)
    assert (again.txn_id, again.base_version, again.retry_of) == (job.txn_id, 4, job)
    Job.objects.filter(pk=again.pk).update(state=Job.State.FAILED)
    Job.objects.filter(pk=job.pk).update(state=Job.State.CONFLICTED)
    job.refresh_from_db()
    assert retry_job(job, maintainer).txn_id != job.txn_id


def test_a_job_runs_again_once_at_a_time(table, maintainer):
    job = optimize(table, maintainer)
    Job.objects.filter(pk=job.pk).update(state=Job.State.CANCELLED)
    job.refresh_from_db()
    again = retry_job(job, maintainer)
    for ask in (retry_job, rerun_job):
        with pytest.raises(JobStateError, match="running again cannot be run once more"):
            ask(job, maintainer)
    Job.objects.filter(pk=again.pk).update(state=Job.State.FAILED)
    again.refresh_from_db()
    third = retry_job(again, maintainer)
    for earlier in (job, again):  # a rerun of a rerun is one of the first job, too
        with pytest.raises(JobStateError, match="running again"):
            retry_job(earlier, maintainer)
    Job.objects.filter(pk=third.pk).update(state=Job.State.SUCCEEDED)
    assert rerun_job(job, maintainer).retry_of == job


def test_jobs_that_succeeded_or_still_run_are_not_retried(table, maintainer):
    job = optimize(table, maintainer)
    for state in (Job.State.QUEUED, Job.State.RUNNING, Job.State.SUCCEEDED):
        job.state = state
        with pytest.raises(JobStateError):
            retry_job(job, maintainer)


def test_a_new_table_is_a_row_and_a_job(lake, maintainer):
    job = request_create(
        name="crm.customers", parameters={"schema": SCHEMA}, requested_by=maintainer
    )
    assert job.table.uri == str(lake / "lake/crm/customers")
    assert (job.kind, job.table.version) == ("create", None)
    with pytest.raises(TableExistsError):
        request_create(name="crm.customers", parameters={"schema": SCHEMA}, requested_by=maintainer)
    with pytest.raises(TableExistsError):
        request_create(name="crm", parameters={"schema": SCHEMA}, requested_by=maintainer)


def test_new_tables_go_where_an_administrator_says_an_object_store_too(lake, maintainer, settings):
    settings.LAKE_HOME = "s3://my-lake/made-here/"
    settings.TABLE_ROOTS = [settings.LAKE_HOME]
    job = request_create(name="crm.one", parameters={"schema": SCHEMA}, requested_by=maintainer)
    assert job.table.uri == "s3://my-lake/made-here/crm/one"
    for name in ("crm", "crm.one.below"):
        with pytest.raises(TableExistsError):
            request_create(name=name, parameters={"schema": SCHEMA}, requested_by=maintainer)


def test_a_statement_that_says_dry_run_is_one(table, maintainer):
    asked = {"table": table, "requested_by": maintainer}
    assert request_job(sql="VACUUM sales.orders RETAIN 200 HOURS DRY RUN", **asked).dry_run
    assert not request_job(sql="VACUUM sales.orders RETAIN 200 HOURS", **asked).dry_run


def test_a_table_that_a_job_is_still_to_create_is_not_looked_for(table, lake, maintainer):
    job = request_create(
        name="crm.customers", parameters={"schema": SCHEMA}, requested_by=maintainer
    )
    assert [*tables_with_a_log()] == [table]
    Job.objects.filter(pk=job.pk).update(state=Job.State.FAILED)
    assert {*tables_with_a_log()} == {table, job.table}
    Table.objects.filter(pk=table.pk).update(version=3)
    optimize(table, maintainer)
    assert table in tables_with_a_log()


def test_a_clone_is_a_row_and_a_job_over_a_table_one_may_read(table, maintainer):
    parameters = {"source_table": "sales.orders", "version": 3}
    job = request_create(
        name="crm.clone", kind="clone", parameters=parameters, requested_by=maintainer
    )
    assert (job.kind, job.queue, job.table.version) == ("clone", "light", None)
    assert job.statement == "CREATE TABLE crm.clone SHALLOW CLONE sales.orders VERSION AS OF 3"
    with pytest.raises(RequestError, match="does not create a table"):
        request_create(name="x", kind="optimize", parameters={}, requested_by=maintainer)


def test_hidden_tables_cannot_be_cloned(table, lake):
    someone = User.objects.create_user("someone")
    mine = Table.objects.create(name="mine", uri=str(lake / "lake/mine"))
    TableGrant.objects.create(table=mine, user=someone, role=Role.ADMIN)
    for name in (table.name, table.uri, "sales.nothing"):
        with pytest.raises(RequestError, match="does not exist") as caught:
            request_job(
                table=mine,
                kind="clone",
                parameters={"source_table": name, "replace": True},
                requested_by=someone,
            )
        assert caught.value.field == "source_table"
    sql = f"CREATE OR REPLACE TABLE mine SHALLOW CLONE delta.`{table.uri}`"
    with pytest.raises(RequestError, match="does not exist"):
        request_job(table=mine, sql=sql, requested_by=someone)


def test_a_retry_does_not_read_hidden_tables_either(table, lake, maintainer):
    someone = User.objects.create_user("someone")
    mine = Table.objects.create(name="mine", uri=str(lake / "lake/mine"))
    TableGrant.objects.create(table=mine, user=someone, role=Role.ADMIN)
    parameters = {"source_table": table.name, "replace": True}
    job = request_job(table=mine, kind="clone", parameters=parameters, requested_by=maintainer)
    Job.objects.filter(pk=job.pk).update(state=Job.State.CONFLICTED)
    job.refresh_from_db()
    with pytest.raises(NotPermittedError, match="all tables that it names") as caught:
        retry_job(job, someone)
    assert table.name not in str(caught.value), "the request was not theirs"


def test_creating_twice_under_one_key_gives_the_first_job(lake, maintainer):
    request = {"name": "crm.customers", "parameters": {"schema": SCHEMA}, "idempotency_key": "c"}
    first = request_create(**request, requested_by=maintainer)
    assert request_create(**request, requested_by=maintainer) == first


@pytest.mark.parametrize("name", ["", "a/b", "../x", "a..b", ".a", "a b", "a\0", "_delta_log/x"])
def test_a_name_that_leads_anywhere_is_refused(lake, maintainer, name):
    with pytest.raises(RequestError):
        request_create(name=name, parameters={"schema": SCHEMA}, requested_by=maintainer)


def test_a_job_is_sent_when_its_row_is_committed(table, django_capture_on_commit_callbacks):
    with django_capture_on_commit_callbacks(execute=True):
        job = optimize(table, None)
        assert job.sent_at is None
    job.refresh_from_db()
    assert job.sent_at is not None


def test_while_the_broker_is_down_a_job_stays_queued_and_says_so(table, unreachable_broker):
    job = optimize(table, None)
    assert send_job(job.pk) is False
    job.refresh_from_db()
    assert (job.state, job.sent_at) == (Job.State.QUEUED, None)
    assert "broker" in job.events.last().message


@pytest.mark.timeout(20)
def test_a_broker_that_never_answers_holds_a_request_for_seconds(table, silent_broker):
    job = optimize(table, None)
    assert send_job(job.pk) is False
    assert "broker" in job.events.last().message


def test_the_sweeper_sends_messages_that_were_never_sent_or_lost(table):
    never, lost, fresh = (optimize(table, None) for _ in range(3))
    now = timezone.now()
    Job.objects.filter(pk=lost.pk).update(sent_at=now - timedelta(hours=1))
    Job.objects.filter(pk=fresh.pk).update(sent_at=now)
    assert send_overdue() == 2
    never.refresh_from_db()
    assert never.sent_at is not None


@pytest.mark.parametrize(
    ("asked_s", "sent_s", "again"),
    [
        (70, 70, True),  # once, a minute ago
        (3600, 70, False),  # an hour in the queue: not each minute any more
        (3600, 601, True),
        (200, 95, False),
        (200, 110, True),
        (50, 50, False),
        (-3600, -3600, True),  # by a clock that was an hour ahead
    ],
)
def test_a_job_that_waits_long_is_sent_again_ever_less_often(table, asked_s, sent_s, again):
    job, now = optimize(table, None), timezone.now()
    asked, sent = (now - timedelta(seconds=seconds) for seconds in (asked_s, sent_s))
    Job.objects.filter(pk=job.pk).update(created_at=asked, sent_at=sent)
    assert send_overdue() == again


def test_the_own_name_of_a_statement_is_free_even_if_others_have_it(table, maintainer):
    """A common table expression or an alias may also have the name; the other table is never read."""
    for name in ("t", "x", "s", "c"):
        Table.objects.create(name=name, uri=str(Path(table.uri).parent / name))
    for form, own in product(FORMS | SHADOWS, ("t", "sales.orders")):
        statement = form.format(t=own, r=own)
        job = request_job(table=table, sql=statement, requested_by=maintainer)
        assert command_of(job).other_tables_read() == (), statement
        assert not names_others(job), statement


def test_a_script_does_not_guess_which_table_is_called_t(table, maintainer):
    archive = Table.objects.create(name="archive", uri=str(Path(table.uri).parent / "archive"))
    step = "INSERT INTO archive SELECT * FROM t"
    script = f"{step}; DELETE FROM t WHERE id IN (SELECT id FROM t)"  # noqa: S608
    assert request_job(table=table, sql=script, requested_by=maintainer).pk
    Table.objects.create(name="t", uri=str(Path(table.uri).parent / "t"))
    with pytest.raises(RequestError, match=r"t means sales\.orders in this script"):
        request_job(table=table, sql=script, requested_by=maintainer)
    hidden = script.replace("SELECT * FROM t", "WITH t AS (SELECT 1 AS id) SELECT * FROM t")
    for accepted in (hidden, script.replace(step, "DELETE FROM t WHERE id IN (SELECT id FROM t)")):
        assert request_job(table=table, sql=accepted, requested_by=maintainer).pk
    assert request_job(table=archive, sql=step, requested_by=maintainer).pk


def test_values_that_only_spark_can_fill_in_are_refused_at_the_request(table, maintainer):
    table.schema = SCHEMA
    table.save()
    source = Table.objects.create(
        name="src", uri=str(Path(table.uri).parent / "src"), schema=SCHEMA
    )
    selects = (
        "SELECT _metadata.file_size AS id FROM src",
        "SELECT src._MetaData.row_index AS id FROM src",
        "SELECT id FROM src WHERE `_metadata`.file_name = 'x'",
        "SELECT id FROM (SELECT id, _metadata FROM src)",
        "WITH q AS (SELECT _metadata.file_size AS id FROM src) SELECT id FROM q",
        "SELECT ${spark.app.id} AS id FROM src",
        "SELECT id AS `${env:HOME}` FROM src",
        "SELECT id FROM `${spark.app.name}`",
    )
    statements = (f"INSERT INTO sales.orders {select}" for select in selects)
    merged = (
        f"MERGE INTO sales.orders t USING ({selects[0]}) s ON t.id = s.id WHEN MATCHED THEN DELETE"
    )
    for sql in (*statements, merged):
        with pytest.raises(ExpressionError, match=r"_[mM]eta[dD]ata|\$\{"):
            request_job(table=table, sql=sql, requested_by=maintainer)
    text = "INSERT INTO sales.orders SELECT id FROM src WHERE '${x}' = '_metadata'"
    assert request_job(table=table, sql=text, requested_by=maintainer).pk
    source.schema = SCHEMA.replace('"id"', '"_metadata"')
    source.save()
    own = "INSERT INTO sales.orders SELECT _metadata AS id FROM src"
    assert request_job(table=table, sql=own, requested_by=maintainer).pk
