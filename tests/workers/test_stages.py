"""Stages of an attempt, reported and queried without a worker."""

from dataclasses import asdict

import pytest
from django.utils import timezone

from engine.clock import utc_from_ms
from engine.errors import OperationCancelledError
from engine.spark.jobs import Progress
from engine.spark.task_counts import StageCounts, StageList, TaskCounts, TaskTimes
from lakeui.jobs.leases import Lease
from lakeui.jobs.models import Job, JobAttempt
from lakeui.jobs.spark_stages import KEPT, SparkStage
from tests.lakeui.factories import make_job, make_table
from workers.heartbeat import Heartbeat, LatestFields, LatestProgress, StageRows, Stages


class HandClock:
    """A clock that a test advances."""

    def __init__(self) -> None:
        self.ms = 1_790_000_000_000

    def now_ms(self) -> int:
        return self.ms

    def monotonic_s(self) -> float:
        return self.ms / 1000

    def pause(self, seconds: float) -> None:
        self.ms += int(seconds * 1000)


@pytest.fixture
def clock():
    return HandClock()


@pytest.fixture
def stages(clock):
    return Stages(clock, attempt=1)


def tasks(stage: str, done: int, core_ms: int, running: int = 0) -> Progress:
    counts = TaskCounts(done, running, done + running, core_ms, 100, 10)
    return Progress(stage, done, done + running, counts=counts)


def take(progress: LatestProgress) -> LatestFields:
    latest = progress.take()
    assert latest is not None
    return latest


def rows(stages: Stages, clock: HandClock) -> dict[str, dict]:
    return {stage.name: stage.fields(clock.now_ms()) for stage in stages.take_changed()}


def test_tasks_that_run_on_in_a_cancelled_job_are_noted_and_no_step_begins(clock):
    def cancel() -> None:
        raise OperationCancelledError("cancelled")  # noqa: EM101

    progress = LatestProgress(cancel, clock=clock)
    with pytest.raises(OperationCancelledError):
        progress(tasks("match rows", 3, core_ms=700, running=2))
    with pytest.raises(OperationCancelledError):
        progress(Progress("write", 0, 0))
    assert take(progress).fields["progress_running"] == 2
    assert [stage.name for stage in progress.stages.take_changed()] == ["match rows"]


def test_a_step_ends_where_the_next_begins(stages, clock):
    stages.enter("read the table")
    clock.pause(0.9)
    stages.note(tasks("match rows", 3, core_ms=700, running=2))
    clock.pause(2)
    shown = rows(stages, clock)
    read, match = shown["read the table"], shown["match rows"]
    assert (read["took_ms"], read["core_ms"], read["unit"]) == (900, None, "")
    assert read["finished_at"] == match["started_at"]
    assert (match["took_ms"], match["done"], match["running"], match["total"]) == (2000, 3, 2, 5)
    assert match["finished_at"] is None


def test_a_repeated_step_is_one_row_with_all_its_turns(stages, clock):
    for core_ms in (400, 600):
        stages.enter("read the table")
        clock.pause(1)
        stages.note(tasks("compact files", 4, core_ms=core_ms))
        clock.pause(3)
    stages.close()
    shown = rows(stages, clock)
    assert list(shown) == ["read the table", "compact files"]
    compact = shown["compact files"]
    assert (compact["took_ms"], compact["done"], compact["core_ms"]) == (6000, 8, 1000)
    assert stages.cost_of(1) == TaskCounts(8, 0, 8, 1000, 200, 20)


def test_messages_about_an_ended_step_begin_nothing(stages, clock):
    stages.enter("read the table")
    stages.enter("read the source")
    clock.pause(1)
    stages.note(Progress("read the table", 0, 0, detail="212 of 1,204 files"))
    shown = rows(stages, clock)
    assert shown["read the table"]["found"] == "212 of 1,204 files"
    assert shown["read the table"]["took_ms"] == 0
    assert shown["read the source"]["finished_at"] is None


def test_unchanged_values_are_not_written_again(stages, clock):
    stages.enter("read the table")
    assert rows(stages, clock)
    clock.pause(1)
    assert not rows(stages, clock)


def test_each_attempt_has_steps_of_its_own(stages, clock):
    stages.note(tasks("write", 4, core_ms=400))
    stages.next_attempt(2)
    stages.note(tasks("write", 1, core_ms=50))
    counted = [
        (stage.attempt, stage.place, stage.counts.core_ms) for stage in stages.take_changed()
    ]
    assert counted == [(1, 0, 400), (2, 0, 50)]
    assert stages.cost_of(2).core_ms == 50


def spark_stage(number: int, core_ms: int = 10) -> StageCounts:
    return StageCounts(number, 1, "complete", number * 1000, number * 1000 + 900, 4, 4, 1, core_ms,
                       90, 80, 70, 60, 50)  # fmt: skip


def build_spark_progress(*stages: StageCounts, total: int | None = None) -> Progress:
    told = StageList(stages, len(stages) if total is None else total)
    return Progress("write", 4, 4, counts=TaskCounts(4, 0, 4, 10), stages=told)


def test_a_stage_of_spark_is_recorded_with_all_its_counts(stages, clock):
    stages.note(build_spark_progress(spark_stage(7)))
    (row,) = rows(stages, clock)["write"]["spark_stages"]
    assert asdict(SparkStage.from_row(row)) == asdict(spark_stage(7))


def test_stages_of_all_turns_are_kept_or_the_longest_where_there_are_many(stages, clock):
    stages.note(
        build_spark_progress(*(spark_stage(number, core_ms=1) for number in range(KEPT)), total=90)
    )
    stages.enter("read the table")
    stages.note(build_spark_progress(spark_stage(200, core_ms=5)))
    stages.note(build_spark_progress(spark_stage(200, core_ms=9), spark_stage(201, core_ms=3)))
    shown = rows(stages, clock)["write"]
    assert shown["spark_stage_count"] == 92
    kept = [SparkStage.from_row(row) for row in shown["spark_stages"]]
    assert [stage.stage_id for stage in kept] == [*range(KEPT - 2), 200, 201]
    assert kept[-2].core_ms == 9


def test_the_times_of_single_tasks_stay_until_newer_ones_come(stages, clock):
    slow = TaskTimes(median_ms=810, slowest_ms=4100, slowest_task=118)
    counts = TaskCounts(2, 0, 2, 5000)
    stages.note(Progress("write", 2, 2, counts=counts, times=slow))
    stages.note(Progress("write", 2, 2, counts=counts))
    assert rows(stages, clock)["write"]["slowest_task"] == 118


def test_the_transaction_says_which_stage_checks_and_which_commits(clock):
    progress = LatestProgress(lambda: None, clock=clock)
    progress(Progress("commit", 0, 1, "commits"))
    assert take(progress).fields["progress_stage"] == "commit"
    progress.enter("check")
    progress.enter("commit")
    assert [stage.name for stage in progress.stages.take_changed()] == ["check", "commit"]


def test_a_line_about_a_step_names_its_step(stages, clock, db):
    job = make_job(make_table(), "optimize", state="running")
    JobAttempt.objects.create(job=job, number=1, started_at=timezone.now())
    stages.enter("read the table")
    stages.note(Progress("read the table", 0, 0, detail="9 files"))
    slow = TaskTimes(median_ms=10, slowest_ms=60_000, slowest_task=3)
    stages.note(Progress("write", 2, 2, counts=TaskCounts(2, 0, 2, 5000), times=slow))
    clock.pause(1)
    stages.close()
    StageRows(job.pk, stages, clock).write()
    lines = [(event.message.partition(":")[0], event.data) for event in job.events.order_by("pk")]
    assert lines == [
        ("Read the table", {"attempt": 1, "step": 0}),
        ("Write", {"attempt": 1, "step": 1}),
        ("Task 3 took 60.0 s, 6,000.0 times the median", {"attempt": 1, "step": 1}),
    ]


def test_lines_of_the_log_have_the_moments_of_the_steps_however_late_they_are_written(clock, db):
    job = make_job(make_table(), "optimize", state="running")
    JobAttempt.objects.create(job=job, number=1, started_at=timezone.now())
    lease = Lease(job, "light@here", fence=1, attempt=1)
    Job.objects.filter(pk=job.pk).update(worker=lease.worker, fence=lease.fence)
    heartbeat = Heartbeat(lease, clock=clock)
    began = clock.now_ms()
    heartbeat.progress(Progress("read the table", 0, 0))
    clock.pause(0.2)
    heartbeat.progress(Progress("read the table", 0, 0, detail="9 files"))
    clock.pause(0.2)
    heartbeat._beat()  # its thread wakes twice a second
    heartbeat.progress.stages.close()
    ended = clock.now_ms()
    clock.pause(0.4)
    heartbeat._beat()
    lines = list(job.events.values_list("message", "at"))
    assert lines == [
        ("Read the table", utc_from_ms(began)),
        ("Read the table: 9 files, 400 ms", utc_from_ms(ended)),
    ]
