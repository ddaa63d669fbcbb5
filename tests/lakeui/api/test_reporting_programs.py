"""Real programs that report to a real dashboard: each conflict is recorded once, like a job's."""

import json
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pyarrow as pa
import pytest
from deltalake import DeltaTable as RustTable
from deltalake import write_deltalake
from deltalake.exceptions import CommitFailedError
from django.db import connections
from rest_framework.test import APIClient

from engine.errors import ConflictError
from engine.reports.dashboard import BatchReply, Dashboard
from engine.reports.other_engines import ConflictReports
from engine.reports.transactions import ReportingObserver
from lakeui.api.models import ApiToken
from lakeui.catalog.mirror import refresh_table
from lakeui.catalog.registration import register_table
from lakeui.catalog.roles import Role
from lakeui.conflicts.lanes.swim_lane import swim_lane
from lakeui.conflicts.models import Conflict, Pipeline, PipelineTransaction
from tests.engine.delta.dashboards import WRITER, files_of, outbox_to
from tests.lakeui.conflicts.pipelines import Program, batch
from tests.lakeui.people import grant, person
from tests.stateful import commands as c
from tests.stateful.arrow_engine import run

AT_ONCE = 4
NOBODY = "http://127.0.0.1:9"
pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(120)]


@pytest.fixture
def program(tmp_path, settings, transactional_db):
    settings.TABLE_ROOTS = [str(tmp_path)]
    return Program(tmp_path / "orders")


@pytest.fixture
def token(program):
    robot = person("nightly-robot")
    grant(robot, program.table, "reporter")
    _, secret = ApiToken.objects.create(user=robot, name="cron", role=Role.REPORTER)
    return secret


@pytest.fixture
def spool(tmp_path):
    return tmp_path / "spool"


def observe_delete(lake, box, command):
    observer = ReportingObserver(box, lake.uri, "DELETE", "DELETE FROM orders")
    running = run(command, lake, stats=False)
    observer.started(running.txn)
    running.txn.observe(observer)
    return running


def write_with_conflicts(program, box):
    """Run one DELETE that is resolved by rows, and one that is aborted."""
    gives_way = observe_delete(program.lake, box, c.Delete(2, c.Range(0, 2)))
    program.do(c.Delete(3, c.Range(4, 5)))
    gives_way.txn.commit("DELETE")
    loses = observe_delete(program.lake, box, c.Delete(4, c.Range(3, 4)))
    program.do(c.Update(5, c.Range(3, 4), x=99))
    with pytest.raises(ConflictError):
        loses.txn.commit("DELETE")


def kinds():
    return sorted(Conflict.objects.values_list("kind", flat=True))


def test_a_programs_conflicts_are_there_with_both_sides(live_server, program, token, spool):
    box = outbox_to(live_server.url, spool, token=token)
    write_with_conflicts(program, box)
    assert box.flush(60)
    assert kinds() == ["aborted", "resolved"]
    lost = Conflict.objects.get(kind="aborted")
    assert lost.exception == "ConcurrentDeleteReadException"
    assert (lost.current_operation, lost.winner_operation) == ("DELETE", "UPDATE")
    assert lost.transaction.statement == "DELETE FROM orders"
    assert lost.transaction.started_at <= lost.occurred_at
    assert Pipeline.objects.get().name == WRITER["application"]
    assert files_of(spool) == []


def test_a_program_whose_dashboard_was_away_reports_once_it_is_back(
    live_server, program, token, spool
):
    away = outbox_to(NOBODY, spool, token=token)
    write_with_conflicts(program, away)
    assert not away.flush(60)
    away.close()
    assert kinds() == []
    waiting = [json.dumps(batch) for batch in files_of(spool)]
    assert waiting
    back = outbox_to(live_server.url, spool, token=token)
    assert back.flush(60)
    assert kinds() == ["aborted", "resolved"]
    assert files_of(spool) == []
    dashboard = Dashboard(live_server.url, token, timeout_s=30.0)
    for kept in waiting:  # an answer was lost, so the same comes again
        body = {"writer": WRITER, "events": json.loads(kept)}
        assert dashboard.post(json.dumps(body).encode()).reply is BatchReply.DELIVERED
    assert kinds() == ["aborted", "resolved"]
    assert sorted(PipelineTransaction.objects.values_list("state", flat=True)) == [
        "aborted",
        "committed",
    ]


def test_a_token_that_was_revoked_loses_no_report(live_server, program, token, spool):
    kept = ApiToken.objects.get()
    secret, kept_user = token, kept.user
    kept.delete()
    box = outbox_to(live_server.url, spool, token=secret)
    write_with_conflicts(program, box)
    assert not box.flush(60)
    _, renewed = ApiToken.objects.create(user=kept_user, name="cron", role=Role.REPORTER)
    assert outbox_to(live_server.url, spool, token=renewed).flush(60)
    assert kinds() == ["aborted", "resolved"]


def test_a_batch_that_arrives_several_times_at_once_is_stored_once(program, token):
    body = json.dumps(batch(*program.resolve_events(), *program.abort_events(), dropped=3))
    gate = Barrier(AT_ONCE)

    def send(_):
        client = APIClient()
        client.credentials(HTTP_AUTHORIZATION=f"Bearer {token}")
        gate.wait()
        try:
            return client.post(
                "/api/v1/pipelines/events/", body, content_type="application/json"
            ).json()
        finally:
            connections.close_all()

    with ThreadPoolExecutor(AT_ONCE) as pool:
        answers = list(pool.map(send, range(AT_ONCE)))
    assert sorted(answer["accepted"] for answer in answers) == [0] * (AT_ONCE - 1) + [5]
    assert kinds() == ["aborted", "resolved"]
    assert [pipeline.dropped for pipeline in Pipeline.objects.all()] == [3]


def test_an_unregistered_table_is_named_and_dropped(live_server, program, token, spool, caplog):
    program.table.delete()
    box = outbox_to(live_server.url, spool, token=token)
    write_with_conflicts(program, box)
    assert box.flush(60)
    assert "No table that this account may report on is registered" in caplog.text
    assert "ask an administrator for the role reporter" in caplog.text
    assert kinds() == []
    assert files_of(spool) == []


def test_a_conflict_of_delta_rs_is_reported_and_raised_again(
    live_server, tmp_path, program, token, spool
):
    place = str(tmp_path / "rust")
    write_deltalake(place, pa.table({"id": [1, 2, 3]}))
    table = register_table(place, "sales.rust")
    grant(ApiToken.objects.get().user, table, "reporter")
    box = outbox_to(live_server.url, spool, token=token)
    stale = RustTable(place)
    RustTable(place).delete("id = 1")
    refresh_table(table)
    with (
        pytest.raises(CommitFailedError) as raised,
        ConflictReports("sales.rust", "delete", box=box),
    ):
        stale.delete("id = 2")
    assert raised.traceback
    assert box.flush(60)
    conflict = Conflict.objects.get()
    assert (conflict.kind, conflict.current_operation) == ("reported", "DELETE")
    assert conflict.facts["source"] == "delta-rs"
    assert conflict.transaction.pipeline.name == WRITER["application"]
    assert conflict.transaction.started_at <= conflict.occurred_at
    assert swim_lane(table).bars
