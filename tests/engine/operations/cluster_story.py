"""Operations on a cluster, in a separate process: `python -m … DIRECTORY`, with SPARK_MASTER set.

The driver may receive so little data that collecting rows, positions or statistics ends the run. The
program prints its observations as JSON.
"""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from engine.commands.command import Command
from engine.commands.model import Append, Merge, MergeClause, Vacuum
from engine.commands.sources import FileSource
from engine.commands.sql import parse_statement
from engine.operations.run import run
from engine.operations.run_options import RunOptions
from engine.spark.session import build_session
from engine.storage.uri import open_store
from engine.table import DeltaTable

ROWS = 600_000
_SETTINGS = {
    "spark.driver.maxResultSize": "2m",
    "spark.executor.memory": "600m",
    "spark.driver.memory": "700m",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.files.maxPartitionBytes": "2m",
}
_CREATE = (
    "CREATE TABLE t (id BIGINT, k BIGINT, v DOUBLE) USING DELTA"
    " TBLPROPERTIES ('delta.targetFileSize' = '2mb')"
)
_CLAUSES = (
    MergeClause("matched", "delete", "source.id % 16 = 3"),
    MergeClause("matched", "update", assignments={"v": "-2"}),
)


def main(place: Path) -> dict[str, Any]:
    """Run every kind of operation and return the results."""
    spark = build_session("cluster", settings=_SETTINGS)
    try:
        return _story(spark, place)
    finally:
        spark.stop()


def _story(spark: SparkSession, place: Path) -> dict[str, Any]:
    table = DeltaTable(open_store(str(place / "table")))
    results: dict[str, Any] = {"executors": _executors(spark)}

    def do(command: Command | str) -> dict[str, int | str]:
        parsed = parse_statement(command) if isinstance(command, str) else command
        return dict(run(parsed, table, spark, RunOptions(in_process_bytes=0)).metrics)

    do(_CREATE)
    results["append"] = do(Append(FileSource(str(_source(place)), "parquet")))
    results["delete"] = do("DELETE FROM t WHERE k % 2 = 1")
    results["vectors"] = [
        add.deletion_vector.cardinality
        for add in table.snapshot().add_files()
        if add.deletion_vector
    ]
    results["update"] = do("UPDATE t SET v = -1 WHERE id % 8 = 2")
    changes = FileSource(str(place / "changes.parquet"), "parquet")
    results["merge"] = do(Merge(changes, "target.id = source.id", _CLAUSES))
    results["optimize"] = do("OPTIMIZE t")
    results["zorder"] = do("OPTIMIZE t ZORDER BY (k, v)")
    results["vacuum"] = do(Vacuum(retention_hours=0, override_retention=True))
    rows = table.snapshot().to_arrow()
    results["rows"] = rows.num_rows
    results["sum of v"] = pa.compute.sum(rows["v"]).as_py()
    results["sum of id"] = pa.compute.sum(rows["id"]).as_py()
    return results


def _executors(spark: SparkSession) -> int:
    """Return the number of executors, after work that starts them on a cluster."""
    spark.range(0, 8, 1, 8).mapInArrow(lambda batches: batches, "id long").count()
    status = spark.sparkContext._jsc.sc().getExecutorMemoryStatus()
    return int(status.size()) - 1


def _source(place: Path) -> Path:
    """Write rows into several files, with a key in random order."""
    rows = np.arange(ROWS)
    keys = np.random.default_rng(1).permutation(ROWS)
    folder = place / "rows"
    folder.mkdir(parents=True)
    for part in range(4):
        mine = rows % 4 == part
        piece = pa.table({"id": rows[mine], "k": keys[mine], "v": np.zeros(mine.sum())})
        pq.write_table(piece, folder / f"{part}.parquet")
    pq.write_table(pa.table({"id": rows[rows % 8 == 3]}), place / "changes.parquet")
    return folder


if __name__ == "__main__":
    sys.stdout.write(json.dumps(main(Path(sys.argv[1]))))
