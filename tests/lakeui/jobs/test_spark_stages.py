"""Spark's stages, as stored in the row of a step and read again."""

from dataclasses import replace
from datetime import UTC, datetime

from lakeui.jobs.models import JobStage
from lakeui.jobs.spark_stages import KEPT, SparkStage, longest, stages_in

STAGE = SparkStage(
    7, 1, "failed", 1_790_000_000_500, 1_790_000_001_000, 8, 6, 2, 900, 1, 2, 3, 4, 5
)


def test_a_stage_is_read_as_it_was_written():
    assert SparkStage.from_row(STAGE.to_row()) == STAGE


def test_usual_values_take_no_space():
    assert SparkStage(7, tasks=2, done=2).to_row() == {"stage_id": 7, "tasks": 2, "done": 2}


def test_a_stage_says_when_it_ran_and_how_long():
    assert STAGE.started_at == datetime(2026, 9, 21, 14, 13, 20, 500_000, UTC)
    assert STAGE.took_ms == 500
    runs = replace(STAGE, ended_ms=None)
    assert (runs.ended_at, runs.took_ms) == (None, None)
    assert replace(STAGE, ended_ms=1).took_ms == 0


def test_stages_of_another_version_are_read_as_far_as_known():
    rows = [{"stage_id": 9, "mood": "good"}, "no stage", {"tasks": 4}, {"stage_id": 8}]
    assert [stage.stage_id for stage in stages_in(JobStage(spark_stages=rows))] == [8, 9]
    assert stages_in(JobStage(spark_stages={"stage_id": 1})) == []


def test_the_longest_are_kept_in_the_order_in_which_they_began():
    many = [SparkStage(n, started_ms=n, core_ms=n % 50) for n in range(100)]
    kept = longest(many)
    assert [stage.stage_id for stage in kept] == [n for n in range(100) if n % 50 >= 50 - KEPT // 2]
