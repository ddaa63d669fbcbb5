"""The process from which Spark forks Python workers on this machine."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.services import ROOT

_MORE_THAN_IDLE = 12
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="PySpark's own daemon serves here")


@pytest.mark.parametrize(
    ("before", "serves"),
    [
        ("", "engine.spark.python_daemon"),
        (
            "import threading; threading.Thread(target=threading.Event().wait).start(); ",
            "pyspark.daemon",
        ),
    ],
    ids=["nothing that is imported starts a thread", "something started a thread"],
)
def test_workers_are_forked_with_modules_imported_unless_a_thread_runs(before, serves):
    program = f"{before}from engine.spark.python_daemon import main; main()"
    with subprocess.Popen(  # noqa: S603
        [sys.executable, "-c", program, "pyspark.worker"],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as daemon:
        assert daemon.stdin is not None
        assert daemon.stdout is not None
        assert len(daemon.stdout.read(4)) == 4  # its port: it serves
        command = Path(f"/proc/{daemon.pid}/cmdline").read_text()
        daemon.stdin.close()
        daemon.wait(20)
    assert serves in command


@pytest.mark.spark
@pytest.mark.timeout(120)
def test_tasks_find_their_modules_imported_and_workers_are_reused(spark):
    def look(batches):
        import os  # noqa: PLC0415 - in the worker
        import sys  # noqa: PLC0415
        from pathlib import Path  # noqa: PLC0415

        import pyarrow as pa  # noqa: PLC0415

        parent = Path(f"/proc/{os.getppid()}/cmdline").read_text()
        names = ("pandas", "engine.spark.write.writer")
        there = "engine.spark.python_daemon" in parent and all(n in sys.modules for n in names)
        for _ in batches:
            yield pa.RecordBatch.from_pydict({"there": [there], "pid": [os.getpid()]})

    rows = [
        row
        for _ in range(_MORE_THAN_IDLE)
        for row in spark.range(0, 2, 1, 1).mapInArrow(look, "there boolean, pid long").collect()
    ]
    assert all(row.there for row in rows)
    assert len({row.pid for row in rows}) < _MORE_THAN_IDLE, "some did a second task"
