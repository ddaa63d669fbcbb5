"""Operations whose executors are killed with their blocks: reported by name, and rerun once."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.engine.operations.lost_executor_story import (
    DELETE,
    FILES,
    INSERT,
    MERGE,
    OPTIMIZES,
    ROWS_OF_A_FILE,
    RUNS,
    UPDATE,
)
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


def _endings(tmp_path, mode, **variables):
    cluster = tmp_path / "cluster"
    with standalone_cluster(cluster) as url:
        module = "tests.engine.operations.lost_executor_story"
        done = subprocess.run(  # noqa: S603 - this interpreter, a module of ours
            [sys.executable, "-m", module, str(tmp_path / "tables"), str(cluster), mode],
            env={**os.environ, "SPARK_MASTER": url, **variables},
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=800,
            check=False,
        )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout), done.stderr


def _check(endings):
    assert [ending["statement"] for ending in endings] == [statement for statement, _ in RUNS]
    for ending in endings:
        assert ending["committed"] == (0 if ending["code"] else 1), ending
        assert ending["committed after the rerun"] == 1, ending
        assert [tuple(row) for row in ending["rows"]] == ROWS[ending["statement"]], ending
        assert ending["numbers"] == len(ending["rows"]), ending


def test_a_lost_executor_is_the_trouble_of_the_machine_and_a_rerun_commits_once(tmp_path):
    """The blocks of a local checkpoint are lost with the executors; another run does not need them."""
    endings, _ = _endings(tmp_path, "begin")
    _check(endings)
    assert all(ending["killed"] > 0 for ending in endings)
    codes = [ending["code"] for ending in endings]
    assert codes == [*["LAKE_SPARK_LOST"] * 3, "", ""], "Spark computes again what was not kept"


def test_optimize_commits_once_whichever_stage_loses_its_executors(tmp_path):
    """Each kind has one run for every Spark stage, and another run without a loss."""
    endings, _ = _endings(tmp_path, "optimize")
    for kind in OPTIMIZES:
        of_kind = [ending for ending in endings if ending["kind"] == kind]
        assert [ending["killed"] > 0 for ending in of_kind] == [*[True] * (len(of_kind) - 1), False]
        assert len(of_kind) > (1 if kind == "compaction" else 2), of_kind
    for ending in endings:
        assert ending["code"] in ("", "LAKE_SPARK_LOST"), ending
        assert ending["committed"] == (0 if ending["code"] else 1), ending
        assert ending["committed after the rerun"] == 1, ending
        assert ending["is the same"], ending
        assert ending["rows"] == FILES * ROWS_OF_A_FILE * 4 // 5, ending


DYNAMIC = """
spark.dynamicAllocation.enabled true
spark.dynamicAllocation.shuffleTracking.enabled true
spark.dynamicAllocation.shuffleTracking.timeout 2s
spark.dynamicAllocation.executorIdleTimeout 2s
spark.dynamicAllocation.cachedExecutorIdleTimeout 2s
"""
DECOMMISSION = """
spark.decommission.enabled true
spark.storage.decommission.enabled true
spark.storage.decommission.rddBlocks.enabled true
spark.storage.decommission.shuffleBlocks.enabled true
"""


def _write_configuration(tmp_path, text):
    place = tmp_path / "conf"
    place.mkdir()
    (place / "spark-defaults.conf").write_text(text)
    return {"SPARK_CONF_DIR": str(place)}


def test_executors_that_come_and_go_by_dynamic_allocation_change_nothing(tmp_path):
    """Each run begins without executors: idle ones were released."""
    endings, _ = _endings(tmp_path, "idle", **_write_configuration(tmp_path, DYNAMIC))
    _check(endings)
    assert [ending["code"] for ending in endings] == [""] * len(RUNS)


def test_a_decommissioned_executor_hands_over_its_blocks(tmp_path):
    endings, log = _endings(
        tmp_path, "decommission", **_write_configuration(tmp_path, DECOMMISSION)
    )
    _check(endings)
    assert [ending["killed"] for ending in endings] == [1] * len(RUNS)
    assert [ending["code"] for ending in endings] == [""] * len(RUNS), log[-3000:]
