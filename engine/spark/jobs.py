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
from engine.spark.java_causes import SPARK_ERRORS
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
"""What a callback raises to have the work stopped."""
_LOOKS_A_TIMING = 6  # how long single tasks took is asked less often


@dataclass(frozen=True, slots=True)
class Progress:
    """How far an operation is: `done` of `total` `unit`s of a named stage.

    `detail` says in words what the stage found. Where Spark works, `counts` has what its tasks cost
    so far, `times` how long they took one by one, and `stages` which of Spark's stages they were of.
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
    """Told of every step, tells nobody."""


@contextmanager
def job_group(
    spark: SparkSession, stage: str, progress: ProgressCallback, *, counted: bool = True
) -> Iterator[None]:
    """Run Spark actions as one group whose tasks are reported, and which the report can cancel.

    Where nobody is told what tasks cost, not `counted`, Spark is not asked: each answer is a call to
    the JVM for which the work would wait.

    However it is left, no task of the group runs any more: what failed or was cancelled writes no
    file after its files were removed. A group that the caller's program is in is put back then.

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
        with suppress(*SPARK_ERRORS):  # whatever ended it is not hidden by Spark being gone
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
        """Put what follows where it was before."""
        for name, value in self._before.items():
            self._context.setLocalProperty(name, cast("str", value))  # None clears it

    def cancel(self) -> None:
        """Have its jobs stop."""
        self._context.cancelJobGroup(self.name)

    def is_running(self) -> bool:
        """Whether a task of it runs."""
        return self._tasks.are_running()

    def look(self, stage: str, *, timed: bool, in_haste: bool = False) -> Progress:
        """What its tasks cost so far."""
        counts = self._tasks.counts()
        told = Progress(stage, counts.done, counts.total, counts=counts)
        if timed:
            told = replace(told, times=self._tasks.times())
            with suppress(*SPARK_ERRORS):  # no work is stopped because a figure could not be read
                told = replace(told, stages=self._tasks.stages(in_haste=in_haste))
        return told

    def settle(self) -> None:
        """Have Spark count what has ended."""
        self._tasks.settle()


class _RemoteGroup:
    """The operations of one tag on a server of Spark Connect, which does not say what tasks cost."""

    def __init__(self, session: SparkSession, name: str) -> None:
        self._session, self.name = session, name

    def begin(self, _stage: str) -> None:
        """Tag what this thread asks for."""
        self._session.addTag(self.name)

    def end(self) -> None:
        """Tag what follows no longer."""
        self._session.removeTag(self.name)

    def cancel(self) -> None:
        """Have them stop."""
        self._session.interruptTag(self.name)

    def is_running(self) -> bool:
        """Interrupting has waited for them."""
        return False

    def look(self, stage: str, *, timed: bool, in_haste: bool = False) -> Progress:  # noqa: ARG002
        """Nothing is known."""
        return Progress(stage, 0, 0, counts=TaskCounts())

    def settle(self) -> None:
        """There is nothing to count."""


class _Watcher(threading.Thread):
    """Asks Spark for the group's tasks twice a second and tells the callback."""

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
        """Until stopped or told to cancel."""
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
        """Cancel what is left and wait until it has ended, which Spark's own error does not wait for.

        A task that heeds no interrupt is waited for, however long it takes, and the callback is told
        of it: Spark's task reaper ends its executor in time, if that is no part of this process.
        Where Spark is gone no task runs.
        """
        with suppress(*SPARK_ERRORS):
            while self._group.is_running():
                self._group.cancel()
                with suppress(*_STOPS):
                    self._progress(self._look(timed=False))
                self._pause.wait(_END_SECONDS)

    def tell_end(self) -> None:
        """What the group cost in the end. Whatever ended it is not hidden by this failing."""
        if not self._counted:
            return
        with suppress(*SPARK_ERRORS, OSError, *_STOPS):
            self._progress(self._last_look())

    def _last_look(self) -> Progress:
        """The work waits for this one."""
        counted = self._look(timed=False)
        if counted.done < counted.total:
            with suppress(*SPARK_ERRORS):
                self._group.settle()
        return self._group.look(self._stage, timed=True, in_haste=True)

    def _look(self, *, timed: bool) -> Progress:
        if not self._counted:
            return Progress(self._stage, 0, 0)
        return self._group.look(self._stage, timed=timed)
