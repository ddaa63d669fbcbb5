"""The timeline of a job: the parts add up, even if some were not recorded."""

from datetime import UTC, datetime, timedelta

import pytest

from lakeui.jobs.models import Job, JobAttempt, JobStage
from lakeui.jobs.timeline import PartKind, timeline_of

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
State, Outcome = Job.State, JobAttempt.Outcome


def moment_at(seconds):
    return None if seconds is None else NOON + timedelta(seconds=seconds)


def job_of(state=State.SUCCEEDED, started=2, finished=60):
    return Job(
        state=state, created_at=NOON, started_at=moment_at(started), finished_at=moment_at(finished)
    )


def attempt_of(number=1, started=2, finished=60, outcome=Outcome.COMMITTED):
    return JobAttempt(
        pk=number,
        number=number,
        started_at=moment_at(started),
        finished_at=moment_at(finished),
        outcome=outcome,
    )


def step_of(name, started, finished, took=None, **more):
    took = finished - started if took is None else took
    return JobStage(
        name=name,
        started_at=moment_at(started),
        finished_at=moment_at(finished),
        took_ms=took * 1000,
        **more,
    )


def list_part_times(timeline):
    return [
        (part.stage.name if part.stage else part.kind.value, part.took_ms // 1000)
        for part in timeline.parts
    ]


def test_queue_steps_and_the_named_rests_add_up_to_the_whole():
    stages = {1: [step_of("read the table", 5, 15), step_of("write files", 20, 57)]}
    timeline = timeline_of(job_of(finished=61), [attempt_of()], stages)
    assert list_part_times(timeline) == [
        ("queue", 2), ("take", 3), ("read the table", 10), ("write files", 37), ("between", 5),
        ("end", 3), ("end", 1),
    ]  # fmt: skip
    assert sum(part.took_ms for part in timeline.parts) == timeline.total_ms == 61_000
    assert timeline.excess_ms == 0


def test_moments_of_parts_of_a_millisecond_add_up_too():
    started, finished = NOON + timedelta(microseconds=600), NOON + timedelta(microseconds=2400)
    job = Job(
        state=State.SUCCEEDED, created_at=NOON, started_at=started, finished_at=moment_at(0.0031)
    )  # fmt: skip
    attempt = JobAttempt(pk=1, number=1, started_at=started, finished_at=finished)
    timeline = timeline_of(job, [attempt], {})
    assert sum(part.took_ms for part in timeline.parts) == timeline.total_ms == 3


@pytest.mark.parametrize(
    ("since", "until", "parts"),
    [
        (4, 9, [("queue", 4), ("session", 5), ("queue", 1)]),
        (-30, 9, [("session", 9), ("queue", 1)]),
        (4, 99, [("queue", 4), ("session", 6), ("queue", 0)]),
        (None, None, [("queue", 10)]),
    ],
    ids=["while it waited", "since before", "another clock", "ready before"],
)
def test_the_start_of_spark_is_a_part_of_the_time_in_the_queue(since, until, parts):
    attempt = attempt_of(started=10)
    attempt.session_from, attempt.session_until = moment_at(since), moment_at(until)
    timeline = timeline_of(job_of(started=10), [attempt], {})
    assert list_part_times(timeline) == [*parts, ("unrecorded", 50)]
    assert sum(part.took_ms for part in timeline.parts) == timeline.total_ms


def test_the_start_of_spark_is_that_of_the_worker_which_took_the_job_first():
    attempt = attempt_of(2, started=10)
    attempt.session_from, attempt.session_until = moment_at(0), moment_at(5)
    assert list_part_times(timeline_of(job_of(started=10), [attempt], {}))[0] == ("queue", 10)


def test_the_time_between_two_attempts_is_named_by_why_the_first_ended():
    attempts = [
        attempt_of(1, 2, 10, Outcome.CONFLICTED),
        attempt_of(2, 13, 20, Outcome.LOST),
        attempt_of(3, 50, 60),
    ]
    timeline = timeline_of(job_of(), attempts, {})
    assert list_part_times(timeline) == [
        ("queue", 2), ("unrecorded", 8), ("wait", 3), ("unrecorded", 7), ("requeue", 30),
        ("unrecorded", 10),
    ]  # fmt: skip
    assert [span.took_ms for span in timeline.attempts] == [8000, 7000, 10_000]


def test_a_step_with_pauses_counts_its_own_turns_only():
    stages = {1: [step_of("read", 2, 40, took=8), step_of("compact", 4, 60, took=50)]}
    timeline = timeline_of(job_of(), [attempt_of()], stages)
    assert list_part_times(timeline) == [("queue", 2), ("read", 8), ("compact", 50)]


def test_a_job_that_waits_is_all_queue_until_now():
    timeline = timeline_of(job_of(State.QUEUED, None, None), [], {}, now=moment_at(30))
    (part,) = timeline.parts
    assert (part.kind, part.took_ms, part.is_open) == (PartKind.QUEUE, 30_000, True)


def test_a_job_that_was_cancelled_in_the_queue_never_left_it():
    timeline = timeline_of(job_of(State.CANCELLED, None, 9), [], {}, now=moment_at(9000))
    (part,) = timeline.parts
    assert (part.kind, part.took_ms, part.is_open) == (PartKind.QUEUE, 9000, False)


def test_the_running_step_lasts_until_now():
    stages = {1: [step_of("read", 3, 8), step_of("check", 8, None, took=0)]}
    running = attempt_of(finished=None, outcome=Outcome.RUNNING)
    timeline = timeline_of(job_of(State.RUNNING, 2, None), [running], stages, now=moment_at(20))
    assert list_part_times(timeline) == [("queue", 2), ("take", 1), ("read", 5), ("check", 12)]
    assert timeline.parts[-1].is_open
    assert not timeline.attempts[0].is_ended


def test_an_attempt_that_died_without_an_end_lasts_until_the_next_began():
    attempts = [attempt_of(1, 2, None, Outcome.RUNNING), attempt_of(2, 40, 60)]
    stages = {1: [step_of("write", 4, None, took=6)]}
    timeline = timeline_of(job_of(), attempts, stages)
    assert list_part_times(timeline) == [
        ("queue", 2), ("take", 2), ("write", 6), ("end", 30), ("unrecorded", 20),
    ]  # fmt: skip
    assert [span.is_ended for span in timeline.attempts] == [False, True]
    assert not any(part.is_open for part in timeline.parts)


def test_a_requeued_job_waits_until_now():
    lost = attempt_of(1, 2, 10, Outcome.LOST)
    timeline = timeline_of(job_of(State.QUEUED, 2, None), [lost], {}, now=moment_at(25))
    assert list_part_times(timeline) == [("queue", 2), ("unrecorded", 8), ("requeue", 15)]
    assert timeline.parts[-1].is_open


@pytest.mark.parametrize(
    ("attempt", "stages"),
    [
        (attempt_of(1, -30, -20), []),
        (attempt_of(1, 2, 1), [step_of("write", 5, 3, took=-2)]),
        (attempt_of(1, 2, 60), [step_of("write", 200, 300)]),
        (attempt_of(1, 2, 60), [step_of("write", -100, -50)]),
    ],
    ids=["before its job", "ends before it begins", "after its attempt", "before its attempt"],
)
def test_clocks_that_run_backwards_leave_no_part_below_nothing(attempt, stages):
    timeline = timeline_of(job_of(), [attempt], {1: stages})
    assert all(part.took_ms >= 0 for part in timeline.parts)
    assert all(part.ended_at >= part.started_at for part in timeline.parts)
    total = sum(part.took_ms for part in timeline.parts)
    assert total == timeline.total_ms + timeline.excess_ms


def test_steps_longer_than_their_attempt_are_marked():
    timeline = timeline_of(job_of(), [attempt_of()], {1: [step_of("write", 2, 60, took=90)]})
    assert timeline.excess_ms == 32_000


def test_a_job_without_attempts_says_that_nothing_was_recorded():
    assert list_part_times(timeline_of(job_of(), [], {})) == [("queue", 2), ("unrecorded", 58)]
    unended = job_of(State.FAILED, 2, None)
    assert timeline_of(unended, [], {}, now=moment_at(999)).total_ms == 2000


def test_attempts_beyond_those_that_are_listed_are_one_part():
    timeline = timeline_of(job_of(), [attempt_of(9, 40, 60)], {})
    assert list_part_times(timeline) == [("queue", 2), ("earlier", 38), ("unrecorded", 20)]
