"""Jobs on rows, in Spark workers: loaded once whatever happens to the worker."""

import os
import signal
from pathlib import Path

import pyarrow as pa
import pytest

from engine.commands.sql import parse_statement
from engine.operations.run import run
from engine.storage.uri import open_store
from engine.table import DeltaTable
from lakeui.catalog.models import Table
from lakeui.catalog.registration import register_table
from lakeui.conflicts.models import Conflict
from lakeui.jobs.models import Job, WorkerReport
from lakeui.jobs.requests import request_create, request_job
from tests.engine.made_tables import write_commit, write_rows
from tests.services import wait_until
from tests.workers.test_job_lifecycle import (
    another_active_job,
    end,
    ended,
    holds,
    sweep_until_requeued,
)

pytestmark = [pytest.mark.spark, pytest.mark.timeout(400)]

SPARK_START_S = 120.0
SCHEMA = (
    '{"type":"struct","fields":['
    '{"name":"id","type":"long","nullable":true,"metadata":{}},'
    '{"name":"country","type":"string","nullable":true,"metadata":{}}]}'
)


@pytest.fixture
def rows(lake) -> dict[str, object]:
    """A CSV of three rows, as a source."""
    path = Path(lake / "uploads/rows.csv")
    path.write_text("id,country\n1,DE\n2,FR\n3,DE\n")
    return {"kind": "files", "uri": str(path), "format": "csv"}


def load(table: Table, source: dict[str, object], **more) -> Job:
    return request_job(
        table=table, kind="append", parameters={"source": source}, requested_by=None, **more
    )


def delete(table: Table, where: str, **more) -> Job:
    return request_job(
        table=table, kind="delete", parameters={"where": where}, requested_by=None, **more
    )


def empty_table(place: Path, name: str) -> Table:
    statement = "CREATE TABLE t (id BIGINT, country STRING)"
    run(parse_statement(statement), DeltaTable(open_store(str(place))), None)
    return register_table(str(place), name)


def stream(table: Table, source: str, **more) -> Job:
    parameters = {"source_table": source}
    return request_job(table=table, kind="stream", parameters=parameters, requested_by=None, **more)


def succeeded(job: Job) -> None:
    job = ended(job)
    assert (job.state, job.error_message) == (Job.State.SUCCEEDED, "")


def ids(table: Table) -> list[int]:
    return sorted(DeltaTable.open(table.uri).snapshot().to_arrow().column("id").to_pylist())


def compared(conflict: Conflict) -> list[tuple[int, int, int, int]]:
    """Of each file that both touched: the rows of either side, those gone before, those of both."""
    names = ("current_count", "winner_count", "gone_before_count", "common_count")
    files = conflict.facts["decision"]["shared_files"]
    return [tuple(each[name] for name in names) for each in files]


def its_steps_and_cost_are_recorded(job: Job) -> None:
    """Of a DELETE: each step once, in order, with what Spark counted of its tasks."""
    attempt = job.attempt_rows.get()
    steps = {each.name: each for each in attempt.stages.all()}
    assert list(steps) == ["read the table", "find rows", "check", "commit"]
    assert steps["read the table"].found == "1 of 1 files"
    found = steps["find rows"]
    assert (found.found, found.unit, found.running) == ("1 file holds a match", "tasks", 0)
    assert 0 < found.done == found.total
    assert found.slowest_ms is not None
    assert all(each.finished_at for each in steps.values())
    assert attempt.core_ms == found.core_ms > 0
    assert attempt.bytes_read == found.bytes_read > 0
    took = sum(each.took_ms for each in steps.values())
    assert 0 < took <= (job.finished_at - job.started_at).total_seconds() * 1000
    assert job.events.filter(message__startswith="Find rows: 1 file holds a match").exists()


def its_worker_reports(queue: str) -> None:
    """Also while it has nothing to do."""
    wait_until(lambda: WorkerReport.objects.filter(queue=queue).exists(), "a report")
    report = WorkerReport.objects.get(queue=queue)
    assert (report.slots, report.executors) == (4, 1)
    assert report.cores > 0


def copies_in_a_stream(table: Table, copy: Table) -> None:
    """Of two runs of one stream one loses; a change of the source's schema stops it."""
    winner = stream(copy, table.name)
    same_stream = stream(copy, table.name, commit_after=winner)
    succeeded(winner)
    lost = ended(same_stream)
    assert (lost.state, lost.error_code) == (Job.State.CONFLICTED, "DELTA_CONCURRENT_TRANSACTION")
    assert ids(copy) == ids(table)

    add_column = parse_statement("ALTER TABLE t ADD COLUMNS (note STRING)")
    run(add_column, DeltaTable.open(table.uri), None)
    stopped = ended(stream(copy, table.name))
    found = (stopped.state, stopped.error_code)
    assert found == (Job.State.FAILED, "DELTA_SCHEMA_CHANGED_WITH_VERSION")


def compacts_what_a_write_leaves(place: Path, source: dict[str, object]) -> None:
    """Forty-nine small files and one that comes: a job of its own joins them."""
    table = empty_table(place, "sales.small")
    store = open_store(str(place))
    rows = pa.table({"id": pa.array([0], pa.int64()), "country": ["ES"]})
    write_commit(store, 1, *(write_rows(store, f"{n}.parquet", rows) for n in range(49)))
    properties = "ALTER TABLE t SET TBLPROPERTIES ('delta.autoOptimize.autoCompact' = 'true')"
    run(parse_statement(properties), DeltaTable.open(table.uri), None)
    write = load(table, source)
    succeeded(write)
    compaction = write.follow_ups.get()
    succeeded(compaction)
    table.refresh_from_db()
    assert (table.file_count, table.row_count, table.last_operation) == (1, 52, "OPTIMIZE")
    compaction.refresh_from_db()
    assert compaction.metrics["numRemovedFiles"] == 50


def test_jobs_create_load_meet_and_survive_their_worker(start_worker, rows, lake):
    first = start_worker("spark", SPARK_START_S)
    its_worker_reports("spark")
    succeeded(
        request_create(
            name="sales.orders", parameters={"schema": SCHEMA, "source": rows}, requested_by=None
        )
    )
    table = Table.objects.get(name="sales.orders")
    assert (table.row_count, ids(table)) == (3, [1, 2, 3])

    winner = delete(table, "id = 1")
    other_rows = delete(table, "id = 2", commit_after=winner)
    succeeded(winner)
    succeeded(other_rows)
    absorbed = Conflict.objects.get(job=other_rows)
    assert (absorbed.kind, compared(absorbed)) == (Conflict.Kind.ABSORBED, [(1, 1, 0, 0)])
    assert ids(table) == [3]

    compacts_what_a_write_leaves(lake / "lake/small", rows)
    copies_in_a_stream(table, empty_table(lake / "lake/copy", "sales.copy"))

    winner = delete(table, "country = 'DE'")
    same_rows = delete(table, "id = 3", commit_after=winner)
    succeeded(winner)
    lost = ended(same_rows)
    assert (lost.state, lost.error_code) == (
        Job.State.CONFLICTED,
        "DELTA_CONCURRENT_DELETE_READ",
    )
    assert compared(Conflict.objects.get(job=lost)) == [(1, 1, 2, 1)]

    blocker = another_active_job(table)
    job = load(table, rows, commit_after=blocker)
    holds(job)
    first.kill()
    sweep_until_requeued(job)
    end(blocker)
    start_worker("spark", SPARK_START_S)
    succeeded(job)
    assert ids(table) == [1, 2, 3]


def test_a_worker_whose_spark_died_says_so_and_ends(start_worker, rows):
    worker = start_worker("spark", SPARK_START_S)
    os.kill(worker.java(), signal.SIGKILL)
    job = ended(
        request_create(
            name="sales.orders", parameters={"schema": SCHEMA, "source": rows}, requested_by=None
        )
    )
    assert job.state == Job.State.FAILED
    assert job.error_message
    wait_until(lambda: not worker.is_running(), "the worker to end")
    assert not Path(job.table.uri, "_delta_log").exists()
