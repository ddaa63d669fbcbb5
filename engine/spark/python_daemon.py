"""PySpark's daemon with the tasks' imports already done: its workers are forks of it.

PySpark's own has each worker import them anew, because a fork takes no thread along. No import here
may start a thread: otherwise PySpark's own daemon takes over.
"""

import os
import sys
from pathlib import Path

# arrow's allocator and linear algebra would start threads on import
os.environ["JE_ARROW_MALLOC_CONF"] = "background_thread:false"
os.environ.setdefault("OMP_NUM_THREADS", "1")

import gc

import pandas  # type: ignore[import-untyped] # noqa: F401 - for the workers, as what follows
import pyspark.worker  # noqa: F401
from pyspark.daemon import manager

import engine.spark.row_positions
import engine.spark.scan.deletion_vectors
import engine.spark.write.compaction
import engine.spark.write.writer
import engine.spark.write.zorder  # noqa: F401

_THREADS = Path("/proc/self/task")


def has_one_thread() -> bool:
    """Whether this process has one thread, so that a fork is complete; known on Linux alone."""
    return _THREADS.is_dir() and len(list(_THREADS.iterdir())) == 1


def main() -> None:
    """Serve workers until Spark closes the standard input."""
    if not has_one_thread():
        plain = [sys.executable, "-m", "pyspark.daemon", *sys.argv[1:]]
        os.execv(sys.executable, plain)  # noqa: S606 - this very Python
    gc.freeze()  # garbage collection in a worker would copy this memory
    manager()


if __name__ == "__main__":
    main()
