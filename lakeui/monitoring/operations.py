"""The state of workers, queues and the mirror, for the monitoring page, alerts and metrics."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from django.core.cache import cache
from django.db.models import Count, Max, Min, Q, QuerySet
from django.db.models.functions import Now
from kombu.exceptions import KombuError, OperationalError

from lakeui.celery import app
from lakeui.jobs.leases import CLAIMABLE
from lakeui.jobs.models import Job
from lakeui.task_names import LIGHT_QUEUE, READS_QUEUE, SPARK_QUEUE

PING_TIMEOUT_S = 0.5
PING_KEPT_S = 5
_PING_KEY = "lakeui.monitoring.workers"


@dataclass(frozen=True, slots=True)
class Queue:
    """Waiting and running jobs of one kind of worker."""

    name: str
    waiting: int
    running: int
    oldest_waiting_at: datetime | None
    last_heartbeat_at: datetime | None


@dataclass(frozen=True, slots=True)
class Worker:
    """A worker that just answered, or whose job's lease is alive."""

    name: str
    queue: str
    answers: bool
    running: int = 0
    last_heartbeat_at: datetime | None = None


def queues() -> tuple[Queue, ...]:
    """Return every queue by the job rows, which are the truth; broker messages are wake-ups."""
    waiting = CLAIMABLE
    running = Q(state__in=Job.AT_WORK) & ~waiting
    rows = (
        Job.objects.filter(state__in=Job.ACTIVE)
        .values("queue")
        .annotate(
            waiting=Count("id", filter=waiting),
            running=Count("id", filter=running),
            oldest=Min("created_at", filter=waiting),
            beat=Max("heartbeat_at", filter=running),
        )
    )
    by_queue = {row["queue"]: row for row in rows}
    return tuple(
        _queue(name, by_queue.get(name))
        for name in sorted({SPARK_QUEUE, LIGHT_QUEUE, READS_QUEUE, *by_queue})
    )


def workers() -> tuple[Worker, ...]:
    """Return workers that answer a ping (at most every few seconds), and holders of a lease."""
    answering = _list_answering_workers()
    held = (
        Job.objects.filter(state__in=Job.AT_WORK)
        .exclude(worker="")
        .values("worker", "queue")
        .annotate(running=Count("id"), beat=Max("heartbeat_at"))
    )
    busy = {row["worker"]: row for row in held}
    return tuple(
        Worker(
            name,
            busy[name]["queue"] if name in busy else queue_of_worker(name),
            answers=name in answering,
            running=busy[name]["running"] if name in busy else 0,
            last_heartbeat_at=busy[name]["beat"] if name in busy else None,
        )
        for name in sorted(answering | busy.keys())
    )


def stale_jobs() -> QuerySet[Job]:
    """Return running jobs with an expired lease, not yet found by the sweeper."""
    return Job.objects.filter(state__in=Job.AT_WORK, lease_expires_at__lt=Now())


def queue_of_worker(name: str) -> str:
    """Workers are called after their queue: light@host serves light."""
    return name.partition("@")[0]


def _list_answering_workers() -> set[str]:
    names: list[str] | None = cache.get(_PING_KEY)
    if names is None:
        names = sorted(_ping())
        cache.set(_PING_KEY, names, PING_KEPT_S)
    return set(names)


def _ping() -> set[str]:
    try:
        answers = app.control.ping(timeout=PING_TIMEOUT_S)
    except (OSError, OperationalError, KombuError):
        return set()
    return {str(name) for answer in answers or [] for name in answer}


def _queue(name: str, row: Mapping[str, object] | None) -> Queue:
    values = row or {}
    oldest, beat = values.get("oldest"), values.get("beat")
    return Queue(
        name,
        waiting=int(str(values.get("waiting", 0))),
        running=int(str(values.get("running", 0))),
        oldest_waiting_at=oldest if isinstance(oldest, datetime) else None,
        last_heartbeat_at=beat if isinstance(beat, datetime) else None,
    )
