"""Requests with a command in the OpenAPI document: one schema for each kind."""

import json

import jsonschema_rs
import pytest
from django.test import Client

from engine.commands.model import COMMANDS
from engine.commands.sql import parse_statement
from lakeui.api.schema import REQUESTS
from tests.engine.commands.statements import UNDERSTOOD


@pytest.fixture(scope="module")
def document(django_db_setup, django_db_blocker):
    with django_db_blocker.unblock():
        answer = Client().get("/api/v1/schema/", headers={"Accept": "application/json"})
    return answer.json()


@pytest.fixture(scope="module")
def job_request(document):
    return jsonschema_rs.Draft202012Validator(
        {
            "$ref": "#/components/schemas/JobRequestRequest",
            "components": document["components"],
        }
    )


@pytest.mark.parametrize("name", REQUESTS)
def test_the_kind_says_which_schema_a_request_has(document, name):
    schemas = document["components"]["schemas"]
    by_kind = schemas[f"Command{name}"]["discriminator"]["mapping"]
    assert set(by_kind) == set(COMMANDS)
    for kind, address in by_kind.items():
        variant = schemas[address.rpartition("/")[2]]
        assert variant["properties"]["kind"] == {"type": "string", "const": kind}
        assert variant["additionalProperties"] is False
    assert "cron" in schemas[f"Delete{name}"]["required"] or name == "JobRequest"


def test_what_every_statement_carries_is_valid(job_request):
    kinds = set()
    for text, *_ in UNDERSTOOD:
        command = parse_statement(text)
        kinds.add(command.kind)
        body = {"kind": command.kind, "parameters": command.parameters()}
        faults = [
            f"{text}: {f.message}" for f in job_request.iter_errors(json.loads(json.dumps(body)))
        ]
        assert faults == []
        assert job_request.is_valid({"sql": text, "dry_run": True, "reason": "tidy", "retries": 2})
    assert kinds > {"delete", "merge", "append", "overwrite", "alter_add_columns", "optimize"}


FILES = {"kind": "files", "uri": "/data/x.csv", "format": "csv"}


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"kind": "nothing"},
        {"kind": "delete", "sql": "DELETE FROM t"},
        {"kind": "delete", "parameters": {"zorder_by": ["a"]}},
        {"kind": "delete", "parameters": {"where": 5}},
        {"kind": "delete", "dryrun": True},
        {"kind": "append"},
        {"kind": "append", "parameters": {"source": {**FILES, "format": "xls"}}},
        {"kind": "append", "parameters": {"source": {"kind": "table", "uri": "/data/x.csv"}}},
        {"kind": "append", "parameters": {"source": {**FILES, "kind": "nothing"}}},
        {
            "kind": "merge",
            "parameters": {"source": FILES, "on": "a = b", "clauses": [{"when": "x"}]},
        },
        {"kind": "script", "parameters": {"steps": [{"kind": "stream", "parameters": {}}]}},
        {"kind": "optimize", "parameters": {"target_size_bytes": 0}},
        {"kind": "optimize", "retries": 101},
    ],
    ids=json.dumps,
)
def test_a_body_that_no_kind_has_is_not_valid(job_request, body):
    assert not job_request.is_valid(body)


def test_a_source_of_each_kind_and_a_step_of_a_script_are_valid(job_request):
    for source in (
        FILES,
        {"kind": "rows", "columns": ["a"], "rows": [[1], ["'x'"], [None]]},
        {"kind": "table", "table": "people", "where": None, "version": 3},
        {"kind": "query", "query": "SELECT 1"},
    ):
        step = {"kind": "append", "parameters": {"source": source}}
        assert job_request.is_valid(step), source
        assert job_request.is_valid({"kind": "script", "parameters": {"steps": [step]}}), source
