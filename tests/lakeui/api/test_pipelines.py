"""Reports of programs: stored once, beside the conflicts of jobs; unusable ones are refused."""

from copy import deepcopy
from datetime import timedelta

import pytest
from django.core.cache import cache
from django.utils import timezone
from rest_framework.test import APIClient

from lakeui.api.conflicts.pipelines import MAX_EVENTS
from lakeui.api.models import ApiToken
from lakeui.catalog.roles import Role
from lakeui.conflicts.models import Conflict, ConflictDay, Pipeline, PipelineTransaction
from lakeui.conflicts.recording import AttemptOrigin, record_resolved
from tests.lakeui.api.problem import problem
from tests.lakeui.api.test_roles_by_address import ROWS as ADDRESSES
from tests.lakeui.api.test_roles_by_address import roll_back
from tests.lakeui.conflicts.pipelines import Program, batch
from tests.lakeui.people import grant, make_table, person
from tests.stateful import commands as c
from tests.stateful.arrow_engine import run

ADDRESS = "/api/v1/pipelines/events/"
TEXT = (
    "io.delta.exceptions.ConcurrentAppendException: Files were added to the root of the table by a "
    "concurrent update. Please try the operation again. Conflicting commit: "
    '{"timestamp":1,"operation":"MERGE","readVersion":1,"isBlindAppend":false}'
)

pytestmark = pytest.mark.django_db


@pytest.fixture
def program(tmp_path, settings):
    settings.TABLE_ROOTS = [str(tmp_path)]
    return Program(tmp_path / "orders")


@pytest.fixture
def robot(program):
    """Return a service account that may report on one table."""
    user = person("nightly-robot")
    grant(user, program.table, "reporter")
    return user


@pytest.fixture
def report(robot):
    client = token_client(robot, Role.REPORTER)
    return lambda *events, **more: client.post(ADDRESS, batch(*events, **more), format="json")


def token_client(user, role):
    _, secret = ApiToken.objects.create(user=user, name="robot", role=role)
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {secret}")
    return client


def nothing_is_recorded():
    rows = (Conflict, ConflictDay, Pipeline, PipelineTransaction)
    return not any(model.objects.exists() for model in rows)


def test_a_resolved_conflict_is_kept_as_a_jobs(program, report):
    events = program.resolve_events()
    answer = report(*events)
    assert answer.json() == {"accepted": 3, "duplicates": 0, "refused": []}
    conflict = Conflict.objects.get()
    assert (conflict.kind, conflict.table, conflict.job) == ("resolved", program.table, None)
    assert (conflict.read_version, conflict.winning_version) == (1, 2)
    assert conflict.attempted_version == events[2]["version"] == 3
    assert conflict.current_user_name == "pipeline nightly"
    assert conflict.facts["decision"]["winners"]
    row = conflict.transaction
    assert (row.state, row.committed_version, row.host) == ("committed", 3, "etl-3")
    assert (row.ended_at - row.started_at).seconds >= 40
    assert str(row.pipeline) == "pipeline nightly"


def test_a_resolved_compaction_is_kept_at_the_level_that_its_commit_records(program):
    program.do(c.Append(7, (("a", 7),)))
    compaction = run(c.Optimize(8, (0, 1)), program.lake, stats=False)
    program.do(c.Delete(9, c.Range(0, 2)))
    compaction.txn.commit("OPTIMIZE")
    (resolved,) = compaction.txn.outcome.resolved
    kept = record_resolved(resolved, table=program.table, origin=AttemptOrigin(attempt=1))
    assert kept.isolation_level == program.lake.history(1)[0].isolation_level == "SnapshotIsolation"
    assert (kept.current_operation, kept.winner_operation) == ("OPTIMIZE", "DELETE")


def test_an_aborted_write_is_kept_as_a_jobs(program, report):
    report(*program.abort_events())
    conflict = Conflict.objects.get()
    assert (conflict.kind, conflict.exception) == ("aborted", "ConcurrentDeleteReadException")
    assert conflict.subclass == "ROW_LEVEL_CHANGES"
    assert (conflict.row_count, conflict.wasted_bytes) == (1, 12)
    assert 40_000 <= conflict.wasted_ms < 60_000
    assert "Nothing was written." in conflict.message
    assert conflict.transaction.state == "aborted"


def test_a_reporter_cannot_report_as_another_writer(program, report):
    _, aborted = program.abort_events()
    *_, resolved, _ = program.resolve_events()
    for event in (aborted, resolved):
        report(replace_value(event, ("conflict", "current", "user"), "ann"))
    names = Conflict.objects.values_list("current_user_name", "facts__current__user")
    assert set(names) == {("pipeline nightly", "pipeline nightly")}


def test_the_time_of_the_winning_commit_is_the_logs(program, report):
    _, aborted = program.abort_events()
    report(replace_value(aborted, ("conflict", "winner", "timestamp_ms"), 1))
    conflict = Conflict.objects.get()
    winner = program.table.commits.get(version=conflict.winning_version)
    assert conflict.winner_at == winner.committed_at


def test_a_transaction_with_nothing_to_commit_has_ended(program, report):
    begun, _ = program.abort_events()
    report(begun, begun | {"kind": "ended", "sequence": 1})
    assert PipelineTransaction.objects.get().state == "ended"


def test_a_repeated_batch_is_stored_once(program, report):
    events = [*program.resolve_events(), *program.abort_events()]
    report(*events, dropped=7)
    again = report(*events, dropped=7)
    assert again.json() == {"accepted": 0, "duplicates": 5, "refused": []}
    assert Conflict.objects.count() == 2
    assert sum(day.conflicts for day in ConflictDay.objects.all()) == 2
    assert Pipeline.objects.get().dropped == 7


def test_events_that_come_late_or_without_the_first_say_the_same(program, report):
    begun, resolved, committed = program.resolve_events()
    report(committed)
    report(resolved)
    conflict = Conflict.objects.get()
    assert conflict.attempted_version == conflict.transaction.committed_version == 3
    assert report(begun).json()["duplicates"] == 1


def test_an_error_of_another_engine_is_kept_as_reported(program, report):
    event = program.abort_events()[0] | {"kind": "reported", "text": TEXT, "operation": "UPDATE"}
    report(event)
    conflict = Conflict.objects.get()
    assert (conflict.kind, conflict.code) == ("reported", "DELTA_CONCURRENT_APPEND")
    assert (conflict.current_operation, conflict.winner_operation) == ("UPDATE", "MERGE")
    assert conflict.current_user_name == "pipeline nightly"
    assert conflict.wasted_ms >= 40_000


def test_a_hidden_table_is_refused_with_the_reason_and_the_others_are_stored(program, report):
    other = make_table("secret.salaries")
    begun, aborted = program.abort_events()
    for name in (other.uri, other.name, "no.such"):
        answer = report(aborted | {"table": name}, begun).json()
        (refused,) = answer["refused"]
        assert (refused["index"], refused["field"]) == (0, "table")
        assert name in refused["message"]
        assert "administrator" in refused["remedy"]
    assert Conflict.objects.count() == 0


def test_a_table_is_found_by_name_and_by_any_spelling_of_its_place(program, report):
    begun, _ = program.abort_events()
    for name in (program.table.name, f"file://{program.lake.uri}", program.lake.uri + "/"):
        assert report(begun | {"table": name}).status_code == 200


def replace_value(event, path, value):
    """Return the event with one value replaced or added."""
    copy = deepcopy(event)
    *parents, last = path
    place = copy
    for name in parents:
        place = place[name]
    place[last] = value
    return copy


HOSTILE = [
    (("conflict", "winner", "txn_id"), "forged", "conflict.winner.txn_id"),
    (("conflict", "winner", "operation"), "MERGE", "conflict.winner.operation"),
    (("conflict", "winner", "user"), "ada", "conflict.winner.user"),
    (("conflict", "winner", "version"), 2**40, "version"),
    (("conflict", "winner", "version"), 0, "conflict.read_version"),
    (("conflict", "winner", "version"), None, "conflict.winner.version"),
    (("conflict", "winner", "extra"), 1, "conflict.winner.extra"),
    (("conflict", "read_version"), "one", "conflict.read_version"),
    (("conflict", "file_count"), 2**60, "conflict.file_count"),
    (("conflict", "partitions"), ["p"] * 3000, "conflict.partitions"),
    (("conflict", "rule"), "protocol_changed", "conflict.rule"),
    (("conflict", "rule"), "no_rule", "conflict.rule"),
    (("conflict", "current", "read_version"), 0, "conflict.current"),
    (("conflict",), [], "conflict"),
    (("conflict",), None, "conflict"),
    (("exception",), "SystemExit", "exception"),
    (("exception",), ["a"], "exception"),
    (("at",), "yesterday", "at"),
    (("at",), "2031-01-01T00:00:00Z", "at"),
    (("at",), "1931-01-01T00:00:00Z", "at"),
    (("started_at",), "2027-01-01T00:00:00Z", "started_at"),
    (("sequence",), -1, "sequence"),
    (("txn_id",), "x" * 200, "txn_id"),
    (("kind",), "deleted", "kind"),
    (("version",), 2**70, "version"),
    (("wasted_bytes",), 2**60, "wasted_bytes"),
    (("statement",), "x" * 30_000, "statement"),
    (("table",), "x\n\"' OR 1=1", "table"),
    (("winner",), "me", "winner"),
]


@pytest.mark.parametrize(("path", "value", "field"), HOSTILE)
def test_events_that_the_engine_cannot_record_are_refused_with_field_and_remedy(
    program, report, path, value, field
):
    _, aborted = program.abort_events()
    told = problem(report(replace_value(aborted, path, value)), 422)
    assert any(field in fault["field"] for fault in told["errors"]), told
    assert all(
        fault["field"].startswith("events.0") and fault["message"] for fault in told["errors"]
    )
    assert nothing_is_recorded()


def test_a_version_of_another_transaction_is_refused(program, report):
    *_, committed = program.resolve_events()
    told = problem(report(committed | {"version": 2}), 422)
    assert told["errors"][0]["field"] == "events.0.version"
    assert nothing_is_recorded()


@pytest.mark.parametrize(
    "body",
    [
        {"events": []},
        {"events": [1]},
        {"events": "all"},
        {"writer": "me"},
        {"writer": {"application": ""}},
        {"writer": {"application": "x" * 101}},
        {"writer": {"application": "x", "token": "y"}},
        {"dropped": -1},
        {"dropped": 2**70},
        {"more": 1},
    ],
)
def test_a_batch_of_a_wrong_shape_is_refused_whole(program, robot, body):
    client = token_client(robot, Role.REPORTER)
    told = problem(client.post(ADDRESS, batch(*program.abort_events()) | body, format="json"), 422)
    assert told["errors"][0]["field"]
    assert nothing_is_recorded()


def test_a_huge_batch_is_refused_whole(program, report, settings):
    begun, _ = program.abort_events()
    problem(report(*([begun] * (MAX_EVENTS + 1))), 422)
    settings.DATA_UPLOAD_MAX_MEMORY_SIZE = 20_000
    problem(report(begun | {"statement": "x" * 19_900}), 413)
    assert nothing_is_recorded()


def test_one_wrong_event_of_a_batch_keeps_the_batch_from_being_read(program, report):
    begun, aborted = program.abort_events()
    problem(report(begun, aborted | {"kind": "deleted"}), 422)
    assert nothing_is_recorded()


def test_a_token_holds_up_no_other(program, robot, settings):
    settings.API_RATE_REPORTS = "2/min"
    begun = batch(program.abort_events()[0])
    one, other = (token_client(robot, Role.REPORTER) for _ in range(2))
    statuses = [one.post(ADDRESS, begun, format="json").status_code for _ in range(3)]
    assert statuses == [200, 200, 429]
    assert int(one.post(ADDRESS, begun, format="json").headers["Retry-After"]) >= 1
    assert other.post(ADDRESS, begun, format="json").status_code == 200


def test_nothing_is_kept_while_the_installation_is_read_only(program, report, settings):
    settings.READ_ONLY = True
    problem(report(*program.abort_events()), 403, "READ_ONLY")
    assert nothing_is_recorded()


PUBLIC = ("health/", "schema/", "docs/", "redoc/", "elsewhere/")


def test_a_token_that_may_only_report_opens_nothing_else(table, job, conflict, schedule, people):
    """This holds even for a token of an admin: the token's role is the limit."""
    numbers = {"table": table.pk, "job": job.pk, "conflict": conflict.pk, "token": job.pk}
    numbers |= {"pair": conflict.statement_pair_id, "schedule": schedule.pk}
    client = token_client(people["admin"], Role.REPORTER)
    for method, address, body, _ in ADDRESSES:
        cache.clear()  # the rates
        path = f"/api/v1/{address.format(**numbers)}"
        with roll_back():
            answer = getattr(client, method)(path, body, format="json")
        if path == ADDRESS:
            assert answer.status_code in (200, 422), address
        elif address in PUBLIC:
            assert answer.status_code in (200, 404), address
        else:
            problem(answer, 403, "TOKEN_ONLY_REPORTS")


@pytest.mark.parametrize(
    ("role", "kept"),
    [("reporter", True), ("viewer", False), ("operator", True), ("maintainer", True)],
)
def test_reporters_and_writers_report(program, role, kept):
    user = person("somebody")
    grant(user, program.table, role)
    client = APIClient()
    client.force_login(user)
    answer = client.post(ADDRESS, batch(*program.abort_events()), format="json")
    assert (answer.status_code == 200) == kept == Conflict.objects.exists()


def test_a_token_that_may_only_read_reports_nothing(program, people):
    client = token_client(people["admin"], Role.VIEWER)
    problem(client.post(ADDRESS, batch(*program.abort_events()), format="json"), 422)
    assert nothing_is_recorded()


def test_a_reporter_sees_no_table(program, robot):
    client = APIClient()
    client.force_login(robot)
    assert client.get("/api/v1/tables/").json()["items"] == []
    problem(client.get(f"/api/v1/tables/{program.table.pk}/"), 404)
    robot.groups.create(name="x")
    assert (
        client.post(
            "/api/v1/tokens/", {"name": "cron", "role": "reporter"}, format="json"
        ).status_code
        == 201
    )
    problem(client.post("/api/v1/tokens/", {"name": "cron", "role": "viewer"}, format="json"), 403)


def test_the_group_of_reporters_reports_on_every_table(program, report):
    robot = person("all-robots", "reporter")
    client = token_client(robot, Role.REPORTER)
    answer = client.post(ADDRESS, batch(*program.abort_events()), format="json")
    assert answer.json()["accepted"] == 2
    started = PipelineTransaction.objects.get().started_at
    assert timezone.now() - started < timedelta(minutes=2)
