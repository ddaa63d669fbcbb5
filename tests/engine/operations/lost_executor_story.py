"""Executors lost during operations, in a separate process.

`python -m … DIRECTORY CLUSTER MODE`, with SPARK_MASTER set; CLUSTER is the working directory of the
cluster's executors. The program prints the result of each run as JSON. MODE selects the fault:
`begin` kills all executors at the start of a stage of an operation; `optimize` kills them during
each Spark stage of each kind of OPTIMIZE; `decommission` decommissions one of them at the start of a
stage; `idle` waits before each run until all of them have been released. The latter two leave Spark's
settings to `spark-defaults.conf`.
"""

import json
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession

from engine.clock import SystemClock
from engine.commands.command import Command
from engine.commands.sql import parse_statement
from engine.errors import EngineError
from engine.operations.run import run
from engine.operations.run_options import RunOptions
from engine.spark.jobs import Progress, ProgressCallback
from engine.spark.session import build_session
from engine.storage.uri import open_store
from engine.table import DeltaTable
from tests.engine.made_tables import write_commit, write_rows

BY_SPARK = RunOptions(in_process_bytes=0)
_SETTINGS = {
    "spark.executor.memory": "600m",
    "spark.driver.memory": "700m",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.liveUpdate.period": "0",  # so that no stage passes unseen
}
_AT_THE_FIRST_FAILURE = {"spark.task.maxFailures": "1"}
_CREATE = """CREATE TABLE t (id BIGINT, n BIGINT GENERATED ALWAYS AS IDENTITY, v BIGINT)
TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')"""
_CREATE_PLAIN = "CREATE TABLE t (id BIGINT, v BIGINT)"
_VECTORS = (
    "TBLPROPERTIES ('delta.enableDeletionVectors' = 'true', 'delta.targetFileSize' = '300kb')"
)
_FILL = "INSERT INTO t (id, v) VALUES (1, 0), (2, 0), (3, 0), (4, 0)"
INSERT = "INSERT INTO t (id, v) VALUES (5, 0), (6, 0)"
DELETE = "DELETE FROM t WHERE id = 1"
UPDATE = "UPDATE t SET v = n WHERE id > 2"
MERGE = """MERGE INTO t USING (VALUES (3, 9), (7, 9)) AS s (id, v) ON t.id = s.id
WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT (id, v) VALUES (s.id, s.v)"""
RUNS = (
    (INSERT, "write files"),  # numbered rows are kept
    (MERGE, "match rows"),  # the source is
    (MERGE, "write new rows"),  # matched rows are kept too
    (DELETE, "find rows"),  # nothing yet
    (UPDATE, "write new rows"),  # nothing any more
)
"""Statements, and the stages as which begin the executors are killed."""
OPTIMIZES = {
    "compaction": ("", "OPTIMIZE t"),
    "zorder": ("", "OPTIMIZE t ZORDER BY (id, v)"),
    "clustering": ("CLUSTER BY (v, id)", "OPTIMIZE t"),
}
FILES, ROWS_OF_A_FILE = 8, 10_000
_PATIENCE_S = 60


class Killer:
    """A killer that ends the cluster's executors at the start of a stage and waits until they are gone."""

    def __init__(self, cluster: Path, stage: str, *, by: int = signal.SIGKILL, most: int = 9):
        self._cluster, self._stage, self._by, self._most = cluster, stage, by, most
        self.killed: list[int] = []

    def __call__(self, progress: Progress) -> None:
        if progress.stage == self._stage and not self.killed:
            self.kill()

    def kill(self) -> None:
        self.killed = executors(self._cluster)[: self._most]
        for pid in self.killed:
            os.kill(pid, self._by)
        wait(lambda: not {*self.killed} & {*executors(self._cluster)})


@contextmanager
def kill_in_stage(spark: SparkSession, killer: Killer, number: int) -> Iterator[None]:
    """Kill as soon as the n-th Spark stage from now on is seen, if it is reached."""
    tracker, over = spark.sparkContext.statusTracker(), threading.Event()
    seen = set(tracker.getActiveStageIds())
    begun: list[int] = []

    def watch() -> None:
        while not over.wait(0.002):
            for stage in sorted(set(tracker.getActiveStageIds()) - seen):
                seen.add(stage)
                begun.append(stage)
                if len(begun) == number:
                    killer.kill()
                    return

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()


def executors(cluster: Path) -> list[int]:
    """Return the processes that work in a cluster's directory."""
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
    """Wait until the condition holds."""
    clock = SystemClock()
    until = clock.monotonic_s() + _PATIENCE_S
    while not condition():
        assert clock.monotonic_s() < until
        clock.pause(0.1)


def main(place: Path, cluster: Path, mode: str) -> list[dict[str, Any]]:
    """Return the result of each run."""
    settings = _SETTINGS | (_AT_THE_FIRST_FAILURE if mode == "begin" else {})
    spark = build_session("lost executors", settings=settings)
    try:
        if mode == "optimize":
            return [ending for kind in OPTIMIZES for ending in _sweep(spark, place, cluster, kind)]
        return [
            _run_to_end(spark, place / str(number), statement, _fate(spark, cluster, stage, mode))
            for number, (statement, stage) in enumerate(RUNS)
        ]
    finally:
        spark.stop()


def _fate(spark: SparkSession, cluster: Path, stage: str, mode: str) -> Killer:
    if mode == "idle":
        wait(lambda: not executors(cluster))
        return Killer(cluster, "")
    if mode == "decommission":  # requires another executor to take over the stored blocks
        status = spark.sparkContext._jsc.sc()
        wait(lambda: int(status.getExecutorMemoryStatus().size()) == 3)
        return Killer(cluster, stage, by=signal.SIGPWR, most=1)
    return Killer(cluster, stage)


def _run_to_end(spark: SparkSession, place: Path, statement: str, killer: Killer) -> dict[str, Any]:
    table = DeltaTable(open_store(str(place)))
    for words in (_CREATE, _FILL):
        run(parse_statement(words), table, spark)
    before, command = table.version(), parse_statement(statement)
    code = _code_of(command, table, spark, killer)
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


def _code_of(
    command: Command, table: DeltaTable, spark: SparkSession, told: ProgressCallback
) -> str:
    before = table.version()
    try:
        run(command, table, spark, BY_SPARK, txn_id="job", since_version=before, progress=told)
    except EngineError as error:
        return error.code
    return ""


def _sweep(spark: SparkSession, place: Path, cluster: Path, kind: str) -> Iterator[dict[str, Any]]:
    """Run once for each of Spark's stages, and a last time without a kill."""
    number, killed = 0, True
    while killed:
        number += 1
        ending = _run_optimize(spark, place / f"{kind} {number}", cluster, kind, number)
        killed = ending["killed"] > 0
        yield ending


def _run_optimize(
    spark: SparkSession, place: Path, cluster: Path, kind: str, number: int
) -> dict[str, Any]:
    order, statement = OPTIMIZES[kind]
    table = DeltaTable(open_store(str(place)))
    _fill(spark, table, order)
    before, rows = table.version(), _rows(table)
    command, killer = parse_statement(statement), Killer(cluster, "")
    with kill_in_stage(spark, killer, number):
        code = _code_of(command, table, spark, lambda _: None)
    failed_at, files = table.version(), {add.path for add in table.snapshot().add_files()}
    run(command, table, spark, BY_SPARK, txn_id="job", since_version=before)
    return {
        "kind": kind,
        "stage": number,
        "killed": len(killer.killed),
        "code": code,
        "committed": failed_at - before,
        "committed after the rerun": table.version() - before,
        "is the same": _rows(table).equals(rows),
        "rows": rows.num_rows,
        "files": len(files),
    }


def _fill(spark: SparkSession, table: DeltaTable, order: str) -> None:
    """Write files with shuffled rows, and mark a fifth of the rows as deleted."""
    run(parse_statement(f"{_CREATE_PLAIN} {order} {_VECTORS}"), table, spark)
    ids = np.random.default_rng(1).permutation(FILES * ROWS_OF_A_FILE).reshape(FILES, -1)
    for number, mine in enumerate(ids):
        rows = pa.table({"id": mine, "v": mine % 97})
        write_commit(table.store, table.version() + 1, write_rows(table.store, f"{number}", rows))
    run(parse_statement("DELETE FROM t WHERE id % 5 = 0"), table, spark)


def _rows(table: DeltaTable) -> pa.Table:
    return table.snapshot().to_arrow().sort_by("id")


if __name__ == "__main__":
    sys.stdout.write(json.dumps(main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])))
