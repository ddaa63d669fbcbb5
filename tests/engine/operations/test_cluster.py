"""The operations on a standalone cluster of two workers, selected by `SPARK_MASTER`."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.engine.operations.cluster_story import ROWS
from tests.engine.operations.standalone_cluster import standalone_cluster

ROOT = Path(__file__).resolve().parents[3]

pytestmark = [pytest.mark.spark, pytest.mark.stress, pytest.mark.timeout(400)]


def test_operations_run_on_a_cluster_and_little_reaches_the_driver(tmp_path):
    """The driver may receive 2 MB, which is far less than the rows."""
    with standalone_cluster(tmp_path / "cluster") as url:
        done = subprocess.run(  # noqa: S603 - this interpreter, a module of ours
            [sys.executable, "-m", "tests.engine.operations.cluster_story", str(tmp_path)],
            env={**os.environ, "SPARK_MASTER": url},
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
    assert done.returncode == 0, done.stderr[-3000:]
    report = json.loads(done.stdout)
    rows, keys = np.arange(ROWS), np.random.default_rng(1).permutation(ROWS)
    alive = keys % 2 == 0
    updated, deleted = alive & (rows % 8 == 2), alive & (rows % 16 == 3)
    merged = alive & (rows % 16 == 11)
    assert report["executors"] == 2
    assert report["append"]["numOutputRows"] == ROWS
    assert report["delete"]["numDeletedRows"] == sum(report["vectors"]) == ROWS // 2
    assert report["update"]["numUpdatedRows"] == updated.sum()
    assert report["merge"]["numTargetRowsDeleted"] == deleted.sum()
    assert report["merge"]["numTargetRowsUpdated"] == merged.sum()
    assert report["zorder"]["numAddedFiles"] > 1
    assert report["vacuum"]["numDeletedFiles"] > 0
    left = alive & ~deleted
    assert report["rows"] == left.sum()
    assert report["sum of v"] == -1.0 * updated.sum() - 2.0 * merged.sum()
    assert report["sum of id"] == rows[left].sum()


WORKER = """
import sys
from engine.errors import EngineError
from workers import spark_session

try:
    spark_session.start()
except EngineError as error:
    sys.exit(str(error))
print("has a core", flush=True)
sys.stdin.read()
spark_session.stop()
"""


def _worker(url, **variables):
    """Start a Spark worker in a process that works until its input ends."""
    settings = {
        "DJANGO_SETTINGS_MODULE": "lakeui.settings",
        "SPARK_MASTER": url,
        "SPARK_EXECUTOR_MEMORY": "512m",  # of the 900 MB of a worker of the cluster
        **variables,
    }
    return subprocess.Popen(  # noqa: S603 - this interpreter, lines of ours
        [sys.executable, "-c", f"import django; django.setup(){WORKER}"],
        env={**os.environ, **settings},
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_two_workers_share_a_cluster_and_a_third_says_why_it_cannot_start(tmp_path):
    with standalone_cluster(tmp_path / "cluster") as url:
        first, second = (_worker(url, SPARK_CORES_MAX="1") for _ in range(2))
        try:
            for worker in (first, second):
                assert "has a core" in worker.stdout.readline()
            third = _worker(url, SPARK_CORES_MAX="1", SPARK_START_SECONDS="5")
            told = third.communicate(timeout=120)[1]
            assert third.returncode == 1
            assert "had no core for a first task within 5 s" in told
            assert "SPARK_CORES_MAX" in told
        finally:
            endings = [worker.communicate(timeout=60) for worker in (first, second)]
    assert [worker.returncode for worker in (first, second)] == [0, 0], endings
