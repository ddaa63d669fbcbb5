"""Spark jobs of one operation: their progress, and how they are cancelled."""

import functools
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import cast

from pyspark import SparkContext
from pyspark.sql import SparkSession

from engine.errors import ConflictError, OperationCancelledError
from engine.spark.failures import SPARK_ERRORS
from engine.spark.session import is_remote
from engine.spark.task_counts import GroupTasks, StageList, TaskCounts, TaskTimes

_PROPERTIES = (
    "spark.jobGroup.id",
    "spark.job.description",
    "spark.job.interruptOnCancel",
    "spark.scheduler.pool",
)
_POLL_SECONDS = 0.5
_END_SECONDS = 0.2
_STOPS = (OperationCancelledError, ConflictError)
"""Exceptions by which a callback stops the work."""
_LOOKS_A_TIMING = 6  # durations of single tasks are read less often


@dataclass(frozen=True, slots=True)
class Progress:
    """Progress of an operation: `done` of `total` `unit`s of a named stage.

    `detail` is the stage's result in words. For Spark stages, `counts` holds the cost of the tasks
    so far, `times` their durations, and `stages` their Spark stages.
    """

    stage: str
    done: int
    total: int
    unit: str = "tasks"
    detail: str = ""
    counts: TaskCounts | None = None
    times: TaskTimes | None = None
    stages: StageList | None = None


ProgressCallback = Callable[[Progress], None]


def no_progress(_progress: Progress) -> None:
    """Ignore progress."""


@contextmanager
def job_group(
    spark: SparkSession, stage: str, progress: ProgressCallback, *, counted: bool = True
) -> Iterator[None]:
    """Run Spark actions as one group whose tasks are reported, and which the callback can cancel.

    Unless `counted`, the cost of tasks is not read: each read is a call to the JVM that delays the
    work.

    However the group ends, none of its tasks still runs afterwards: a failed or cancelled task
    writes no file after the cleanup. The job group of the caller's program is restored.

    Raises:
        OperationCancelledError, ConflictError: `progress` raised it; the group's tasks were ended.
    """
    progress(Progress(stage, 0, 0))
    name = f"lake-{uuid.uuid4().hex}"
    group = _RemoteGroup(spark, name) if is_remote(spark) else _JobGroup(spark.sparkContext, name)
    group.begin(stage)
    watcher = _Watcher(group, stage, progress, counted=counted)
    watcher.start()
    try:
        yield
    except Exception as error:
        watcher.stop()
        watcher.end_tasks()
        if watcher.error is None or not isinstance(error, SPARK_ERRORS):
            raise
    finally:
        watcher.stop()
        with suppress(*SPARK_ERRORS):  # a dead Spark must not hide the original error
            group.end()
        watcher.tell_end()
    if watcher.error is not None:
        raise watcher.error


class _JobGroup:
    """A group of jobs in this process's Spark."""

    def __init__(self, context: SparkContext, name: str) -> None:
        self._context, self.name = context, name
        self._before: dict[str, str | None] = {}

    @functools.cached_property
    def _tasks(self) -> GroupTasks:
        return GroupTasks(self._context, self.name)

    def begin(self, stage: str) -> None:
        """Put the jobs of this thread into the group, which shares the cores fairly with others."""
        self._before = {name: self._context.getLocalProperty(name) for name in _PROPERTIES}
        self._context.setJobGroup(self.name, stage, interruptOnCancel=True)
        self._context.setLocalProperty("spark.scheduler.pool", self.name)

    def end(self) -> None:
        """Restore the thread's previous job group."""
        for name, value in self._before.items():
            self._context.setLocalProperty(name, cast("str", value))  # None clears it

    def cancel(self) -> None:
        """Stop its jobs."""
        self._context.cancelJobGroup(self.name)

    def is_running(self) -> bool:
        """Whether a task of the group runs."""
        return self._tasks.are_running()

    def look(self, stage: str, *, timed: bool, in_haste: bool = False) -> Progress:
        """Return the cost of its tasks so far."""
        counts = self._tasks.counts()
        told = Progress(stage, counts.done, counts.total, counts=counts)
        if timed:
            told = replace(told, times=self._tasks.times())
            with suppress(*SPARK_ERRORS):  # an unreadable figure stops no work
                told = replace(told, stages=self._tasks.stages(in_haste=in_haste))
        return told

    def settle(self) -> None:
        """Make Spark count finished tasks."""
        self._tasks.settle()


class _RemoteGroup:
    """The operations of one tag on a Spark Connect server, which does not report costs."""

    def __init__(self, session: SparkSession, name: str) -> None:
        self._session, self.name = session, name

    def begin(self, _stage: str) -> None:
        """Tag the operations of this thread."""
        self._session.addTag(self.name)

    def end(self) -> None:
        """Remove the tag."""
        self._session.removeTag(self.name)

    def cancel(self) -> None:
        """Stop its jobs."""
        self._session.interruptTag(self.name)

    def is_running(self) -> bool:
        """Interrupting has waited for them."""
        return False

    def look(self, stage: str, *, timed: bool, in_haste: bool = False) -> Progress:  # noqa: ARG002
        """Return no counts: the server reports none."""
        return Progress(stage, 0, 0, counts=TaskCounts())

    def settle(self) -> None:
        """Do nothing: there is nothing to count."""


class _Watcher(threading.Thread):
    """Reads the group's tasks twice a second and informs the callback."""

    def __init__(
        self,
        group: _JobGroup | _RemoteGroup,
        stage: str,
        progress: ProgressCallback,
        *,
        counted: bool,
    ) -> None:
        super().__init__(name=group.name, daemon=True)
        self._counted = counted
        self._group, self._stage, self._progress = group, stage, progress
        self._done, self._pause = threading.Event(), threading.Event()
        self.error: OperationCancelledError | ConflictError | None = None

    def run(self) -> None:
        """Report until stopped or cancelled."""
        looks = 0
        while not self._done.wait(_POLL_SECONDS):
            looks += 1
            try:
                self._progress(self._look(timed=looks % _LOOKS_A_TIMING == 0))
            except _STOPS as error:
                self.error = error
                self._group.cancel()

    def stop(self) -> None:
        """End the watching."""
        self._done.set()
        self.join()

    def end_tasks(self) -> None:
        """Cancel the remaining tasks and wait for their end, which Spark's own error does not do.

        A task that ignores interrupts is waited for without limit, and the callback is informed:
        Spark's task reaper ends its executor in time, unless it is part of this process. If Spark
        is gone, no task runs.
        """
        with suppress(*SPARK_ERRORS):
            while self._group.is_running():
                self._group.cancel()
                with suppress(*_STOPS):
                    self._progress(self._look(timed=False))
                self._pause.wait(_END_SECONDS)

    def tell_end(self) -> None:
        """Report the group's final cost. A failure here does not hide the group's own error."""
        if not self._counted:
            return
        with suppress(*SPARK_ERRORS, OSError, *_STOPS):
            self._progress(self._last_look())

    def _last_look(self) -> Progress:
        """Return the final progress; the work waits for it."""
        counted = self._look(timed=False)
        if counted.done < counted.total:
            with suppress(*SPARK_ERRORS):
                self._group.settle()
        return self._group.look(self._stage, timed=True, in_haste=True)

    def _look(self, *, timed: bool) -> Progress:
        if not self._counted:
            return Progress(self._stage, 0, 0)
        return self._group.look(self._stage, timed=timed)
