"""A field that means nothing is refused wherever a body is taken: what was meant is not done."""

import pytest

from lakeui.catalog.models import Table
from lakeui.jobs.models import Job, Schedule
from tests.lakeui.api.problem import problem

BODIES = [
    ("post", "tables/", {"uri": "/nowhere"}),
    ("patch", "tables/{table}/", {"description": "x"}),
    ("patch", "tables/{table}/isolation/", {"level": "Serializable"}),
    ("post", "tables/{table}/jobs/", {"kind": "delete", "parameters": {"where": "1 = 1"}}),
    ("post", "tables/{table}/schedules/", {"name": "n", "cron": "0 3 * * *", "kind": "optimize"}),
    ("patch", "schedules/{schedule}/", {"enabled": False}),
    ("post", "tables/{table}/keys/", {"kind": "primary", "columns": ["id"]}),
    ("put", "tables/{table}/grants/stranger/", {"role": "viewer"}),
    ("post", "attention/mutes/", {"check_name": "small_files", "until": "2030-01-01T00:00Z"}),
    ("post", "conflicts/explain/", {"text": "x"}),
    ("post", "tokens/", {"name": "ci", "role": "viewer"}),
]


@pytest.mark.parametrize(("method", "address", "body"), BODIES, ids=lambda word: str(word)[:40])
def test_an_unknown_field_is_named_and_nothing_is_done(as_, table, schedule, method, address, body):
    call = getattr(as_("admin"), method)
    path = f"/api/v1/{address.format(table=table.pk, schedule=schedule.pk)}"
    answer = problem(call(path, {**body, "dryrun": True}, format="json"), 422, "INVALID_REQUEST")
    assert [(error["field"], error["code"]) for error in answer["errors"]] == [
        ("dryrun", "unknown_field")
    ]
    assert (Table.objects.count(), Job.objects.count(), Schedule.objects.count()) == (1, 0, 1)


def test_the_document_says_that_no_other_field_is_taken(as_):
    schemas = as_("anonymous").get("/api/v1/schema/").json()["components"]["schemas"]
    bodies = {name: schema for name, schema in schemas.items() if name.endswith("Request")}
    assert len(bodies) > 10
    for name, body in bodies.items():
        if "oneOf" in body:  # each of its kinds is among the bodies
            assert all(part["$ref"].rpartition("/")[2] in schemas for part in body["oneOf"]), name
        else:
            assert body["additionalProperties"] is False, name


def test_a_schedules_statement_carries_its_own_parameters(as_, table):
    body = {"name": "n", "cron": "0 3 * * *", "sql": "OPTIMIZE t", "parameters": {"full": True}}
    response = as_("admin").post(f"/api/v1/tables/{table.pk}/schedules/", body, format="json")
    assert [error["field"] for error in problem(response, 422)["errors"]] == ["parameters"]
