"""A run compared with the last runs of the same statement."""

from datetime import timedelta

import pytest
from django.utils import timezone

from lakeui.jobs.earlier_runs import ENOUGH_TO_TELL_MS, comparison_of
from lakeui.jobs.models import Job, JobAttempt, JobStage
from lakeui.jobs.timeline import cost_of, timeline_of
from lakeui.pages.moments import format_span
from tests.lakeui.factories import make_job, make_table

STATEMENT = "DELETE FROM sales.orders WHERE order_id = 1"
PARAMETERS = {"where": "order_id = 1"}
NOW = timezone.now()


@pytest.fixture
def table(db):
    return make_table()


def run_of(table, hours_ago, *, queue=1, steps=(10, 40), lost=0, **more):
    """Create a run from its time in the queue, the time of a lost attempt, and its two steps."""
    asked = NOW - timedelta(hours=hours_ago)
    began = asked + timedelta(seconds=queue)
    end = began + timedelta(seconds=lost + sum(steps))
    fields = {
        "statement": STATEMENT, "parameters": PARAMETERS, "created_at": asked, "started_at": began,
        "finished_at": end, "attempts": 2 if lost else 1, "metrics": {"numDeletedRows": "100"},
    }  # fmt: skip
    job = make_job(table, "delete", **fields | more)
    at, number = began, 1
    if lost:
        ended = at + timedelta(seconds=lost)
        JobAttempt.objects.create(
            job=job, number=1, started_at=at, finished_at=ended, outcome="conflicted"
        )
        at, number = ended, 2
    attempt = JobAttempt.objects.create(
        job=job, number=number, started_at=at, finished_at=end, outcome="committed",
        bytes_read=1000, bytes_written=500,
    )  # fmt: skip
    for place, (name, took) in enumerate(
        zip(("read the table", "write files"), steps, strict=True)
    ):
        until = at + timedelta(seconds=took)
        JobStage.objects.create(
            attempt=attempt, place=place, name=name, started_at=at, finished_at=until,
            took_ms=took * 1000,
        )  # fmt: skip
        at = until
    return job


def compare_job(job, now=None):
    attempts = list(job.attempt_rows.order_by("number"))
    stages = {attempt.pk: list(attempt.stages.all()) for attempt in attempts}
    return comparison_of(job, timeline_of(job, attempts, stages, now))


def test_a_run_as_long_as_usual_has_nothing_to_explain(table):
    earlier = [run_of(table, hours) for hours in (3, 2, 1)]
    comparison = compare_job(run_of(table, 0.5))
    assert (comparison.verdict, comparison.explains) == ("as usual", None)
    assert [run.job_id for run in comparison.runs] == [job.pk for job in earlier[::-1]]
    assert (comparison.usual_ms, comparison.more_ms) == (51_000, 0)


def test_the_step_that_took_longer_explains_a_slower_run(table):
    for hours in (3, 2, 1):
        run_of(table, hours)
    comparison = compare_job(run_of(table, 0.5, steps=(12, 140)))
    assert (comparison.verdict, comparison.more_ms) == ("slower", 102_000)
    part = comparison.explains
    assert (part.name, part.this_ms, part.usual_ms) == ("write files", 140_000, 40_000)


@pytest.mark.parametrize(
    ("more", "name"), [({"queue": 90}, "queue"), ({"lost": 70}, "wasted attempts")]
)
def test_a_queue_and_a_wasted_attempt_explain_it_too(table, more, name):
    for hours in (3, 2, 1):
        run_of(table, hours)
    comparison = compare_job(run_of(table, 0.5, **more))
    assert (comparison.verdict, comparison.explains.name) == ("slower", name)


def test_a_faster_run_names_the_step_it_saved(table):
    for hours in (3, 2, 1):
        run_of(table, hours)
    comparison = compare_job(run_of(table, 0.5, steps=(10, 5)))
    assert (comparison.verdict, comparison.explains.more_ms) == ("faster", -35_000)


def test_counts_are_held_against_the_median(table):
    for hours in (3, 2, 1):
        run_of(table, hours)
    comparison = compare_job(run_of(table, 0.5, metrics={"numDeletedRows": "250"}))
    rows, read, written, attempts = comparison.measures
    assert (rows.this, rows.usual, rows.times) == (250, 100, 2.5)
    assert (read.name, written.times, attempts.usual) == ("bytes_read", 1.0, 1)


@pytest.mark.parametrize(
    "other",
    [
        {"statement": "DELETE FROM sales.orders WHERE order_id = 2"},
        {"parameters": {"where": "order_id = 1", "retries": 3}},
        {"dry_run": True},
        {"state": Job.State.FAILED},
        {"finished_at": None},
        {"started_at": None},
        {"created_at": NOW + timedelta(hours=1)},
    ],
    ids=lambda other: next(iter(other)),
)
def test_another_statement_an_unlike_run_and_a_later_one_do_not_count(table, other):
    run_of(table, 1, **other)
    assert compare_job(run_of(table, 0.5)) is None


def test_a_run_on_another_table_does_not_count(table):
    run_of(make_table("crm.orders"), 1)
    assert compare_job(run_of(table, 0.5)) is None


def test_a_job_that_has_not_begun_is_compared_with_nothing(table):
    run_of(table, 1)
    waiting = make_job(
        table, "delete", statement=STATEMENT, parameters=PARAMETERS, state=Job.State.QUEUED
    )
    assert compare_job(waiting) is None


@pytest.mark.parametrize(("seconds", "verdict"), [(20, "as usual"), (300, "slower")])
def test_a_job_that_runs_is_slower_once_it_took_longer_and_never_faster(table, seconds, verdict):
    run_of(table, 1)
    running = make_job(
        table, "delete", statement=STATEMENT, parameters=PARAMETERS, state=Job.State.RUNNING,
        created_at=NOW, started_at=NOW,
    )  # fmt: skip
    JobAttempt.objects.create(job=running, number=1, started_at=NOW)
    comparison = compare_job(running, NOW + timedelta(seconds=seconds))
    assert (comparison.verdict, comparison.measures) == (verdict, ())


@pytest.mark.parametrize("state", [Job.State.FAILED, Job.State.CONFLICTED, Job.State.CANCELLED])
def test_a_run_that_did_not_succeed_is_slower_or_not_compared(table, state):
    run_of(table, 1)
    assert compare_job(run_of(table, 0.5, steps=(1, 1), state=state)) is None
    assert compare_job(run_of(table, 0.4, steps=(10, 90), state=state)).verdict == "slower"


def test_an_attempt_took_as_long_in_its_cost_as_in_its_timeline(table):
    """1.4507 s is 1.4 s truncated and 1.5 s rounded: both places must use one rule."""
    job = run_of(table, 1)
    began = job.started_at.replace(microsecond=900)
    job.attempt_rows.update(started_at=began, finished_at=began + timedelta(microseconds=1_450_700))
    [attempt] = job.attempt_rows.all()
    [span] = timeline_of(job, [attempt], {}, NOW).attempts
    assert span.took_ms == cost_of([attempt]).useful.wall_ms == 1451
    assert format_span(attempt.finished_at, attempt.started_at) == "1.5 s"


def test_a_difference_below_a_second_means_nothing(table):
    run_of(table, 1, queue=0, steps=(0, 1))
    almost = run_of(table, 0.5, queue=0, steps=(0, 1))
    Job.objects.filter(pk=almost.pk).update(
        finished_at=almost.finished_at + timedelta(milliseconds=ENOUGH_TO_TELL_MS - 1)
    )
    almost.refresh_from_db()
    assert compare_job(almost).verdict == "as usual"


def test_damaged_metrics_and_runs_without_attempts_are_no_fault(table):
    run_of(table, 2, metrics=["not", "a", "mapping"])
    make_job(
        table, "delete", statement=STATEMENT, parameters=PARAMETERS,
        created_at=NOW - timedelta(hours=1), started_at=NOW - timedelta(hours=1),
        finished_at=NOW - timedelta(minutes=59),
    )  # fmt: skip
    comparison = compare_job(run_of(table, 0.5))
    assert [run.row_count for run in comparison.runs] == [None, None]
    assert comparison.measures[0].name == "bytes_read", "no earlier run told its rows"


def test_queries_do_not_grow_with_the_runs(table, django_assert_num_queries):
    for hours in range(1, 30):
        run_of(table, hours)
    job = run_of(table, 0.5)
    timeline = timeline_of(job, [], {})
    with django_assert_num_queries(3):
        comparison = comparison_of(job, timeline)
    assert len(comparison.runs) == 8
