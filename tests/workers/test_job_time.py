"""The time of real jobs on Spark: every part has a name, and the parts add up."""

import json
from datetime import timedelta

import pytest
from django.utils import timezone

from engine.schema.types import LONG, StructField, StructType
from engine.table import DeltaTable
from lakeui.catalog.models import Table
from lakeui.catalog.registration import register_table
from lakeui.jobs import leases
from lakeui.jobs.models import Job, JobStage
from lakeui.jobs.requests import request_job
from lakeui.jobs.spark_stages import stages_in
from lakeui.jobs.timeline import JobTimeline, PartKind, timeline_of
from tests.engine.conftest import spark  # noqa: F401 - a fixture
from workers import spark_session
from workers.job_run import run_attempt

pytestmark = [
    pytest.mark.spark,
    pytest.mark.timeout(240),
    pytest.mark.django_db(transaction=True),
]


@pytest.fixture
def table(lake) -> Table:
    uri = str(lake / "lake/orders")
    DeltaTable.create(uri, StructType((StructField("id", LONG),)))
    return register_table(uri, "sales.orders")


@pytest.fixture
def here(spark, monkeypatch):  # noqa: F811
    """Give this process a Spark, as a Spark worker has."""
    monkeypatch.setattr(spark_session._SessionHolder, "session", spark)
    monkeypatch.setattr(
        spark_session._SessionHolder, "application", spark.sparkContext.applicationId
    )
    return spark


def ran(table: Table, **more) -> Job:
    job = request_job(table=table, requested_by=None, **more)
    lease = leases.claim(job.pk, "spark@here")
    assert lease is not None
    run_attempt(lease)
    job.refresh_from_db()
    assert (job.state, job.error_message) == (Job.State.SUCCEEDED, "")
    return job


def timeline_of_job(job: Job) -> JobTimeline:
    attempts = list(job.attempt_rows.all())
    stages = {attempt.pk: list(attempt.stages.order_by("place")) for attempt in attempts}
    return timeline_of(job, attempts, stages)


@pytest.mark.parametrize("kind", ["csv", "json"])
def test_a_load_with_an_inferred_schema_adds_up_to_its_time_by_named_parts(here, table, lake, kind):
    rows = [{"id": n, "added": f"2026-11-{n % 28 + 1:02}"} for n in range(500)]
    if kind == "csv":
        text = "id,added\n" + "".join(f"{row['id']},{row['added']}\n" for row in rows)
    else:
        text = "".join(json.dumps(row) + "\n" for row in rows)
    (lake / f"uploads/rows.{kind}").write_text(text)
    source = {"kind": "files", "uri": str(lake / f"uploads/rows.{kind}"), "format": kind}
    job = ran(table, kind="append", parameters={"source": source, "merge_schema": True})

    timeline = timeline_of_job(job)
    named = {
        part.stage.name if part.stage else part.kind.value: part.took_ms for part in timeline.parts
    }
    whole = (job.finished_at - job.created_at).total_seconds() * 1000
    assert sum(named.values()) == timeline.total_ms
    assert abs(timeline.total_ms - whole) <= 1
    assert timeline.excess_ms == 0
    assert {"queue", "start", "read the source", "infer the schema", "write files", "sync"} <= set(
        named
    )
    unnamed = sum(named.get(kind.value, 0) for kind in (PartKind.BETWEEN, PartKind.UNRECORDED))
    assert unnamed <= 20  # each moment is written down in whole milliseconds
    assert named["infer the schema"] > 0
    inferring = JobStage.objects.get(attempt__job=job, name="infer the schema")
    assert [stage.rows_read for stage in stages_in(inferring) if stage.rows_read] == []


def test_a_job_that_was_requested_while_spark_started_says_so(here, table, lake, monkeypatch):
    path = lake / "uploads/rows.csv"
    path.write_text("id\n1\n")
    source = {"kind": "files", "uri": str(path), "format": "csv"}
    now = timezone.now()
    monkeypatch.setattr(
        spark_session._SessionHolder,
        "started",
        (now - timedelta(seconds=9), now + timedelta(hours=1)),
    )
    early = ran(table, kind="append", parameters={"source": source})
    parts = timeline_of_job(early).parts
    assert parts[0].kind == PartKind.SESSION
    assert parts[0].ended_at == early.started_at
    monkeypatch.setattr(spark_session._SessionHolder, "started", (now - timedelta(seconds=9), now))
    later = ran(table, kind="append", parameters={"source": source})
    assert PartKind.SESSION not in {part.kind for part in timeline_of_job(later).parts}


def test_the_steps_of_a_job_say_which_stages_spark_ran_for_them(here, table, lake):
    path = lake / "uploads/rows.csv"
    path.write_text("id\n" + "".join(f"{n}\n" for n in range(500)))
    source = {"kind": "files", "uri": str(path), "format": "csv"}
    job = ran(table, kind="append", parameters={"source": source})
    attempt = job.attempt_rows.get()
    assert attempt.spark_application == here.sparkContext.applicationId
    step = attempt.stages.get(name="write files")
    stages = stages_in(step)
    assert step.spark_stage_count == len(stages) > 0
    assert sum(stage.tasks for stage in stages) == step.total
    assert sum(stage.core_ms for stage in stages) == step.core_ms
    for stage in stages:
        assert step.started_at <= stage.started_at <= stage.ended_at <= step.finished_at
    assert any(row.get("rows_read") == 1 for row in step.spark_stages), "the number of the file"
    assert {stage.rows_read for stage in stages} <= {None, 0, 500}
    assert [other.spark_stages for other in attempt.stages.exclude(pk=step.pk)].count([]) >= 3
