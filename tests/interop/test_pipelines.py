"""Whole programs on both engines: the rows and errors of every step are compared.

The table of results goes into docs/pyspark.md, with the reason of every difference.
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.interop.fetch import DeltaSpark, OutOfReachError, fetch_delta_api, fetch_delta_spark
from tests.interop.pipeline_differences import DIFFERENCES
from tests.interop.turns import DELTA, ENGINE

pytestmark = [pytest.mark.interop, pytest.mark.timeout(7200)]
ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "pyspark.md"
_TABLE = re.compile(r"(?<=<!-- programs -->\n).*?(?=<!-- end -->)", re.DOTALL)
Outcomes = dict[str, list[list[Any]]]


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Outcomes]:
    """Return the steps of each program by engine."""
    try:
        peer, api = fetch_delta_spark(), fetch_delta_api()
    except OutOfReachError as reason:
        pytest.skip(str(reason))
    place = tmp_path_factory.mktemp("pipelines")
    return {side: _run(side, peer, api, place / f"{side}.json") for side in (DELTA, ENGINE)}


def _run(side: str, peer: DeltaSpark, api: Path, output: Path) -> Outcomes:
    python = str(peer.python) if side == DELTA else sys.executable
    path = f"{ROOT}{os.pathsep}{api}" if side == DELTA else str(ROOT)
    environment = {**os.environ, "PYTHONPATH": path, "PYSPARK_PYTHON": python, "TZ": "UTC"}
    command = [python, "-m", "tests.interop.pipeline_side", side, str(peer.jars), str(output)]
    done = subprocess.run(  # noqa: S603 - the two sides of this package
        command, env=environment, capture_output=True, text=True, check=False, cwd=ROOT
    )
    assert output.is_file(), done.stderr[-3000:]
    return json.loads(output.read_text("utf-8"))


def test_programs_see_the_same_rows_and_errors(outcomes):
    differing = list_differences(outcomes[DELTA], outcomes[ENGINE])
    table = _render(outcomes[DELTA], differing)
    PAGE.write_text(_TABLE.sub(lambda _: table, PAGE.read_text("utf-8")), "utf-8")
    found = {(title, number) for title, steps in differing.items() for number in steps}
    assert found == {
        (title, number)
        for title, reasons in DIFFERENCES.items()
        for numbers in reasons.values()
        for number in numbers
    }


def list_differences(theirs: Outcomes, ours: Outcomes) -> dict[str, list[int]]:
    """Return the numbers, from 1, of the steps that differ, by program.

    Errors are the same if their classes are: "" is an error of delta-spark without a class of its own.
    """
    found: dict[str, list[int]] = {}
    for title, steps in theirs.items():
        for number, (one, other) in enumerate(zip(steps, ours[title], strict=True), 1):
            unclassed = one[1] == other[1] == "error" and not one[2]
            if one[:3] != other[:3] and not unclassed:
                found.setdefault(title, []).append(number)
    return found


def _render(programs: Outcomes, differing: dict[str, list[int]]) -> str:
    """Render the table of the page: a row for each program."""
    lines = ["| program | steps | same | what differs |", "|---|---|---|---|"]
    for title, steps in programs.items():
        same = len(steps) - len(differing.get(title, ()))
        reasons = "; ".join(DIFFERENCES.get(title, {}))
        lines.append(f"| {title} | {len(steps)} | {same} | {reasons} |")
    counted = sum(map(len, programs.values()))
    same = counted - sum(map(len, differing.values()))
    lines.append(f"| **{len(programs)} programs** | **{counted}** | **{same}** | |")
    return "\n".join([*lines, ""])
