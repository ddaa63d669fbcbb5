"""Roles by address: one table with a row for each address."""

import re
from contextlib import contextmanager
from datetime import timedelta
from uuid import UUID

from django.core.cache import cache
from django.db import transaction
from django.utils import timezone

from lakeui.api.urls import urlpatterns
from tests.lakeui.api.problem import problem
from tests.lakeui.conflicts.histories import SCHEMA

WHO = ("anonymous", "stranger", "viewer", "operator", "maintainer", "admin")
OPTIMIZE = {"kind": "optimize", "parameters": {}}
DELETE = {"kind": "delete", "parameters": {"where": "1 = 1"}}
RESTORE = {"kind": "restore", "parameters": {"version": 0}}
LEVEL = {"level": "Serializable"}
NIGHTLY = {"name": "nightly", "cron": "0 3 * * *", **OPTIMIZE}
CREATE = {"name": "new.one", "create": {"schema": SCHEMA}}
VIEWER = {"role": "viewer"}
KEY = {"kind": "primary", "columns": ["no_such_column"]}
MUTE = {
    "check_name": "small_files",
    "until": f"{timezone.now() + timedelta(days=7):%Y-%m-%dT%H:%MZ}",
}
UNMUTED = {"muted_until": None}
EVENT = {"kind": "begun", "table": "no.such", "txn_id": "1", "sequence": 0}
EVENTS = {
    "writer": {"application": "nightly"},
    "events": [EVENT | {"at": f"{timezone.now():%Y-%m-%dT%H:%M:%SZ}"}],
}
CHANNEL = {"name": "ops", "kind": "webhook", "target": "http://127.0.0.1/"}  # of this machine
RULE = {"name": "jobs", "condition": "failed_job", "channel_id": 1}  # of no channel
TOKEN = {"name": "ci", "role": "viewer"}

# method, address, body, and what each of WHO gets
ROWS = [
    ("get", "tables/", None, (401, 200, 200, 200, 200, 200)),
    ("post", "tables/", {"uri": "/nowhere"}, (401, 403, 403, 403, 422, 422)),
    ("get", "tables/{table}/", None, (401, 404, 200, 200, 200, 200)),
    ("get", "tables/{table}/stream/", None, (401, 404, 200, 200, 200, 200)),
    ("post", "tables/", CREATE, (401, 403, 403, 403, 202, 202)),
    ("patch", "tables/{table}/", {"description": "x"}, (401, 404, 403, 403, 428, 428)),
    ("delete", "tables/{table}/", None, (401, 404, 403, 403, 403, 204)),
    ("get", "tables/{table}/versions/", None, (401, 404, 200, 200, 200, 200)),
    ("get", "tables/{table}/versions/1/", None, (401, 404, 200, 200, 200, 200)),
    ("get", "tables/{table}/versions/9/", None, (401, 404, 404, 404, 404, 404)),
    ("get", "tables/{table}/versions/1/files/", None, (401, 404, 200, 200, 200, 200)),
    ("get", "tables/{table}/files/", None, (401, 404, 200, 200, 200, 200)),
    ("get", "tables/{table}/timeline/", None, (401, 404, 200, 200, 200, 200)),
    ("get", "tables/{table}/growth/", None, (401, 404, 200, 200, 200, 200)),
    ("get", "tables/{table}/layout/", None, (401, 404, 200, 200, 200, 200)),
    ("get", "tables/{table}/conflicts/", None, (401, 404, 200, 200, 200, 200)),
    ("get", "tables/{table}/jobs/", None, (401, 404, 200, 200, 200, 200)),
    ("post", "tables/{table}/jobs/", OPTIMIZE, (401, 404, 403, 403, 202, 202)),
    ("post", "tables/{table}/jobs/", DELETE, (401, 404, 403, 202, 202, 202)),
    ("post", "tables/{table}/jobs/", RESTORE, (401, 404, 403, 403, 403, 202)),
    ("get", "tables/{table}/eligibility/", None, (401, 404, 200, 200, 200, 200)),
    ("get", "tables/{table}/quiet-hours/", None, (401, 404, 200, 200, 200, 200)),
    ("get", "tables/{table}/isolation/", None, (401, 404, 200, 200, 200, 200)),
    ("patch", "tables/{table}/isolation/", LEVEL, (401, 404, 403, 403, 428, 428)),
    ("get", "tables/{table}/matrix/", None, (401, 404, 200, 200, 200, 200)),
    ("get", "tables/{table}/what-if/", None, (401, 404, 200, 200, 200, 200)),
    ("get", "tables/{table}/overlaps/", None, (401, 404, 422, 422, 422, 422)),
    ("get", "tables/{table}/overlaps/?current=MERGE&winner=INSERT", None, (401, 404, *[200] * 4)),
    ("get", "tables/{table}/reordered/", None, (401, 404, 200, 200, 200, 200)),
    ("get", "tables/{table}/schedules/", None, (401, 404, 200, 200, 200, 200)),
    ("post", "tables/{table}/schedules/", NIGHTLY, (401, 404, 403, 403, 201, 201)),
    ("get", "tables/{table}/forecast/", None, (401, 404, 422, 422, 422, 422)),  # of which kind?
    ("get", "monitoring/", None, (401, 200, 200, 200, 200, 200)),
    ("get", "discoveries/", None, (401, 403, 403, 403, 200, 200)),
    ("post", "discoveries/", {"root": "/nowhere"}, (401, 403, 403, 403, 422, 422)),
    ("get", "discoveries/1/", None, (401, 403, 403, 403, 404, 404)),
    ("delete", "discoveries/1/", None, (401, 403, 403, 403, 404, 404)),
    ("get", "discoveries/1/tables/", None, (401, 403, 403, 403, 404, 404)),
    ("post", "discoveries/1:continue", None, (401, 403, 403, 403, 404, 404)),
    ("post", "discoveries/1:dismiss", None, (401, 403, 403, 403, 404, 404)),
    ("post", "discoveries/1:register", {}, (401, 403, 403, 403, 404, 404)),
    ("get", "monitoring/alerts/", None, (401, 403, 403, 403, 200, 200)),
    ("get", "monitoring/reads/", None, (401, 200, 200, 200, 200, 200)),
    ("post", f"monitoring/reads/{UUID(int=0)}:cancel", None, (401, 404, 404, 404, 404, 404)),
    ("get", "alerts/channels/", None, (401, 403, 403, 403, 200, 200)),
    ("post", "alerts/channels/", CHANNEL, (401, 403, 403, 403, 403, 422)),
    ("get", "alerts/channels/1/", None, (401, 403, 403, 403, 404, 404)),
    ("patch", "alerts/channels/1/", {"enabled": False}, (401, 403, 403, 403, 403, 404)),
    ("delete", "alerts/channels/1/", None, (401, 403, 403, 403, 403, 404)),
    ("post", "alerts/channels/1:test", None, (401, 403, 403, 403, 403, 404)),
    ("get", "alerts/rules/", None, (401, 403, 403, 403, 200, 200)),
    ("post", "alerts/rules/", RULE, (401, 403, 403, 403, 403, 422)),
    ("get", "alerts/rules/1/", None, (401, 403, 403, 403, 404, 404)),
    ("patch", "alerts/rules/1/", {"enabled": False}, (401, 403, 403, 403, 403, 404)),
    ("delete", "alerts/rules/1/", None, (401, 403, 403, 403, 403, 404)),
    ("get", "alerts/deliveries/", None, (401, 403, 403, 403, 200, 200)),
    ("get", "schedules/", None, (401, 200, 200, 200, 200, 200)),
    ("get", "schedules/runs/", None, (401, 200, 200, 200, 200, 200)),
    ("get", "schedules/runs/?schedule={schedule}", None, (401, 404, 200, 200, 200, 200)),
    ("get", "schedules/{schedule}/", None, (401, 404, 200, 200, 200, 200)),
    ("patch", "schedules/{schedule}/", {"enabled": False}, (401, 404, 403, 403, 200, 200)),
    ("post", "schedules/{schedule}:run", None, (401, 404, 403, 403, 202, 202)),
    ("delete", "schedules/{schedule}/", None, (401, 404, 403, 403, 204, 204)),
    ("get", "tables/{table}/concurrency/", None, (401, 404, 200, 200, 200, 200)),
    ("post", "uploads/", None, (401, 403, 403, 422, 422, 422)),
    ("get", f"uploads/{UUID(int=0)}/preview/", None, (401, 403, 403, 404, 404, 404)),
    ("get", "tables/{table}/grants/", None, (401, 404, 403, 403, 403, 200)),
    ("put", "tables/{table}/grants/stranger/", VIEWER, (401, 404, 403, 403, 403, 200)),
    ("put", "tables/{table}/grants/nobody/", VIEWER, (401, 404, 403, 403, 403, 404)),
    ("delete", "tables/{table}/grants/stranger/", None, (401, 404, 403, 403, 403, 404)),
    ("get", "tables/{table}/schema/", None, (401, 404, 200, 200, 200, 200)),
    ("get", "tables/{table}/columns/", None, (401, 404, 200, 200, 200, 200)),
    ("get", "tables/{table}/keys/", None, (401, 404, 200, 200, 200, 200)),
    ("post", "tables/{table}/keys/", KEY, (401, 404, 403, 403, 422, 422)),
    ("delete", "tables/{table}/keys/1/", None, (401, 404, 403, 403, 404, 404)),
    ("get", "tables/{table}/diff/1...2/", None, (401, 404, 200, 200, 200, 200)),
    ("get", "tables/{table}/diff/2...1/", None, (401, 404, 404, 404, 404, 404)),
    ("get", "tables/{table}/diff/1...2/rows/", None, (401, 404, 404, 404, 404, 404)),
    ("post", "tables/{table}/diff/1...9/rows/", None, (401, 404, 404, 404, 404, 404)),
    ("get", "tables/{table}/concurrency/lanes/", None, (401, 404, 200, 200, 200, 200)),
    ("get", "tables/{table}/preview/", None, (401, 404, 404, 404, 404, 404)),
    ("post", "tables/{table}/preview/?version=9", None, (401, 404, 404, 404, 404, 404)),
    ("get", "glossary/", None, (401, 200, 200, 200, 200, 200)),
    ("get", "search/", None, (401, 200, 200, 200, 200, 200)),
    ("get", "overview/", None, (401, 200, 200, 200, 200, 200)),
    ("get", "attention/", None, (401, 200, 200, 200, 200, 200)),
    ("post", "attention/mutes/", MUTE, (401, 403, 403, 403, 201, 201)),
    ("delete", "attention/mutes/1/", None, (401, 404, 404, 404, 404, 404)),
    ("get", "audit/", None, (401, 403, 403, 403, 200, 200)),
    ("get", "jobs/", None, (401, 200, 200, 200, 200, 200)),
    ("get", "jobs/{job}/", None, (401, 404, 200, 200, 200, 200)),
    ("get", "jobs/{job}/stream/", None, (401, 404, 200, 200, 200, 200)),
    ("get", "jobs/{job}/events/", None, (401, 404, 200, 200, 200, 200)),
    ("post", "jobs/{job}:cancel", None, (401, 404, 403, 403, 409, 409)),
    ("post", "jobs/{job}:retry", None, (401, 404, 403, 403, 202, 202)),
    ("get", "conflicts/", None, (401, 200, 200, 200, 200, 200)),
    ("get", "conflicts/costs/", None, (401, 200, 200, 200, 200, 200)),
    ("get", "conflicts/exceptions/", None, (401, 200, 200, 200, 200, 200)),
    ("post", "conflicts/explain/", {"text": "x"}, (401, 200, 200, 200, 200, 200)),
    ("get", "conflicts/repeated/", None, (401, 200, 200, 200, 200, 200)),
    ("get", "conflicts/repeated/{pair}/", None, (401, 404, 200, 200, 200, 200)),
    ("patch", "conflicts/repeated/{pair}/", {"is_known": True}, (401, 404, 403, 200, 200, 200)),
    ("patch", "conflicts/repeated/{pair}/", UNMUTED, (401, 404, 403, 403, 200, 200)),
    ("get", "conflicts/{conflict}/", None, (401, 404, 200, 200, 200, 200)),
    ("get", "conflicts/{conflict}/rows/", None, (401, 404, 404, 404, 404, 404)),
    ("post", "conflicts/{conflict}/rows/", None, (401, 404, 404, 404, 404, 404)),
    ("get", "conflicts/{conflict}/trials/", None, (401, 404, 404, 404, 404, 404)),
    ("post", "conflicts/{conflict}/trials/", None, (401, 404, 422, 422, 422, 422)),
    ("get", "conflicts/{conflict}/rerun/", None, (401, 404, 200, 200, 200, 200)),
    ("post", "conflicts/{conflict}/rerun/", None, (401, 404, 403, 403, 202, 202)),
    ("post", "pipelines/events/", EVENTS, (401, 422, 422, 422, 422, 422)),  # of no table here
    ("get", "tokens/", None, (401, 200, 200, 200, 200, 200)),
    ("post", "tokens/", TOKEN, (401, 403, 201, 201, 201, 201)),
    ("delete", "tokens/{token}/", None, (401, 404, 404, 404, 404, 404)),
    ("get", "tokens/all/", None, (401, 403, 403, 403, 403, 200)),
    ("get", "sessions/", None, (401, 200, 200, 200, 200, 200)),
    ("get", "sessions/all/", None, (401, 403, 403, 403, 403, 200)),
    ("delete", "sessions/{token}/", None, (401, 404, 404, 404, 404, 404)),
    ("get", "health/", None, (200, 200, 200, 200, 200, 200)),
    ("get", "schema/", None, (200, 200, 200, 200, 200, 200)),
    ("get", "docs/", None, (200, 200, 200, 200, 200, 200)),
    ("get", "redoc/", None, (200, 200, 200, 200, 200, 200)),
    ("get", "elsewhere/", None, (404, 404, 404, 404, 404, 404)),
]


def test_the_answer_depends_on_the_role(client_for, table, job, conflict, schedule):
    places = {"table": table.pk, "job": job.pk, "conflict": conflict.pk, "token": job.pk} | {
        "schedule": schedule.pk,
        "pair": conflict.statement_pair_id,
    }
    type(conflict).objects.update(occurred_at=timezone.now())  # within the range of its pair
    clients = {who: client_for(who) for who in WHO}
    for method, address, body, statuses in ROWS:
        cache.clear()  # the rates
        path, answered = f"/api/v1/{address.format(**places)}", {}
        for who, client in clients.items():
            with roll_back():
                response = getattr(client, method)(path, body, format="json")
            answered[who] = response.status_code
            if response.status_code >= 400:
                problem(response, response.status_code)
        assert answered == dict(zip(WHO, statuses, strict=True)), (method, address, body)


@contextmanager
def roll_back():
    """Roll back the changes of one request before the next."""
    with transaction.atomic():
        yield
        transaction.set_rollback(True)


def test_every_address_has_a_row():
    ids = {
        **dict.fromkeys(("table", "conflict", "schedule", "pair"), 1),
        "job": UUID(int=0),
        "token": UUID(int=0),
    }
    tried = [row[1].format(**ids) for row in ROWS]
    without_row = [
        pattern
        for pattern in (str(route.pattern) for route in urlpatterns)
        if not pattern.startswith("^")
        and not any(re.fullmatch(_shape(pattern), address) for address in tried)
    ]
    assert not without_row, "each needs a row in ROWS"


def _shape(pattern: str) -> str:
    """Return the regular expression of an address from its URL pattern."""
    kinds = {"int": r"\d+", "uuid": "[0-9a-f-]{36}", "str": "[^/]+"}
    return re.sub(r"<(\w+):\w+>", lambda part: kinds[part[1]], pattern)


def test_lists_of_a_guest_hold_the_granted_table_alone(client, guest, table, conflict):
    other = type(table).objects.create(name="hidden", uri="/lake/hidden")
    client.force_login(guest)
    names = [row["name"] for row in client.get("/api/v1/tables/").json()["items"]]
    assert names == [table.name]
    problem(client.get(f"/api/v1/tables/{other.pk}/"), 404, "NOT_FOUND")
    assert client.get("/api/v1/conflicts/").json()["items"][0]["id"] == conflict.pk
