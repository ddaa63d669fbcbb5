"""Hostile conditions and places sent to REST: each is refused and creates nothing."""

import pytest

from lakeui.catalog.models import Table
from lakeui.jobs.models import Job
from tests.engine.expressions.hostile import HOSTILE
from tests.lakeui.api.hostile_places import PLACES
from tests.lakeui.api.problem import problem
from tests.shares import one_in

SCHEMA = {
    "type": "struct",
    "fields": [
        {"name": name, "type": kind, "nullable": True, "metadata": {}}
        for name, kind in [
            ("id", "integer"),
            ("name", "string"),
            ("date", "date"),
            ("ok", "boolean"),
            (
                "arr",
                {"type": "array", "elementType": "integer", "containsNull": True},
            ),
            (
                "m",
                {
                    "type": "map",
                    "keyType": "string",
                    "valueType": "integer",
                    "valueContainsNull": True,
                },
            ),
            (
                "st",
                {
                    "type": "struct",
                    "fields": [{"name": "x", "type": "integer", "nullable": True, "metadata": {}}],
                },
            ),
        ]
    ],
}


COMMENTS = ("--", "/*", "{#", ";")  # which a statement may hold or end with


def test_there_are_enough_hostile_places_and_requests():
    assert len(set(PLACES)) >= 200
    assert len(HOSTILE) >= 200


@pytest.mark.parametrize("start", range(0, len(PLACES), 40))
def test_hostile_places_are_neither_registered_nor_read(client_for, settings, start):
    settings.API_RATE_PERSON = "100000/min"
    caller = client_for("admin")
    for place in PLACES[start : start + 40]:
        source = {"kind": "files", "uri": place, "format": "csv"}
        for body in ({"uri": place}, {"name": "evil", "create": {"source": source}}):
            response = caller.post("/api/v1/tables/", body, format="json")
            assert 400 <= response.status_code < 500, (place, response.content)
            problem(response, response.status_code)
    assert not Table.objects.exists()
    assert not Job.objects.exists()


@pytest.mark.parametrize("start", one_in(4, range(0, len(HOSTILE), 40)))
def test_hostile_conditions_become_no_job(client_for, settings, table, start):
    settings.API_RATE_PERSON = "100000/min"
    Table.objects.update(schema=SCHEMA)
    caller, path = client_for("admin"), f"/api/v1/tables/{table.pk}/jobs/"
    for condition in filter(_can_be_sent, HOSTILE[start : start + 40]):
        bodies = [{"kind": "delete", "parameters": {"where": condition}}]
        if not any(mark in condition for mark in COMMENTS):
            bodies.append({"sql": " ".join(["DELETE FROM", table.name, "WHERE", condition])})
        for body in bodies:
            response = caller.post(path, body, format="json")
            assert response.status_code in (400, 422), (condition, response.content)
    assert not Job.objects.exists()


def _can_be_sent(condition):
    """Return False for an empty condition, which means every row, and for text without an encoding."""
    return condition.strip() and condition.isprintable() | condition.isascii()
