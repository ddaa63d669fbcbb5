"""Jobs on rows, in Spark workers: applied once, whatever happens to the worker."""

from collections import Counter
from collections.abc import Callable
from itertools import cycle
from pathlib import Path

import pyarrow as pa
import pytest
from django.contrib.auth.models import User
from django.db import transaction
from rest_framework.test import APIClient

from engine.commands.sql import parse_statement
from engine.operations.run import run
from engine.storage.uri import open_store
from engine.table import DeltaTable
from lakeui.catalog.models import Table
from lakeui.catalog.registration import register_table
from lakeui.conflicts.models import Conflict
from lakeui.jobs.cancel_retry import cancel_job
from lakeui.jobs.models import Job, JobAttempt, JobStage, WorkerReport
from lakeui.jobs.requests import request_create, request_job
from tests.engine.made_tables import write_commit, write_rows
from tests.engine.operations.own_names import FORMS, ROWS, SHADOWS
from tests.services import WorkerProcess, wait_until
from tests.shares import share
from tests.workers.test_job_lifecycle import (
    another_active_job,
    end,
    holds,
    sweep_until_requeued,
    wait_for_end,
)
from workers.periodic_tasks import sweep_leases

pytestmark = [pytest.mark.spark, pytest.mark.timeout(400)]

SPARK_START_S = 120.0
SCHEMA = (
    '{"type":"struct","fields":['
    '{"name":"id","type":"long","nullable":true,"metadata":{}},'
    '{"name":"country","type":"string","nullable":true,"metadata":{}}]}'
)


@pytest.fixture
def rows(lake) -> dict[str, object]:
    """Write a CSV file of three rows as a source."""
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


def two_that_meet(
    table: Table, first: str, second: str, send: Callable[..., Job] = delete
) -> tuple[Job, Job]:
    """Send a DELETE and another write together; the other commits after the DELETE has."""
    with transaction.atomic():
        winner = delete(table, first)
        return winner, send(table, second, commit_after=winner)


def update(table: Table, where: str, **more) -> Job:
    parameters = {"assignments": {"country": "'FR'"}, "where": where}
    return request_job(table=table, kind="update", parameters=parameters, requested_by=None, **more)


def empty_table(place: Path, name: str) -> Table:
    statement = "CREATE TABLE t (id BIGINT, country STRING)"
    run(parse_statement(statement), DeltaTable(open_store(str(place))), None)
    return register_table(str(place), name)


def stream(table: Table, source: str, **more) -> Job:
    parameters = {"source_table": source}
    return request_job(table=table, kind="stream", parameters=parameters, requested_by=None, **more)


def expect_success(job: Job) -> None:
    job = wait_for_end(job)
    assert (job.state, job.error_message) == (Job.State.SUCCEEDED, "")


def ids(table: Table) -> list[int]:
    return sorted(DeltaTable.open(table.uri).snapshot().to_arrow().column("id").to_pylist())


def list_shared_counts(conflict: Conflict) -> list[tuple[int, int, int, int]]:
    """Return, for each shared file, the rows of either side, those deleted before, and those of both."""
    names = ("current_count", "winner_count", "gone_before_count", "common_count")
    files = conflict.facts["decision"]["shared_files"]
    return [tuple(file[name] for name in names) for file in files]


def its_worker_reports(queue: str) -> None:
    """The worker reports while idle too; its Spark's own pages are served only if enabled."""
    told = WorkerReport.objects.filter(queue=queue, cores__gt=0)
    wait_until(told.exists, "a report of a Spark that has started")
    report = WorkerReport.objects.get(queue=queue)
    assert (report.slots, report.executors, report.spark_ui) == (4, 1, "")


def copies_in_a_stream(table: Table, copy: Table) -> None:
    """Of two runs of one stream, one is aborted; a change of the source's schema stops the stream."""
    winner = stream(copy, table.name)
    same_stream = stream(copy, table.name, commit_after=winner)
    expect_success(winner)
    lost = wait_for_end(same_stream)
    assert (lost.state, lost.error_code) == (Job.State.CONFLICTED, "DELTA_CONCURRENT_TRANSACTION")
    assert ids(copy) == ids(table)

    add_column = parse_statement("ALTER TABLE t ADD COLUMNS (note STRING)")
    run(add_column, DeltaTable.open(table.uri), None)
    stopped = wait_for_end(stream(copy, table.name))
    ending = (stopped.state, stopped.error_code)
    assert ending == (Job.State.FAILED, "DELTA_SCHEMA_CHANGED_WITH_VERSION")


def compacts_what_a_write_leaves(place: Path, source: dict[str, object]) -> None:
    """A write adds one small file to forty-nine, and a separate job compacts them."""
    table = empty_table(place, "sales.small")
    store = open_store(str(place))
    rows = pa.table({"id": pa.array([0], pa.int64()), "country": ["ES"]})
    write_commit(store, 1, *(write_rows(store, f"{n}.parquet", rows) for n in range(49)))
    properties = "ALTER TABLE t SET TBLPROPERTIES ('delta.autoOptimize.autoCompact' = 'true')"
    run(parse_statement(properties), DeltaTable.open(table.uri), None)
    write = load(table, source)
    expect_success(write)
    compaction = write.follow_ups.get()
    expect_success(compaction)
    table.refresh_from_db()
    assert (table.file_count, table.row_count, table.last_operation) == (1, 52, "OPTIMIZE")
    compaction.refresh_from_db()
    assert compaction.metrics["numRemovedFiles"] == 50


_SPELLINGS = (("t", "t"), ("sales.own", "Sales.`own`"), ("t", "sales.own"))
"""How a statement calls the job's table, and how its queries do."""


def read_their_own_table(directory: Path, ada: User) -> None:
    """Check that a job's statement reads its own table, whichever other tables have its name."""

    def create(place: str, name: str, rows: object) -> Table:
        made = DeltaTable(open_store(str(directory / place)))
        run("CREATE TABLE t (id BIGINT, v STRING)", made)
        run(f"INSERT INTO t VALUES {rows}", made)  # noqa: S608 - of this module
        return register_table(str(directory / place), name)

    decoys = [create(f"decoy {name}", name, "(1, 'DECOY')") for name in ("t", "own")]
    table = create("own", "sales.own", ", ".join(map(str, ROWS)))
    caller, first = APIClient(), table.version
    caller.force_login(ada)
    forms = zip(share(3, (FORMS | SHADOWS).items()), cycle(_SPELLINGS), strict=False)
    for number, ((form, rows), (own, read)) in enumerate(forms):
        statement = form.format(t=own, r=read)
        if number % 2:
            job = request_job(table=table, sql=statement, requested_by=ada)
        else:
            path = f"/api/v1/tables/{table.pk}/jobs/"
            answer = caller.post(path, {"sql": statement}, format="json")
            assert answer.status_code in {201, 202}, (statement, answer.json())
            job = Job.objects.get(pk=answer.json()["id"])
        expect_success(job)
        opened = DeltaTable.open(table.uri)
        left = [(row["id"], row["v"]) for row in opened.snapshot().to_arrow().to_pylist()]
        assert sorted(left) == rows, statement
        run(f"RESTORE TABLE t TO VERSION AS OF {first}", opened)
    assert {DeltaTable.open(decoy.uri).version() for decoy in decoys} == {1}


def spares_what_a_script_staged(orders: Table, people: Table) -> None:
    """The script's job belongs to another table, and its worker is not the process that vacuums."""
    blocker = another_active_job(orders)
    steps = "INSERT INTO sales.people VALUES (7, 'DE'); DELETE FROM sales.orders WHERE id = 0"
    script = request_job(table=orders, sql=steps, requested_by=None, commit_after=blocker)
    holds(script)
    staged = set(Path(people.uri).glob("*.parquet"))
    vacuum = "VACUUM sales.people RETAIN 0 HOURS WITH ('overrideRetention' = 'true')"
    spared = request_job(table=people, sql=vacuum, requested_by=None)
    expect_success(spared)
    assert staged == set(Path(people.uri).glob("*.parquet")) != set()
    end(blocker)
    expect_success(script)
    assert ids(people) == [7]


def test_jobs_create_load_meet_and_survive_their_worker(start_worker, rows, lake, ada):
    first = start_worker("spark", SPARK_START_S)
    its_worker_reports("spark")
    read_their_own_table(lake / "lake", ada)
    expect_success(
        request_create(
            name="sales.orders", parameters={"schema": SCHEMA, "source": rows}, requested_by=None
        )
    )
    table = Table.objects.get(name="sales.orders")
    assert (table.row_count, ids(table)) == (3, [1, 2, 3])

    winner, other_rows = two_that_meet(table, "id = 1", "id = 2")
    expect_success(winner)
    expect_success(other_rows)
    resolved = Conflict.objects.get(job=other_rows)
    assert (resolved.kind, list_shared_counts(resolved)) == (Conflict.Kind.RESOLVED, [(1, 1, 0, 0)])
    assert ids(table) == [3]

    compacts_what_a_write_leaves(lake / "lake/small", rows)
    copies_in_a_stream(table, empty_table(lake / "lake/copy", "sales.copy"))

    winner, same_rows = two_that_meet(table, "country = 'DE'", "id = 3", update)
    expect_success(winner)
    lost = wait_for_end(same_rows)
    assert (lost.state, lost.error_code) == (
        Job.State.CONFLICTED,
        "DELTA_CONCURRENT_DELETE_READ",
    )
    assert list_shared_counts(Conflict.objects.get(job=lost)) == [(1, 1, 2, 1)]

    blocker = another_active_job(table)
    job = load(table, rows, commit_after=blocker)
    holds(job)
    first.kill()
    sweep_until_requeued(job)
    end(blocker)
    start_worker("spark", SPARK_START_S)
    expect_success(job)
    assert ids(table) == [1, 2, 3]


def counts_for_some_seconds(into: Table) -> Job:
    """Start a job that joins ten rows to ten million and writes one; Spark is at work when this returns."""
    query = "SELECT count(*) AS id, max(n0.country) AS country FROM sales.orders AS n0"
    query += "".join(f" CROSS JOIN sales.orders AS n{number}" for number in range(1, 7))
    query += " WHERE n0.id + n1.id + n2.id + n3.id + n4.id + n5.id + n6.id <> 1000"
    job = load(into, {"kind": "query", "query": query})
    at_it = JobStage.objects.filter(attempt__job=job, running__gt=0)
    wait_until(at_it.exists, "Spark to count")
    return job


def heeds_no_interrupt(texts: Table) -> Job:
    """Start a job that compares bytes of one row for minutes; Spark is at work when this returns."""
    store = open_store(texts.uri)
    row = {"id": [1], "country": ["a" * 3_000_000]}
    write_commit(store, 1, write_rows(store, "long.parquet", row))
    job = delete(texts, "contains(country, concat(substring(country, 1, 1500000), 'b'))")
    at_it = JobStage.objects.filter(attempt__job=job, running__gt=0)
    wait_until(at_it.exists, "Spark to compare")
    return job


def lose_their_jvm(worker: WorkerProcess, orders: Table, people: Table, texts: Table) -> list[Job]:
    """The jobs are the running one, one that has staged everything, and those queued after it.

    Their Spark is ended with the task of another job, which was cancelled and would not stop.
    """
    values = [[str(number), "'DE'"] for number in range(10)]
    for table in (orders, people):
        expect_success(load(table, {"kind": "rows", "rows": values}))
    blocker = another_active_job(people)
    beside = delete(people, "id = 0", commit_after=blocker)
    holds(beside)
    deaf = heeds_no_interrupt(texts)
    job = counts_for_some_seconds(people)
    cancel_job(deaf, None)
    assert wait_for_end(deaf).state == Job.State.CANCELLED
    assert deaf.events.filter(level="warning", message__contains="ignore the interrupt").exists()
    later = [load(people, {"kind": "rows", "rows": [row]}) for row in values[:2]]
    lost = job.attempt_rows.filter(outcome=JobAttempt.Outcome.LOST)
    wait_until(lost.exists, "the job to be handed back")
    assert "Spark" in lost.get().message
    end(blocker)
    wait_until(lambda: not worker.is_running(), "the worker to end", 60)
    assert not Job.objects.filter(state__in=(Job.State.FAILED, *Job.AT_WORK)).exists()
    return [job, beside, *later]


@pytest.mark.stress
def test_files_staged_by_a_script_and_jobs_whose_jvm_is_killed_are_not_lost(
    start_worker, lake, monkeypatch
):
    monkeypatch.setenv("SPARK_TASK_KILL_SECONDS", "2")
    monkeypatch.setenv("IN_PROCESS_BYTES", "0")
    first = start_worker("spark", SPARK_START_S)
    start_worker("light")
    names = ("orders", "people", "texts")
    orders, people, texts = (empty_table(lake / f"lake/{name}", f"sales.{name}") for name in names)
    spares_what_a_script_staged(orders, people)
    jobs = lose_their_jvm(first, orders, people, texts)

    second = start_worker("spark", SPARK_START_S)
    sweep_leases()
    for job in jobs:
        expect_success(job)
    landed = Counter(info.txn_id for info in DeltaTable.open(people.uri).history())
    assert [landed[str(job.txn_id)] for job in jobs] == [1] * len(jobs)
    assert ids(people) == sorted([7, *range(1, 10), 10**7, 0, 1])

    second.kill_java()
    wait_until(lambda: not second.is_running(), "a worker that has nothing to do to end too", 60)
