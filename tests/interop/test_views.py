"""Permanent views of delta-spark and of this engine, in one metastore, read by both."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.interop.fetch import OutOfReachError, fetch_delta_spark

pytestmark = [pytest.mark.interop, pytest.mark.timeout(900)]
ROOT = Path(__file__).resolve().parents[2]


def _answers(python: Path, *arguments: object) -> dict[str, object]:
    done = subprocess.run(  # noqa: S603 - this project's own program
        [str(python), "-m", "tests.interop.view_side", *map(str, arguments)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "SPARK_LOCAL_IP": "127.0.0.1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return dict(json.loads(done.stdout.splitlines()[-1]))


def test_views_of_either_side_have_the_same_rows_on_both(tmp_path: Path) -> None:
    try:
        peer = fetch_delta_spark()
    except OutOfReachError as reason:
        pytest.skip(str(reason))
    first = _answers(peer.python, "theirs", tmp_path, peer.jars)
    ours = _answers(Path(sys.executable), "ours", tmp_path)
    theirs = _answers(peer.python, "theirs", tmp_path, peer.jars)
    assert ours == theirs
    assert first.items() <= theirs.items()
    assert theirs["theirs.loose, true"] == theirs["ours.loose, true"] != []
    assert theirs["theirs.strict, false"] == "CAST_INVALID_INPUT"
