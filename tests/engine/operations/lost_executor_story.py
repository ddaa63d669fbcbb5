"""Executors that are killed while operations run, in a process of its own.

`python -m … DIRECTORY CLUSTER`, with SPARK_MASTER set, CLUSTER being the directory that the cluster's
executors work in. It prints, as JSON, how each run ended whose executors were killed as a stage began.
"""

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from engine.clock import SystemClock
from engine.commands.sql import parse_statement
from engine.errors import EngineError
from engine.operations.options import RunOptions
from engine.operations.run import run
from engine.spark.jobs import Progress
from engine.spark.session import build_session
from engine.storage.uri import open_store
from engine.table import DeltaTable

BY_SPARK = RunOptions(in_process_bytes=0)
_SETTINGS = {
    "spark.executor.memory": "600m",
    "spark.driver.memory": "700m",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.shuffle.partitions": "2",
    "spark.task.maxFailures": "1",
}
_CREATE = """CREATE TABLE t (id BIGINT, n BIGINT GENERATED ALWAYS AS IDENTITY, v BIGINT)
TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')"""
_FILL = "INSERT INTO t (id, v) VALUES (1, 0), (2, 0), (3, 0), (4, 0)"
INSERT = "INSERT INTO t (id, v) VALUES (5, 0), (6, 0)"
DELETE = "DELETE FROM t WHERE id = 1"
UPDATE = "UPDATE t SET v = n WHERE id > 2"
MERGE = """MERGE INTO t USING (VALUES (3, 9), (7, 9)) AS s (id, v) ON t.id = s.id
WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT (id, v) VALUES (s.id, s.v)"""
RUNS = (
    (INSERT, "write files"),  # what was numbered is kept
    (MERGE, "match rows"),  # the source is
    (MERGE, "write new rows"),  # and what was matched
    (DELETE, "find rows"),  # nothing yet
    (UPDATE, "write new rows"),  # nothing any more
)
"""Statements, and the stages as which begin the executors are killed."""
_PATIENCE_S = 60


class Killer:
    """Kills the cluster's executors as a stage of a run begins, and sees them gone."""

    def __init__(self, cluster: Path, stage: str) -> None:
        self._cluster, self._stage = cluster, stage
        self.killed: list[int] = []

    def __call__(self, progress: Progress) -> None:
        if progress.stage != self._stage or self.killed:
            return
        self.killed = executors(self._cluster)
        for pid in self.killed:
            os.kill(pid, signal.SIGKILL)
        wait(lambda: not {*self.killed} & {*executors(self._cluster)})


def executors(cluster: Path) -> list[int]:
    """The processes that work in a cluster's directory."""
    return [
        int(process.name) for process in Path("/proc").glob("[0-9]*") if _is_one(process, cluster)
    ]


def _is_one(process: Path, cluster: Path) -> bool:
    try:
        command = (process / "cmdline").read_bytes()
        return b"ExecutorBackend" in command and str(cluster) in os.readlink(process / "cwd")  # noqa: PTH115 - a path that is gone has no Path
    except OSError:
        return False


def wait(condition: Any) -> None:
    """Until it is so."""
    clock = SystemClock()
    until = clock.monotonic_s() + _PATIENCE_S
    while not condition():
        assert clock.monotonic_s() < until
        clock.pause(0.1)


def main(place: Path, cluster: Path) -> list[dict[str, Any]]:
    """How each run ends."""
    spark = build_session("lost executors", settings=_SETTINGS)
    try:
        return [
            _ending(spark, place / str(number), statement, Killer(cluster, stage))
            for number, (statement, stage) in enumerate(RUNS)
        ]
    finally:
        spark.stop()


def _ending(spark: SparkSession, place: Path, statement: str, killer: Killer) -> dict[str, Any]:
    table = DeltaTable(open_store(str(place)))
    for words in (_CREATE, _FILL):
        run(parse_statement(words), table, spark)
    before, command = table.version(), parse_statement(statement)
    code = ""
    try:
        run(command, table, spark, BY_SPARK, txn_id="job", since_version=before, progress=killer)
    except EngineError as error:
        code = error.code
    failed_at = table.version()
    run(command, table, spark, BY_SPARK, txn_id="job", since_version=before)
    rows = table.snapshot().to_arrow().sort_by("id")
    return {
        "statement": statement,
        "killed": len(killer.killed),
        "code": code,
        "committed": failed_at - before,
        "committed after the rerun": table.version() - before,
        "rows": list(zip(*(rows[name].to_pylist() for name in ("id", "v")), strict=True)),
        "numbers": len(set(rows["n"].to_pylist())),
    }


if __name__ == "__main__":
    sys.stdout.write(json.dumps(main(Path(sys.argv[1]), Path(sys.argv[2]))))
