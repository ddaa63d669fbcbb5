# ruff: noqa: S608 - statements are what is tested
"""The outcomes in `statement_cases`, confirmed by delta-spark."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.interop.fetch import OutOfReachError, fetch_delta_spark
from tests.interop.statement_cases import STATEMENTS, Rows, Statement
from tests.interop.statement_runs import outcome
from tests.interop.sweep import commands, converse
from tests.interop.turns import DELTA

pytestmark = [pytest.mark.interop, pytest.mark.timeout(3600)]


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, dict[str, Any]]]:
    """Yield delta-spark's answers by statement name."""
    try:
        peer = fetch_delta_spark()
    except OutOfReachError as reason:
        pytest.skip(str(reason))
    scratch = tmp_path_factory.mktemp("statements")
    requests = [_request(number, case, scratch) for number, case in enumerate(STATEMENTS)]
    command = commands(peer, scratch)[DELTA]
    _, answers = converse(command, requests, scratch / "delta-spark.log")
    yield {answer["case"]: answer for answer in answers}
    shutil.rmtree(scratch, ignore_errors=True)


@pytest.mark.parametrize("case", STATEMENTS, ids=lambda case: case.name)
def test_delta_spark_makes_of_a_statement_what_is_written_down(outcomes, case):
    answer = outcomes[case.name]
    errors = [step for step in answer["steps"] if "error" in step]
    if case.refused:
        assert len(answer["steps"]) == len(_create_statements(case)) + 1, errors
        assert case.refused in errors[0]["classes"], errors
    else:
        assert (errors, tuple(answer["after"]["ok"])) == ([], case.leaves)


@pytest.mark.parametrize("case", STATEMENTS, ids=lambda case: case.name)
def test_this_engine_makes_the_same_of_it_by_spark(case, spark, tmp_path):
    assert outcome(case, tmp_path, spark, 0) == case.expected


def _request(number: int, case: Statement, scratch: Path) -> dict[str, Any]:
    place = scratch / str(number)
    text = case.text.replace("{s}", f"delta.`{place}-source`")
    made = [step.replace("{s}", f"delta.`{place}-source`") for step in _create_statements(case)]
    return {
        "case": case.name,
        "table": str(place),
        "read_before": False,
        "statements": [*made, text],
        "queries": {},
    }


def _create_statements(case: Statement) -> list[str]:
    """Return the statements that create a case's tables."""
    more = f", {case.properties}" if case.properties else ""
    layout = f"TBLPROPERTIES ('delta.enableDeletionVectors' = 'true'{more})"
    made = [f"CREATE TABLE {{t}} ({case.table}) USING DELTA {layout}"]
    made += _insert_statements("{t}", case.rows)
    made.append(f"CREATE TABLE {{s}} ({case.source or 'id INT'}) USING DELTA")
    return made + _insert_statements("{s}", case.source_rows)


def _insert_statements(table: str, rows: Rows) -> list[str]:
    shown = ", ".join(f"({', '.join(map(_literal, row))})" for row in rows)
    return [f"INSERT INTO {table} VALUES {shown}"] if rows else []


def _literal(value: Any) -> str:
    """Render a value of `Statement.rows` as SQL."""
    if isinstance(value, dict):
        inside = ", ".join(f"'{name}', {_literal(part)}" for name, part in value.items())
        return f"named_struct({inside})"
    if isinstance(value, list):
        pairs = [part for pair in value if isinstance(pair, tuple) for part in pair]
        name = "map" if pairs else "array"
        return f"{name}({', '.join(map(_literal, pairs or value))})"
    return "NULL" if value is None else json.dumps(value).replace('"', "'")
