"""The operations on a standalone cluster of two workers, as `SPARK_MASTER` has them run."""

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


def test_operations_run_on_a_cluster_and_little_comes_to_the_driver(tmp_path):
    """The story's driver may receive 2 MB, and its rows are many more."""
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
