"""The turns of `worker_jobs`: workers and bare sessions started, jobs and statements done."""

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from http import HTTPStatus
from pathlib import Path
from statistics import median
from typing import Any

import pyarrow as pa
from deltalake import write_deltalake
from django.contrib.auth.models import Group, User
from django.test import Client

from benchmarks.measuring import Comparison, seconds
from engine.commands.sql import parse_statement
from engine.operations.run import run
from engine.table import DeltaTable
from lakeui.catalog.registration import register_table
from lakeui.jobs.models import Job
from tests.services import CLOCK, WorkerProcess, point_celery_to, run_redis, wait_until

_STARTS, _JOBS, _WARM_UP = 6, 40, 5
_KEYS = {
    "DELETE": range(_STARTS, _STARTS + _JOBS),
    "UPDATE": range(300, 300 + _JOBS),
    "MERGE": range(980, 980 + _JOBS),  # half of them are new
}
_STATEMENTS = {
    "DELETE": "DELETE FROM {table} WHERE id = {key}",
    "UPDATE": "UPDATE {table} SET v = v + 1 WHERE id = {key}",
    "MERGE": "MERGE INTO {table} USING (VALUES ({key}, 7.5D)) AS s (id, v) ON {table}.id = s.id"
    " WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT (id, v) VALUES (s.id, s.v)",
}
_LOOK_S = 0.002
_BARE = (
    "from pyspark.sql import SparkSession\n"
    "SparkSession.builder.master('local[2]').getOrCreate().range(1).count()\n"
)


def measure_jobs(scratch: Path) -> list[Comparison]:
    """Measure jobs and the library; check that both left the same rows."""
    by_jobs, by_library = (_fill_table(scratch / name) for name in ("by_jobs", "by_library"))
    (first, *starts), (_, *bare), jobs = _time_jobs(by_jobs, scratch)
    for key in range(_STARTS):
        _time_library(by_library, "DELETE", key)
    library = {
        kind: [_time_library(by_library, kind, key) for key in keys] for kind, keys in _KEYS.items()
    }
    assert _rows(by_jobs) == _rows(by_library)  # noqa: S101
    return [
        Comparison(
            f"B16 a worker's start to its first job done ({_spread(starts)} and {_spread(bare)};"
            f" the first one on a machine {first:.1f})",
            median(starts),
            "a bare Spark session's to its first task done",
            median(bare),
            "s",
        ),
        *(
            Comparison(
                f"{numbers} {kind} of one row by REST, warm, from its request until it has succeeded"
                f" ({_spread(jobs[kind][_WARM_UP:])})",
                median(jobs[kind][_WARM_UP:]),
                "by the library",
                median(library[kind][_WARM_UP:]),
                "s",
            )
            for kind, numbers in (("DELETE", "B12, B16"), ("UPDATE", "B12"), ("MERGE", "B12"))
        ),
    ]


def _time_jobs(
    place: Path, scratch: Path
) -> tuple[list[float], list[float], dict[str, list[float]]]:
    """Seconds of each worker's start, of each bare session's, and of each job after them by its kind."""
    table = register_table(str(place))
    client = Client()
    client.force_login(_admin())
    starts, bare = [], []

    def ask(kind: str, key: int) -> Job:
        body = {"sql": _STATEMENTS[kind].format(table=table.name, key=key)}
        answer = client.post(f"/api/v1/tables/{table.pk}/jobs/", body, "application/json")
        assert answer.status_code == HTTPStatus.ACCEPTED, answer.content  # noqa: S101
        return Job.objects.get(pk=answer.json()["id"])

    with run_redis() as url:
        point_celery_to(url)
        for number in range(_STARTS):
            bare.append(seconds(_bare_session))
            job, began = ask("DELETE", number), time.perf_counter()
            worker = WorkerProcess("spark", url, scratch / f"worker-{number}.log")
            starts.append(_wait_for_end(job) - began)
            if number == 0:  # it leaves Spark's classes to the next ones
                worker.signal(signal.SIGTERM)
                wait_until(lambda worker=worker: not worker.is_running(), "the worker to end")
            if number + 1 < _STARTS:
                worker.kill()
        jobs = {
            kind: [_took(partial(ask, kind, key)) for key in keys] for kind, keys in _KEYS.items()
        }
        worker.kill()
    return starts, bare, jobs


def _admin() -> User:
    person = User.objects.create_user("measuring")
    person.groups.add(Group.objects.get(name="admin"))
    return person


def _took(ask: Callable[[], Job]) -> float:
    began = time.perf_counter()
    return _wait_for_end(ask()) - began


def _wait_for_end(job: Job) -> float:
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


def _time_library(place: Path, kind: str, key: int) -> float:
    statement = parse_statement(_STATEMENTS[kind].format(table="t", key=key))
    return seconds(lambda: run(statement, DeltaTable.open(str(place)), None))


def _fill_table(place: Path) -> Path:
    rows: dict[str, Any] = {"id": range(1000), "v": [0.5] * 1000}
    configuration = {"delta.enableDeletionVectors": "true"}
    write_deltalake(str(place), pa.table(rows), configuration=configuration)
    return place


def _rows(place: Path) -> list[tuple[int, float]]:
    rows = DeltaTable.open(str(place)).snapshot().to_arrow()
    return sorted(zip(rows["id"].to_pylist(), rows["v"].to_pylist(), strict=True))


def _spread(times: list[float]) -> str:
    return f"{min(times):.2g} to {max(times):.2g}"
