"""Spark jobs of one operation: their progress, and how they are cancelled."""

import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import cast

from py4j.protocol import Py4JError  # type: ignore[import-untyped] # it has no types
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from engine.errors import OperationCancelledError
from engine.spark.task_counts import GroupTasks, TaskCounts, TaskTimes

_POLL_SECONDS = 0.5
_LOOKS_A_TIMING = 6  # how long single tasks took is asked less often


@dataclass(frozen=True, slots=True)
class Progress:
    """How far an operation is: `done` of `total` `unit`s of a named stage.

    `detail` says in words what the stage found. Where Spark works, `counts` has what its tasks cost
    so far and `times` how long they took one by one.
    """

    stage: str
    done: int
    total: int
    unit: str = "tasks"
    detail: str = ""
    counts: TaskCounts | None = None
    times: TaskTimes | None = None


ProgressCallback = Callable[[Progress], None]


def no_progress(_progress: Progress) -> None:
    """Told of every step, tells nobody."""


@contextmanager
def job_group(spark: SparkSession, stage: str, progress: ProgressCallback) -> Iterator[None]:
    """Run Spark actions as one group whose tasks are reported, and which the report can cancel.

    Raises:
        OperationCancelledError: `progress` raised it; the group's Spark jobs were cancelled.
    """
    progress(Progress(stage, 0, 0))
    group = f"lake-{uuid.uuid4().hex}"
    context = spark.sparkContext
    context.setJobGroup(group, stage, interruptOnCancel=True)
    context.setLocalProperty("spark.scheduler.pool", group)  # jobs share the cores fairly
    watcher = _Watcher(context, group, stage, progress)
    watcher.start()
    try:
        yield
    except (PySparkException, Py4JError):
        if watcher.error is None:
            raise
    finally:
        watcher.stop()
        for name in ("spark.jobGroup.id", "spark.scheduler.pool"):
            context.setLocalProperty(name, cast("str", None))  # None clears it
        watcher.tell_end()
    if watcher.error is not None:
        raise watcher.error


class _Watcher(threading.Thread):
    """Asks Spark for the group's tasks twice a second and tells the callback."""

    def __init__(
        self, context: SparkContext, group: str, stage: str, progress: ProgressCallback
    ) -> None:
        super().__init__(name=group, daemon=True)
        self._context, self._group, self._stage, self._progress = context, group, stage, progress
        self._tasks = GroupTasks(context, group)
        self._done = threading.Event()
        self.error: OperationCancelledError | None = None

    def run(self) -> None:
        """Until stopped or told to cancel."""
        looks = 0
        while not self._done.wait(_POLL_SECONDS):
            looks += 1
            try:
                self._progress(self._look(timed=looks % _LOOKS_A_TIMING == 0))
            except OperationCancelledError as error:
                self.error = error
                self._context.cancelJobGroup(self._group)

    def stop(self) -> None:
        """End the watching."""
        self._done.set()
        self.join()

    def tell_end(self) -> None:
        """What the group cost in the end. Whatever ended it is not hidden by this failing."""
        with suppress(Py4JError, OSError, OperationCancelledError):
            self._progress(self._look(timed=True))

    def _look(self, *, timed: bool) -> Progress:
        counts = self._tasks.counts()
        times = self._tasks.times() if timed else None
        return Progress(self._stage, counts.done, counts.total, counts=counts, times=times)
