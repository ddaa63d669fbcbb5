"""Workers as processes, beside the test's database and a Redis of their own."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from django.contrib.auth.models import User
from knox.models import get_token_model
from redis import Redis

from engine.schema.types import LONG, StructField, StructType
from engine.storage.uri import open_store
from lakeui.catalog.models import Table
from lakeui.catalog.registration import register_table
from lakeui.catalog.roles import Role
from tests.engine.made_tables import write_commit, write_first, write_rows
from tests.lakeui.catalog.log_writer import new_table
from tests.services import WorkerProcess, point_celery_to, run_redis


@pytest.fixture(scope="session")
def redis_url() -> Iterator[str]:
    with run_redis() as url:
        yield url


@pytest.fixture
def broker(redis_url, settings) -> Iterator[str]:
    """Send this process's messages to an empty Redis."""
    before = settings.CELERY_BROKER_URL
    with Redis.from_url(redis_url) as redis:
        redis.flushall()  # messages that the worker of another test left: this one's Spark may be dead
    point_celery_to(redis_url)
    yield redis_url
    point_celery_to(before)


@pytest.fixture
def lake(tmp_path, settings) -> Path:
    settings.TABLE_ROOTS = [str(tmp_path / "lake")]
    settings.SOURCE_ROOTS = [str(tmp_path / "uploads")]
    settings.LAKE_HOME = tmp_path / "lake"
    settings.JOB_LEASE_SECONDS = 2
    for name in ("lake", "uploads"):
        (tmp_path / name).mkdir()
    return tmp_path


@pytest.fixture
def start_worker(transactional_db, broker, lake) -> Iterator[Callable[[str], WorkerProcess]]:
    """Start a worker of a queue; all workers are killed before the database is emptied."""
    started: list[WorkerProcess] = []

    def start(queue: str, seconds: float = 60.0, include: str = "") -> WorkerProcess:
        worker = WorkerProcess(queue, broker, lake / f"worker{len(started)}.log", include)
        started.append(worker)
        worker.wait_ready(seconds)
        return worker

    yield start
    for worker in started:
        worker.kill()


@pytest.fixture
def table(start_worker, lake) -> Table:
    """Return a registered, empty table."""
    new_table(lake / "lake/orders")
    return register_table(str(lake / "lake/orders"), "sales.orders")


@pytest.fixture
def orders(lake, settings) -> Table:
    """Return a registered table of three rows; its jobs wait for a worker."""
    settings.CELERY_TASK_ALWAYS_EAGER = False
    store = open_store(str(lake / "lake/orders"))
    write_first(store, StructType((StructField("n", LONG),)))
    rows = pa.table({"n": pa.array([1, 2, 3], pa.int64())})
    write_commit(store, 1, write_rows(store, "a.parquet", rows))
    return register_table(str(lake / "lake/orders"), "sales.orders")


@pytest.fixture
def ada(db) -> User:
    return User.objects.create_superuser("ada")


@pytest.fixture
def token(ada) -> str:
    """Return an administrator's token, valid for an hour."""
    made = get_token_model().objects.create(
        user=ada, expiry=timedelta(hours=1), name="ci", role=Role.ADMIN
    )
    return made[1]
