"""Workers as processes, beside the test's database and a Redis of their own."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from redis import Redis

from lakeui.catalog.models import Table
from lakeui.catalog.registration import register_table
from tests.lakeui.catalog.log_writer import new_table
from tests.services import WorkerProcess, point_celery_to, running_redis


@pytest.fixture(scope="session")
def redis_url() -> Iterator[str]:
    with running_redis() as url:
        yield url


@pytest.fixture
def broker(redis_url, settings) -> Iterator[str]:
    """Messages of this process go to the Redis, which is empty."""
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
    """Start a worker of a queue; every one is killed before the database is emptied."""
    started: list[WorkerProcess] = []

    def start(queue: str, seconds: float = 30.0) -> WorkerProcess:
        worker = WorkerProcess(queue, broker, lake / f"worker{len(started)}.log")
        started.append(worker)
        worker.wait_ready(seconds)
        return worker

    yield start
    for worker in started:
        worker.kill()


@pytest.fixture
def table(start_worker, lake) -> Table:
    """A registered, empty table."""
    new_table(lake / "lake/orders")
    return register_table(str(lake / "lake/orders"), "sales.orders")
