"""Recorded conditions: obstacles to row-level decisions, and pairs that exclude each other."""

import json

import pytest

from engine.conflicts.predict.forecast import disjoint
from lakeui.conflicts.statements.clients import client_of
from lakeui.conflicts.statements.text import SUBQUERY, parse_recorded_condition

COLUMNS = {"id": "long", "day": "date", "status": "string", "price": "double", "tags": None}
LIST = {"type": "array", "elementType": "string", "containsNull": True}
SCHEMA = json.dumps(
    {
        "type": "struct",
        "fields": [
            {"name": name, "type": kind or LIST, "nullable": True, "metadata": {}}
            for name, kind in COLUMNS.items()
        ],
    }
)
NOT_SAME, COMPLEX = (
    "its condition is not deterministic",
    "its condition uses struct, array or map values",
)


@pytest.mark.parametrize(
    ("text", "obstacle", "is_whole"),
    [
        ("id = 5", None, True),
        ("(id#12L = 5)", None, True),
        ("t.id = s.id AND t.day = '2026-11-19'", None, True),
        ("t.id = s.other AND day = '2026-11-19'", None, False),
        ("id IN (SELECT id FROM b)", SUBQUERY, True),
        ("id IN (list#4 [])  AND exists (x)", SUBQUERY, True),
        ("rand() > 0.5", NOT_SAME, True),
        ("strange(id) = 1 AND size(tags) > 3", COMPLEX, False),
        ("not SQL at all", None, False),
        ("id = 5 AND " * 900 + "id = 5", None, False),
    ],
)
def test_obstacles_to_deciding_by_rows_are_read_from_the_text(text, obstacle, is_whole):
    condition = parse_recorded_condition(text, SCHEMA)
    assert (condition.obstacle, condition.is_whole) == (obstacle, is_whole)


@pytest.mark.parametrize(
    ("one", "other", "apart"),
    [
        ("id = 5", "id = 6", True),
        ("id = 5", "id = 5", False),
        ("id IN (1, 2)", "id > 2", True),
        ("id IN (1, 2)", "id >= 2", False),
        ("id < 3", "id >= 3", True),
        ("NOT (id = 5)", "id = 5", True),
        ("day = '2026-11-19'", "day = DATE '2026-11-18'", True),
        ("day = '2026-11-19'", "day = DATE '2026-11-19'", False),
        ("day BETWEEN '2026-11-01' AND '2026-11-10'", "day = '2026-11-12'", True),
        ("t.id = s.id AND t.day = '2026-11-19'", "day < '2026-11-19'", True),
        ("t.id = s.id AND s.day = '2026-11-19'", "day < '2026-11-19'", False),
        ("status = 'a'", "status IS NULL", True),
        ("status = '5'", "status = 5.0", False),
        ("price > 1", "isnan(price)", False),
        ("id = 5", "status = 'a'", False),
        ("strange(id) = 1", "id = 5", False),
        ("id = 5 OR id = 7", "id = 6", True),
        ("id = 5 OR id = 7", "id = 7", False),
        ("id = NULL", "id = 5", True),
    ],
)
def test_conditions_are_apart_only_where_it_is_certain(one, other, apart):
    sides = [parse_recorded_condition(text, SCHEMA).target_parts for text in (one, other)]
    assert disjoint(*sides) is apart
    assert disjoint(*reversed(sides)) is apart


@pytest.mark.parametrize(
    ("engine_info", "client", "runtime", "without_vectors"),
    [
        ("lakeui/1.4 Apache-Spark/4.1.1", "this engine 1.4", "this engine", False),
        ("Databricks-Runtime/15.4.x-scala2.12", "Databricks Runtime 15.4",
         "Databricks Runtime 14.3 LTS and later", False),
        ("Databricks-Runtime/14.2.x-photon", "Databricks Runtime 14.2", "Databricks Runtime 14.2", False),
        ("Databricks-Runtime/14.1.x", "Databricks Runtime 14.1", "Databricks Runtime 14.0, 14.1", False),
        ("Databricks-Runtime/13.3.x", "Databricks Runtime 13.3", "Databricks Runtime 13.3 LTS", False),
        ("Databricks-Runtime/11.3.x", "Databricks Runtime 11.3", "Databricks Runtime before 13.3", True),
        ("Apache-Spark/3.5.1 Delta-Lake/3.2.0", "delta-spark 3.2.0",
         "delta-spark, delta-rs (open source)", False),
        ("Apache-Spark/3.2.0 Delta-Lake/2.0.0", "delta-spark 2.0.0",
         "delta-spark, delta-rs (open source)", True),
        ("delta-rs:py-0.15.3", "delta-rs 0.15.3", "delta-rs", True),
        ("delta-rs:1.6", "delta-rs 1.6", "delta-rs", False),
        ("delta-rs", "delta-rs", "delta-rs", False),
        ("", "", "not recorded", False),
        ("Trino 470", "Trino 470", "another engine", False),
    ],
)  # fmt: skip
def test_programs_are_recognized_by_the_engine_they_name(
    engine_info, client, runtime, without_vectors
):
    named = client_of(engine_info)
    assert str(named) == client
    assert named.runtime.startswith(runtime) or "delta-rs" in named.runtime
    assert named.lacks("deletionVectors") is without_vectors
    assert not named.lacks("appendOnly")
