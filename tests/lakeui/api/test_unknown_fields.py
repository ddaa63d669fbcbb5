"""Unknown fields: refused in every body, so that no request is half understood."""

import pytest
from django.utils import timezone

from lakeui.catalog.models import Discovery, Preview, RowRead, Table
from lakeui.jobs.models import Job, Schedule
from lakeui.monitoring.models import AlertChannel
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
def test_an_unknown_field_is_named_and_nothing_is_done(
    client_for, table, schedule, method, address, body
):
    call = getattr(client_for("admin"), method)
    path = f"/api/v1/{address.format(table=table.pk, schedule=schedule.pk)}"
    answer = problem(call(path, {**body, "dryrun": True}, format="json"), 422, "INVALID_REQUEST")
    assert [(error["field"], error["code"]) for error in answer["errors"]] == [
        ("dryrun", "unknown_field")
    ]
    assert (Table.objects.count(), Job.objects.count(), Schedule.objects.count()) == (1, 0, 1)


def places_without_a_body(admin):
    paths = admin.get("/api/v1/schema/").json()["paths"].items()
    return [
        path
        for path, operations in paths
        if "post" in operations and "requestBody" not in operations["post"]
    ]


@pytest.mark.parametrize("field", ["dry_run", "version"])
def test_an_action_without_a_body_refuses_one(client_for, table, schedule, job, conflict, field):
    admin = client_for("admin")
    search = Discovery.objects.create(root="/lake", requested_at=timezone.now(), bound=1)
    values = {"name": "ops", "kind": AlertChannel.Kind.WEBHOOK}
    channel = AlertChannel.objects.create(**values)
    answer = Preview.objects.create(table=table, version=0, asked_at=timezone.now())
    read = RowRead.objects.create(table=table, asked_at=timezone.now(), answer=answer)
    ids = {"table_id": table.pk, "older": 0, "newer": 1, "schedule_id": schedule.pk} | {
        "job_id": job.pk, "conflict_id": conflict.pk, "discovery_id": search.pk, "channel_id": channel.pk,
        "read_id": read.pk,
    }  # fmt: skip
    places = places_without_a_body(admin)
    assert len(places) == 10
    for place in places:
        answer = admin.post(place.format(**ids), {field: True}, format="json")
        errors = problem(answer, 422, "INVALID_REQUEST")["errors"]
        assert [(error["field"], error["code"]) for error in errors] == [(field, "unknown_field")]
    assert (Job.objects.count(), Preview.objects.count()) == (1, 1)


@pytest.mark.parametrize("action", ["cancel", "retry"])
def test_an_action_on_a_job_accepts_no_parameters_and_an_empty_body(client_for, job, action):
    admin = client_for("admin")
    answer = admin.post(f"/api/v1/jobs/{job.pk}:{action}?dry_run=true")
    assert problem(answer, 422, "INVALID_REQUEST")["errors"][0]["code"] == "unknown_parameter"
    assert admin.post(f"/api/v1/jobs/{job.pk}:{action}", {}, format="json").status_code in (
        202,
        409,
    )


def test_the_document_says_that_no_other_field_is_accepted(client_for):
    schemas = client_for("anonymous").get("/api/v1/schema/").json()["components"]["schemas"]
    bodies = {name: schema for name, schema in schemas.items() if name.endswith("Request")}
    assert len(bodies) > 10
    for name, body in bodies.items():
        if "oneOf" in body:  # each of its kinds is among the bodies
            assert all(part["$ref"].rpartition("/")[2] in schemas for part in body["oneOf"]), name
        else:
            assert body["additionalProperties"] is False, name


def test_a_schedules_statement_carries_its_own_parameters(client_for, table):
    body = {"name": "n", "cron": "0 3 * * *", "sql": "OPTIMIZE t", "parameters": {"full": True}}
    response = client_for("admin").post(
        f"/api/v1/tables/{table.pk}/schedules/", body, format="json"
    )
    assert [error["field"] for error in problem(response, 422)["errors"]] == ["parameters"]
