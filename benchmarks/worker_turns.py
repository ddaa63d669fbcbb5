"""The turns of `worker_jobs`: workers and bare sessions started, jobs and statements done."""

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import pyarrow as pa
from deltalake import write_deltalake

from benchmarks.measuring import Comparison, seconds
from engine.commands.sql import parse_statement
from engine.operations.run import run
from engine.table import DeltaTable
from lakeui.catalog.registration import register_table
from lakeui.jobs.models import Job
from lakeui.jobs.requests import request_job
from tests.services import CLOCK, WorkerProcess, point_celery_to, running_redis, wait_until

_STARTS, _JOBS, _WARM_UP = 6, 40, 5
_LOOK_S = 0.002
_BARE = (
    "from pyspark.sql import SparkSession\n"
    "SparkSession.builder.master('local[2]').getOrCreate().range(1).count()\n"
)


def measured(scratch: Path) -> list[Comparison]:
    """The rows that jobs left are those that the library left."""
    by_jobs, by_library = (_filled(scratch / name) for name in ("by-jobs", "by-library"))
    (first, *starts), (_, *bare), jobs = _by_jobs(by_jobs, scratch)
    library = [_by_library(by_library, key) for key in range(_STARTS + _JOBS)]
    assert _ids(by_jobs) == _ids(by_library)  # noqa: S101
    job, statement = median(jobs[_WARM_UP:]), median(library[_STARTS + _WARM_UP :])
    return [
        Comparison(
            f"B16 a worker's start to its first job done ({_spread(starts)} and {_spread(bare)};"
            f" the first one on a machine {first:.1f})",
            median(starts),
            "a bare Spark session's to its first task done",
            median(bare),
            "s",
        ),
        Comparison(
            "B16 DELETE of one row as a job, warm, from its request until it has succeeded"
            f" ({_spread(jobs[_WARM_UP:])})",
            job,
            "by the library",
            statement,
            "s",
        ),
    ]


def _by_jobs(place: Path, scratch: Path) -> tuple[list[float], list[float], list[float]]:
    """Seconds of each worker's start, of each bare session's, and of each job after them."""
    table = register_table(str(place))
    starts, bare = [], []

    def ask(key: int) -> Job:
        where = {"where": f"id = {key}"}
        return request_job(table=table, kind="delete", parameters=where, requested_by=None)

    with running_redis() as url:
        point_celery_to(url)
        for number in range(_STARTS):
            bare.append(seconds(_bare_session))
            job, began = ask(number), time.perf_counter()
            worker = WorkerProcess("spark", url, scratch / f"worker-{number}.log")
            starts.append(_ended(job) - began)
            if number == 0:  # it leaves Spark's classes to the next ones
                worker.signal(signal.SIGTERM)
                wait_until(lambda worker=worker: not worker.is_running(), "the worker to end")
            if number + 1 < _STARTS:
                worker.kill()
        keys = range(_STARTS, _STARTS + _JOBS)
        jobs = [_took(lambda key=key: _ended(ask(key))) for key in keys]
        worker.kill()
    return starts, bare, jobs


def _took(until: Callable[[], float]) -> float:
    began = time.perf_counter()
    return until() - began


def _ended(job: Job) -> float:
    """When the job was seen to have succeeded."""
    while Job.objects.filter(pk=job.pk, state__in=Job.ACTIVE).exists():
        CLOCK.pause(_LOOK_S)
    ended = time.perf_counter()
    job.refresh_from_db()
    assert job.state == Job.State.SUCCEEDED, job.error_message  # noqa: S101
    return ended


def _bare_session() -> None:
    command = [sys.executable, "-c", _BARE]
    subprocess.run(command, check=True, capture_output=True, timeout=120)  # noqa: S603 - ourselves


def _by_library(place: Path, key: int) -> float:
    statement = parse_statement(f"DELETE FROM delta.`{place}` WHERE id = {key}")
    return seconds(lambda: run(statement, DeltaTable.open(str(place)), None))


def _filled(place: Path) -> Path:
    rows: dict[str, Any] = {"id": range(1000), "v": [0.5] * 1000}
    configuration = {"delta.enableDeletionVectors": "true"}
    write_deltalake(str(place), pa.table(rows), configuration=configuration)
    return place


def _ids(place: Path) -> list[int]:
    found: list[int] = sorted(DeltaTable.open(str(place)).snapshot().to_arrow()["id"].to_pylist())
    return found


def _spread(times: list[float]) -> str:
    return f"{min(times):.2g} to {max(times):.2g}"
