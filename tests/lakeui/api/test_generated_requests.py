"""Requests generated from the OpenAPI document: never a 5xx, and answers as documented."""

from dataclasses import asdict
from typing import Any
from zlib import crc32

import pytest
import schemathesis
from django.core.signals import request_finished, request_started
from django.core.wsgi import get_wsgi_application
from django.db import close_old_connections
from django.utils import timezone
from hypothesis import HealthCheck, Phase, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from lakeui import event_streams
from lakeui.api.models import ApiToken
from lakeui.api.schema import REQUESTS
from lakeui.catalog.models import Discovery, Preview, TableKey
from lakeui.catalog.roles import Role
from lakeui.conflicts.models import ConflictRows, ConflictTrials
from lakeui.conflicts.statements.text import DELETE, INSERT
from lakeui.jobs.models import JobAttempt, Schedule
from lakeui.monitoring.models import AlertChannel, AlertRule
from tests.lakeui.conflicts.histories import replayable
from tests.lakeui.factories import make_conflict, make_job
from tests.lakeui.people import make_table, person
from tests.lakeui.story_decision import story_decision, story_rows
from tests.shares import Run, one_in

schema = schemathesis.openapi.from_wsgi("/api/v1/schema/", get_wsgi_application())
# each bound of each field in turn: a thousand requests, drawn as the tests are collected
schema.config.phases.coverage.enabled = Run.is_hunt
for name in REQUESTS:  # each is a schema of its own; all at once take minutes to draw from
    parts = schema.raw_schema["components"]["schemas"]
    parts[f"Command{name}"] = {
        "oneOf": [{"$ref": f"#/components/schemas/{kind}{name}"} for kind in ("Delete", "Optimize")]
    }
CHECKS = [
    not_a_server_error,
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
]
pytestmark = pytest.mark.filterwarnings(  # a stream over WSGI, which nobody serves it by
    "ignore:StreamingHttpResponse must consume asynchronous"
)
RATES = ("API_RATE_PERSON", "API_RATE_REPORTS", "API_RATE_ANONYMOUS")
LIMITS = ("JOBS_PER_PERSON", "DRY_RUNS_PER_PERSON", "READS_PER_PERSON")
ROLES = {"admin": Role.ADMIN, "operator": Role.OPERATOR}


@pytest.fixture
def one_connection(db):
    """Keep the connection open: the test's transaction spans several requests."""
    signals = (request_started, request_finished)
    for signal in signals:
        signal.disconnect(close_old_connections)
    yield
    for signal in signals:
        signal.connect(close_old_connections)


@pytest.fixture
def lake(one_connection, monkeypatch) -> dict[str, Any]:
    """Create one object of every kind that addresses name, with everything that can belong to it."""
    monkeypatch.setattr(event_streams, "LONGEST_S", 0)
    owner, now = person("owner", "admin"), timezone.now()
    table = replayable(make_table())
    table.commits.filter(version=1).update(operation="WRITE", is_blind_append=True)
    table.commits.filter(version__gt=0).update(committed_at=now)
    table.commits.filter(version=2).update(operation="DELETE", read_version=0)
    job = make_job(table, "delete", committed_version=2, requested_by=owner, started_at=now)
    JobAttempt.objects.create(job=job, number=1, started_at=now, finished_at=now)
    conflict = make_conflict(table, job=job, winning_version=2, read_version=0)
    conflict.facts |= {"decision": asdict(story_decision())}
    conflict.occurred_at = now  # within the range of its pair
    conflict.save()
    make_conflict(table, job=job, kind="resolved", winning_version=1, read_version=0)
    ConflictRows.objects.create(conflict=conflict, asked_at=now, read_at=now, **story_rows())
    answer = {"verdict": "passes", "why": "", "winning_version": 2, "rows": 4, "duration_ms": 5}
    ConflictTrials.objects.create(
        conflict=conflict, asked_at=now, read_at=now, answers={"retry": answer}
    )
    columns = [{"name": "id", "type": "integer"}, {"name": "part", "type": "string"}]
    rows = [["1", "a"], [None, None]]
    for version in (0, table.version):
        Preview.objects.create(
            table=table, version=version, asked_at=now, read_at=now, columns=columns, rows=rows
        )
    Preview.objects.create(
        table=table,
        version=2,
        older_version=0,
        asked_at=now,
        read_at=now,
        columns=columns,
        rows=[
            {"change": "removed", "before": ["1", "a"], "after": None, "changed": []},
            {"change": "changed", "before": ["2", "a"], "after": ["2", None], "changed": ["part"]},
        ],
        answer={
            "compared_by": "files",
            "removed": 1,
            "added": None,
            "changed": 1,
            "is_whole": False,
            "repeated_keys": False,
            "dropped_columns": ["old"],
        },
    )
    key = TableKey.objects.create(table=table, kind="primary", name="pk", columns=["id"])
    schedule = Schedule.objects.create(
        name="nightly", table=table, cron="0 2 * * *", kind="optimize", owner=owner
    )
    channel = AlertChannel.objects.create(name="ops", kind="slack", shown_target="https://x/…")
    rule = AlertRule.objects.create(name="jobs", condition="failed_job", channel=channel)
    discovery = Discovery.objects.create(root="/lake", requested_at=now, bound=1)
    return {
        "channel_id": channel.pk,
        "rule_id": rule.pk,
        "discovery_id": discovery.pk,
        "table_id": table.pk,
        "job_id": str(job.pk),
        "upload_id": str(job.pk),  # nobody's
        "conflict_id": conflict.pk,
        "pair_id": conflict.statement_pair_id,
        "schedule_id": schedule.pk,
        "key_id": key.pk,
        "version": 1,
        "older": 0,
        "newer": 2,
        "username": "owner",
    }


@pytest.fixture(params=one_in(2, ROLES))
def token(request, lake, settings):
    for rate in RATES:
        setattr(settings, rate, "1000000/min")
    for limit in LIMITS:  # a slow machine asks again for what it read a while ago
        setattr(settings, limit, 1000)
    user = person("ann", request.param)
    _, secret = ApiToken.objects.create(user=user, name="x", role=ROLES[request.param])
    return secret


def _is_taken(context: schemathesis.HookContext) -> bool:
    """Return True for jobs, a quarter of other writes and a sixth of reads; `make stress` runs the rest."""
    operation = context.operation
    if operation.path.endswith("/tables/{table_id}/jobs/"):
        return True
    every = 6 if operation.method.upper() == "GET" else 4
    return crc32(f"{operation.method} {operation.path}".lower().encode()) % every == 0


GENERATED = settings(
    max_examples=2,
    deadline=None,
    derandomize=True,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)


@schema.include(_is_taken).parametrize()
@GENERATED
@pytest.mark.timeout(300)
def test_no_generated_request_breaks_the_api(case, token, lake):
    _calls(case, token, lake)


if Run.is_hunt:

    @schema.exclude(_is_taken).parametrize()
    @GENERATED
    @pytest.mark.stress
    @pytest.mark.timeout(300)
    def test_no_other_generated_request_breaks_the_api(case, token, lake):
        _calls(case, token, lake)


def _calls(case, token: str, lake: dict[str, Any]) -> None:
    generated = dict(case.path_parameters or {})
    _call(case, token)
    if named := {name: lake[name] for name in generated if name in lake}:
        case.path_parameters = generated | named
        _call(case, token)


def _call(case, token: str) -> None:
    query = case.query or {}
    if isinstance(query.get("wait"), int):
        query["wait"] = min(query["wait"], 1)  # of a minute that nothing would end
    response = case.call(headers={"Authorization": f"Bearer {token}"})
    case.validate_response(response, checks=CHECKS)
    assert response.status_code != 429
    if response.status_code >= 400:
        assert response.headers["content-type"] == ["application/problem+json"]
        assert response.json()["code"]


READS = [
    operation.ok()
    for operation in schema.get_all_operations()
    if operation.ok().method.upper() == "GET"
]
ASKS = {
    "forecast": {"kind": "delete", "sql": "DELETE FROM t"},
    "overlaps": {"current": DELETE, "winner": INSERT},
    "what-if": {"level": "Serializable", "row_level": "false"},
    "search": {"q": "orders"},
}


@pytest.mark.parametrize("operation", READS, ids=lambda operation: operation.path)
def test_an_answer_about_existing_objects_is_as_documented(operation, token, lake):
    """Generated requests rarely name a version, a pair or a level that has data."""
    names = [name for name in lake if "{" + name + "}" in operation.path]
    last = operation.path.strip("/").rpartition("/")[2]
    case = operation.Case(
        path_parameters={name: lake[name] for name in names}, query=ASKS.get(last, {})
    )
    response = case.call(headers={"Authorization": f"Bearer {token}"})
    case.validate_response(response, checks=CHECKS)
    if last == "overlaps":
        assert [row["version"] for row in response.json()["items"]] == [2]
    if {"table_id", "conflict_id"} & set(names) and last not in ("grants", "forecast"):
        assert response.status_code == 200, response.text


@pytest.mark.parametrize("address", ["what-if", "concurrency", "concurrency/lanes"])
def test_a_version_is_answered_as_a_number_and_refused_where_it_cannot_be(client, lake, address):
    client.force_login(person("eve", "viewer"))
    path = f"/api/v1/tables/{lake['table_id']}/{address}/"
    answer = client.get(path, {"first": 2**53 - 1})
    assert answer.status_code == 200
    assert answer.json()["first"] == 2**53 - 1
    assert client.get(path, {"first": 2**53}).status_code == 422
