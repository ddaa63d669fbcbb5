"""Spark's counts for a group of its jobs: tasks, their time on cores, their bytes, its stages.

Spark keeps these counts whether or not its own pages are served. A finished stage is read once, so
that polling twice a second stays cheap for any number of stages. Every read is a call to the JVM:
details of single stages are read for the longest ones only.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from heapq import nlargest
from time import monotonic
from typing import Any

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped] # it has no types
from pyspark import SparkContext

SHOWN_STAGES = 20
"""So many stages of a group are told one by one."""
_SOON_TOLD = 8
_HASTE_S = 0.015
_ENDED = frozenset({"COMPLETE", "FAILED", "SKIPPED"})
_JOB_RUNS = "RUNNING"
_MEDIAN = 0.5
_EVENTS_MS = 100  # wait for Spark's own bookkeeping


@dataclass(frozen=True, slots=True)
class TaskCounts:
    """Tasks of a group and their cost. Bytes read by Python itself are not included."""

    done: int = 0
    running: int = 0
    total: int = 0
    core_ms: int = 0
    bytes_read: int = 0
    bytes_shuffled: int = 0

    def __add__(self, other: "TaskCounts") -> "TaskCounts":
        """Both together."""
        return TaskCounts(
            self.done + other.done,
            self.running + other.running,
            self.total + other.total,
            self.core_ms + other.core_ms,
            self.bytes_read + other.bytes_read,
            self.bytes_shuffled + other.bytes_shuffled,
        )


@dataclass(frozen=True, slots=True)
class TaskTimes:
    """Task durations in the stage with the most core time; tasks count from 0."""

    median_ms: int
    slowest_ms: int
    slowest_task: int


@dataclass(frozen=True, slots=True)
class StageCounts:
    """The latest attempt of a Spark stage. Bytes read or written by Python itself are not included.

    `attempt` counts from 0 as Spark does, `status` is active, complete, failed or pending.
    """

    stage_id: int
    attempt: int
    status: str
    started_ms: int | None
    ended_ms: int | None
    tasks: int
    done: int
    failed: int
    core_ms: int
    bytes_read: int
    rows_read: int
    shuffle_read: int
    shuffle_written: int
    spilled: int


@dataclass(frozen=True, slots=True)
class StageList:
    """The longest stages of a group in order of their start; `total` counts all of its stages."""

    stages: tuple[StageCounts, ...] = ()
    total: int = 0


@dataclass(frozen=True, slots=True)
class Cluster:
    """A session's cluster, and its load by all jobs.

    `ui` is the address of Spark's own pages, "" if it serves none.
    """

    version: str
    master: str
    executors: int
    cores: int
    busy_cores: int
    active_stages: int
    application: str = ""
    ui: str = ""


class GroupTasks:
    """Reads one job group repeatedly."""

    def __init__(self, context: SparkContext, group: str) -> None:
        self._context, self._group = context, group
        self._store = _status_store(context)
        self._stages_of_job: dict[int, tuple[int, ...]] = {}
        self._ended: dict[int, TaskCounts] = {}
        self._live: dict[int, TaskCounts] = {}
        self._told: dict[int, StageCounts] = {}
        self._longest: tuple[int, int, int] | None = None  # core ms, stage, its attempt

    def counts(self) -> TaskCounts:
        """Return the current counts; stages that Spark skipped count nothing."""
        self._longest = None
        self._live.clear()
        total = TaskCounts()
        for stage_id in sorted(set(self._stage_ids())):
            total += self._ended.get(stage_id) or self._look(stage_id)
        return total

    def are_running(self) -> bool:
        """Whether a task of the group runs: those of a failed stage run on for a while."""
        tracker = self._context.statusTracker()
        jobs = [tracker.getJobInfo(job_id) for job_id in tracker.getJobIdsForGroup(self._group)]
        if any(job is not None and job.status == _JOB_RUNS for job in jobs):
            return True
        stages = [self._stage(stage_id) for stage_id in self._stage_ids()]
        return any(stage is not None and stage.numActiveTasks() > 0 for stage in stages)

    def times(self) -> TaskTimes | None:
        """Return times of the longest stage in the last `counts`; None until one task ends."""
        longest = max(
            (
                (counts.core_ms, stage_id)
                for stage_id, counts in self._ended.items()
                if counts.total
            ),
            default=None,
        )
        live = self._longest
        if live is not None and (longest is None or live[0] > longest[0]):
            return self._times_of(live[1], live[2])
        return None if longest is None else self._times_of(longest[1], None)

    def stages(self, *, in_haste: bool = False) -> StageList:
        """Return the stages of the last `counts`, without skipped ones.

        `in_haste` keeps the work from waiting: after a few stages, reading stops at `_HASTE_S`.
        Stages read during the work need not be read again.
        """
        ran = {number: tasks for number, tasks in self._ended.items() if tasks.total} | self._live
        longest = nlargest(SHOWN_STAGES, ran, key=lambda number: (ran[number].core_ms, -number))
        told, until = list[StageCounts](), monotonic() + _HASTE_S
        for place, number in enumerate(longest):
            if in_haste and place >= _SOON_TOLD and monotonic() > until:
                break
            told += self._stage_told(number)
        told.sort(key=lambda stage: (stage.started_ms is None, stage.started_ms, stage.stage_id))
        return StageList(tuple(told), len(ran))

    def settle(self) -> None:
        """Wait briefly for Spark's pending events: its counts lag behind the work."""
        self._context._jsc.sc().listenerBus().waitUntilEmpty(_EVENTS_MS)

    def _stage_told(self, stage_id: int) -> Iterator[StageCounts]:
        told = self._told.get(stage_id)
        if told is None:
            stage = self._stage(stage_id)
            if stage is None:
                return
            told = _stage_counts(stage, self._ended.get(stage_id) or self._live[stage_id])
            if stage_id in self._ended:
                self._told[stage_id] = told
        yield told

    def _stage_ids(self) -> Iterator[int]:
        tracker = self._context.statusTracker()
        for job_id in tracker.getJobIdsForGroup(self._group):
            if job_id not in self._stages_of_job:
                job = tracker.getJobInfo(job_id)
                if job is None:
                    continue
                self._stages_of_job[job_id] = tuple(job.stageIds)
            yield from self._stages_of_job[job_id]

    def _look(self, stage_id: int) -> TaskCounts:
        stage = self._stage(stage_id)
        status = stage.status().toString() if stage is not None else ""
        if stage is None:
            return TaskCounts()
        if status == "SKIPPED":
            return self._ended.setdefault(stage_id, TaskCounts())
        counts = TaskCounts(
            done=stage.numCompleteTasks(),
            running=stage.numActiveTasks(),
            total=stage.numTasks(),
            core_ms=stage.executorRunTime(),
            bytes_read=stage.inputBytes(),
            bytes_shuffled=stage.shuffleWriteBytes(),
        )
        if status in _ENDED and not counts.running:  # tasks of a cancelled one run on
            self._ended[stage_id] = counts
            return counts
        self._live[stage_id] = counts
        if self._longest is None or counts.core_ms > self._longest[0]:
            self._longest = (counts.core_ms, stage_id, stage.attemptId())
        return counts

    def _stage(self, stage_id: int) -> Any:  # noqa: ANN401 - a Java object
        try:
            return self._store.lastStageAttempt(stage_id)
        except Py4JJavaError:  # not known yet, or no longer
            return None

    def _times_of(self, stage_id: int, attempt: int | None) -> TaskTimes | None:
        if attempt is None:
            stage = self._stage(stage_id)
            attempt = None if stage is None else stage.attemptId()
        if attempt is None:
            return None
        gateway: Any = self._context._gateway
        quantiles = gateway.new_array(gateway.jvm.double, 1)
        quantiles[0] = _MEDIAN
        summary = self._store.taskSummary(stage_id, attempt, quantiles)
        order = gateway.jvm.org.apache.spark.status.api.v1.TaskSorting.DECREASING_RUNTIME
        none = gateway.jvm.java.util.ArrayList()
        slowest = self._store.taskList(stage_id, attempt, 0, 1, order, none)
        if summary.isEmpty() or slowest.isEmpty() or slowest.head().taskMetrics().isEmpty():
            return None
        return TaskTimes(
            median_ms=round(summary.get().executorRunTime().head()),
            slowest_ms=slowest.head().taskMetrics().get().executorRunTime(),
            slowest_task=slowest.head().index(),
        )


def cluster_of(context: SparkContext) -> Cluster:
    """Return the cluster and its present load."""
    executors = _status_store(context).executorList(True)
    all_executors = [executors.apply(number) for number in range(executors.size())]
    working = [one for one in all_executors if one.totalCores() > 0]
    return Cluster(
        version=context.version,
        master=context.master or "",
        executors=len(working),
        cores=sum(one.totalCores() for one in working),
        busy_cores=sum(one.activeTasks() for one in working),
        active_stages=len(context.statusTracker().getActiveStageIds()),
        application=context.applicationId,
        ui=context.uiWebUrl or "",
    )


def _stage_counts(stage: Any, tasks: TaskCounts) -> StageCounts:  # noqa: ANN401 - a Java object
    return StageCounts(
        stage_id=stage.stageId(),
        attempt=stage.attemptId(),
        status=stage.status().toString().lower(),
        started_ms=_moment(stage.submissionTime()),
        ended_ms=_moment(stage.completionTime()),
        tasks=tasks.total,
        done=tasks.done,
        failed=stage.numFailedTasks(),
        core_ms=tasks.core_ms,
        bytes_read=tasks.bytes_read,
        rows_read=stage.inputRecords(),
        shuffle_read=stage.shuffleReadBytes(),
        shuffle_written=tasks.bytes_shuffled,
        spilled=stage.diskBytesSpilled(),
    )


def _moment(date: Any) -> int | None:  # noqa: ANN401 - an option of a Java date
    return None if date.isEmpty() else int(date.get().getTime())


def _status_store(context: SparkContext) -> Any:  # noqa: ANN401 - a Java object
    return context._jsc.sc().statusStore()
