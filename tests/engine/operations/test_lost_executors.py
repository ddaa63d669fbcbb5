"""Operations whose executors are killed with what they kept: said by name, and run again once."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.engine.operations.lost_executor_story import DELETE, INSERT, MERGE, RUNS, UPDATE
from tests.engine.operations.standalone_cluster import standalone_cluster

ROOT = Path(__file__).resolve().parents[3]

pytestmark = [pytest.mark.spark, pytest.mark.stress, pytest.mark.timeout(900)]

_OLD = [(number, 0) for number in (1, 2, 3, 4)]
ROWS = {
    INSERT: [*_OLD, (5, 0), (6, 0)],
    DELETE: [(2, 0), (3, 0), (4, 0)],
    UPDATE: [(1, 0), (2, 0), (3, 3), (4, 4)],
    MERGE: [(1, 0), (2, 0), (3, 9), (4, 0), (7, 9)],
}


def test_a_lost_executor_is_the_trouble_of_the_machine_and_a_rerun_commits_once(tmp_path):
    """What they kept of a local checkpoint is gone with them; another run does not miss it."""
    cluster = tmp_path / "cluster"
    with standalone_cluster(cluster) as url:
        module = "tests.engine.operations.lost_executor_story"
        done = subprocess.run(  # noqa: S603 - this interpreter, a module of ours
            [sys.executable, "-m", module, str(tmp_path / "tables"), str(cluster)],
            env={**os.environ, "SPARK_MASTER": url},
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=800,
            check=False,
        )
    assert done.returncode == 0, done.stderr[-3000:]
    endings = json.loads(done.stdout)
    assert [ending["statement"] for ending in endings] == [statement for statement, _ in RUNS]
    for ending in endings:
        assert ending["killed"] > 0, ending
        assert ending["committed"] == (0 if ending["code"] else 1), ending
        assert ending["committed after the rerun"] == 1, ending
        assert [tuple(row) for row in ending["rows"]] == ROWS[ending["statement"]], ending
        assert ending["numbers"] == len(ending["rows"]), ending
    codes = [ending["code"] for ending in endings]
    assert codes == [*["LAKE_SPARK_LOST"] * 3, "", ""], "Spark computes again what was not kept"
