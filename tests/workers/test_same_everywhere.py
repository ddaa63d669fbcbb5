"""A write's duration and size are the same on every page; the bytes are those of the log's metrics."""

import csv
import json
from datetime import timedelta
from io import StringIO

import pytest
from django.contrib.auth.models import User

from engine.schema.types import LONG, StructField, StructType
from engine.table import DeltaTable
from lakeui.catalog.models import Commit, Table
from lakeui.catalog.registration import register_table
from lakeui.jobs import leases
from lakeui.jobs.models import Job, JobAttempt
from lakeui.jobs.requests import request_job
from lakeui.jobs.timeline import span_ms
from lakeui.pages.jobs.run_steps import steps_of
from workers.job_run import run_attempt

pytestmark = pytest.mark.django_db(transaction=True)

SCHEMA = StructType((StructField("n", LONG), StructField("m", LONG)))
STATEMENTS = (
    "INSERT INTO t VALUES (1, 1), (2, 2), (3, 3)",
    "INSERT INTO t VALUES (4, 4), (5, 5), (6, 6)",
    "DELETE FROM t WHERE n = 2",
    "UPDATE t SET m = 9 WHERE n = 5",
    "MERGE INTO t USING (VALUES (3, 7), (8, 8)) AS s (n, m) ON t.n = s.n"
    " WHEN MATCHED THEN UPDATE SET m = s.m WHEN NOT MATCHED THEN INSERT (n, m) VALUES (s.n, s.m)",
    "DELETE FROM t WHERE n < 100",
    "RESTORE TABLE t TO VERSION AS OF 2",
    "RESTORE TABLE t TO VERSION AS OF 4",
    "TRUNCATE TABLE t",
)
_WRITTEN = ("numOutputBytes", "numAddedBytes", "numTargetBytesAdded")
_REMOVED = ("numRemovedBytes", "numTargetBytesRemoved", "removedFilesSize")

_OTHERWISE = ("TRUNCATE", "RESTORE")
"""Delta's metrics of TRUNCATE tell no bytes, those of RESTORE call restated files removed."""


@pytest.fixture(params=["true", "false"], ids=["with vectors", "without vectors"])
def table(request, lake) -> Table:
    """Return a table with a version of each kind, each made by a job without Spark."""
    uri = str(lake / "lake/orders")
    properties = {"delta.enableDeletionVectors": request.param}
    DeltaTable.create(uri, SCHEMA, properties=properties)
    table = register_table(uri, "sales.orders")
    for statement in STATEMENTS:
        job = request_job(table=table, sql=statement, requested_by=None)
        lease = leases.claim(job.pk, "light@here")
        assert lease is not None
        run_attempt(lease)
        job.refresh_from_db()
        assert (job.state, job.error_message) == (Job.State.SUCCEEDED, "")
    _let_the_second_overlap_with_the_first(table)
    table.refresh_from_db()
    return table


def _let_the_second_overlap_with_the_first(table: Table) -> None:
    """Change the mirror so that the second version overlapped with the first."""
    second = table.commits.get(version=2)
    second.raw = second.raw.replace('"readVersion":1', '"readVersion":0')
    second.read_version = 0
    second.save()


@pytest.fixture
def viewer(client):
    client.force_login(User.objects.create_superuser("eve"))
    return client


def _metric(commit: Commit, names: tuple[str, ...]) -> int:
    """Return a metric from the log, not from the mirror; 0 if its operation has none."""
    text = (DeltaTable.open(commit.table.uri).store).read(f"_delta_log/{commit.version:020}.json")
    (info,) = (
        line["commitInfo"] for line in map(json.loads, text.splitlines()) if "commitInfo" in line
    )
    metrics = info.get("operationMetrics", {})
    return sum(int(metrics[name]) for name in names if name in metrics)


def _commits(table: Table) -> dict[int, Commit]:
    return {commit.version: commit for commit in table.commits.all()}


def test_every_page_shows_the_bytes_of_the_log(table, viewer):
    commits = _commits(table)
    written = {version: _metric(commit, _WRITTEN) for version, commit in commits.items()}
    removed = {version: _metric(commit, _REMOVED) for version, commit in commits.items()}
    assert len(commits) == len(STATEMENTS) + 1
    assert sum(written.values()) > 0
    for version in commits:
        one = viewer.get(f"/api/v1/tables/{table.pk}/versions/{version}/").json()
        assert int(one["bytes_written"]) == written[version]
        if commits[version].operation not in _OTHERWISE:
            assert int(one["bytes_removed"]) == removed[version]
    listed = viewer.get(f"/api/v1/tables/{table.pk}/versions/").json()["items"]
    assert {row["version"]: int(row["bytes_written"]) for row in listed} == written
    page = viewer.get(f"/tables/{table.pk}/history/?export=csv").getvalue().decode()
    rows = csv.DictReader(StringIO(page))
    assert {int(row["version"]): int(row["bytes_written"]) for row in rows} == written
    last = max(commits)
    between = viewer.get(f"/api/v1/tables/{table.pk}/diff/0...{last}/").json()
    assert int(between["bytes_written"]) == sum(written.values())
    assert int(between["bytes_added"]) - int(between["bytes_removed"]) == table.size_bytes
    replayed = viewer.get(f"/api/v1/tables/{table.pk}/what-if/?level=Serializable").json()
    costs = {row["version"]: int(row["cost_bytes"]) for row in replayed["overlaps"]}
    assert costs == {2: written[2]}
    for attempt in JobAttempt.objects.select_related("job"):
        version = attempt.job.committed_version
        assert version is not None
        assert attempt.bytes_written == written[version]


def test_every_page_shows_the_same_duration_of_a_write_and_its_steps_add_up(table, viewer):
    replayed = viewer.get(f"/api/v1/tables/{table.pk}/what-if/?level=Serializable").json()
    costs = {row["version"]: int(row["cost_ms"]) for row in replayed["overlaps"]}
    drawn = viewer.get(f"/api/v1/tables/{table.pk}/concurrency/").json()
    bars = {bar["version"]: bar["took_ms"] for bar in drawn["bars"] if bar["job_id"]}
    jobs = {job.committed_version: job for job in Job.objects.all()}
    assert len(jobs) == len(bars) == len(STATEMENTS)
    for version, job in jobs.items():
        attempt = job.attempt_rows.get()
        took = span_ms(attempt.started_at, attempt.finished_at)
        assert (attempt.started_at, attempt.finished_at) == (job.started_at, job.finished_at)
        assert (costs.get(version, took), bars[version]) == (took, took)
        (wall, *_) = viewer.get(f"/jobs/{job.pk}/").context["cost_lines"]
        assert wall.useful == took
        steps = viewer.get(f"/jobs/{job.pk}/").context["steps"]
        assert [step.name for step in steps][:2] == ["Queue", "Start"]
        assert abs(sum(step.took_ms for step in steps[1:]) - took) <= 50
    assert set(costs) == {2}


def test_time_that_no_step_took_is_named(table):
    job = Job.objects.latest("created_at")
    attempt = job.attempt_rows.get()
    attempt.started_at -= timedelta(seconds=4)
    steps = steps_of(job, attempt, list(attempt.stages.all()), [])
    took = span_ms(attempt.started_at, attempt.finished_at)
    assert (steps[-1].name, steps[-1].took_ms >= 4000) == ("Other", True)
    assert sum(step.took_ms or 0 for step in steps[1:]) == took
