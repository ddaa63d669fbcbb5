"""A long UPDATE by Spark of rows that quick writers change: seconds until it ends with its conflict.

Beside the same without looking at new commits while Spark works (`early_conflicts` off), in turns.
"""

import tempfile
import threading
from functools import partial
from pathlib import Path

from pyspark.sql import SparkSession

from benchmarks.delta_spark_turns import compare_medians, take_turns
from benchmarks.measuring import Comparison, seconds, show
from benchmarks.spark_lake import local_session, table_of_small_files
from engine.commands.model import Update
from engine.errors import ConflictError
from engine.operations.run import run
from engine.operations.run_options import RunOptions
from engine.table import DeltaTable

QUICK, FILES, ROWS, PAUSE_SECONDS = 7, 8, 500_000, 0.5
_DIGEST = "sha2(rpad(name, 500, 'x'), 512)"
_LONG = Update(where="id % 2 = 0", assignments={"name": _DIGEST})
_LATE = "looking only at the commit"
_WAYS = {
    "engine": RunOptions(in_process_bytes=0),
    _LATE: RunOptions(in_process_bytes=0, early_conflicts=False),
}


def measure() -> list[Comparison]:
    """Seconds that the long one has wasted."""
    spark = local_session()
    with tempfile.TemporaryDirectory() as scratch:
        uri = str(Path(scratch) / "t")
        table_of_small_files(Path(uri), FILES, ROWS, {"delta.enableDeletionVectors": "true"})
        ways = {way: partial(_measure_waste, uri, spark, options) for way, options in _WAYS.items()}
        times = take_turns(ways, warm_up=1)
    what = f"an UPDATE of {FILES * ROWS // 2:,} rows that loses to {QUICK} quick writers: wasted"
    return compare_medians(what, times, [_LATE])


def _measure_waste(uri: str, spark: SparkSession, options: RunOptions) -> float:
    ended = threading.Event()
    writers = [threading.Thread(target=_quickly, args=(uri, i, ended)) for i in range(QUICK)]
    for writer in writers:
        writer.start()
    try:
        return seconds(lambda: _lose(uri, spark, options))
    finally:
        ended.set()
        for writer in writers:
            writer.join()


def _lose(uri: str, spark: SparkSession, options: RunOptions) -> None:
    try:
        run(_LONG, DeltaTable.open(uri), spark, options=options)
    except ConflictError:
        return
    msg = "The long UPDATE landed."
    raise RuntimeError(msg)


def _quickly(uri: str, writer: int, ended: threading.Event) -> None:
    """One row after the other of a file of its own, in this process."""
    row = writer * ROWS
    while not ended.wait(PAUSE_SECONDS * QUICK):
        row += 2
        update = Update(where=f"id = {row}", assignments={"value": "value + 1"})
        run(update, DeltaTable.open(uri), None)


if __name__ == "__main__":
    show(measure())
