"""`Job.commit_after`: two jobs made to overlap, so that a conflict can be seen on purpose.

The job to be aborted reads, stages and then holds until the other job has ended. The other one,
before its own commit, waits until the first holds. Both waits sleep on a Redis list, wake at least
every second to read the rows, and end at a limit: an impossible rehearsal becomes a job like any
other.
"""

import logging
from collections.abc import Callable
from functools import cache, partial
from uuid import UUID

import redis
from django.conf import settings

from engine.clock import SystemClock
from engine.spark.jobs import Progress
from lakeui.jobs.models import Job
from lakeui.jobs.timeline import HOLDING, WAITING
from workers.heartbeat import Heartbeat

logger = logging.getLogger(__name__)

_LOOK_AGAIN_S = 1
_KEEP_S = 3600


_CLOCK = SystemClock()


class Bell:
    """A Redis list that wakes the waiters of a job; the rows stay the truth."""

    def __init__(self, url: str) -> None:
        self._client = redis.Redis.from_url(url) if url.startswith(("redis:", "rediss:")) else None

    def ring(self, key: str) -> None:
        """Wake who waits."""
        try:
            if self._client is not None:
                self._client.lpush(key, "1")
                self._client.expire(key, _KEEP_S)
        except redis.RedisError:
            logger.warning("The broker is unreachable")

    def wait(self, key: str) -> None:
        """Sleep until it rings, a second at most."""
        try:
            if self._client is not None:
                self._client.blpop([key], timeout=_LOOK_AGAIN_S)
                return
        except redis.RedisError:
            logger.warning("The broker is unreachable")
        _CLOCK.pause(_LOOK_AGAIN_S)


class Rehearsal:
    """The part of one job in a rehearsed conflict: none, for nearly every job."""

    def __init__(self, job: Job, heartbeat: Heartbeat) -> None:
        self._job = job
        self._heartbeat = heartbeat

    def hold(self) -> None:
        """Wait until the job named by `commit_after` has ended."""
        other = self._job.commit_after_id
        if other is not None and _is_active(other):
            self._begin(HOLDING, "until it has ended")
            self._wait(other, lambda: not _is_active(other))

    def let_waiting_jobs_read(self) -> None:
        """Wait until the jobs that this one will abort hold."""
        waiting_jobs = Job.objects.filter(commit_after=self._job.pk, state__in=Job.ACTIVE)
        for waiting in waiting_jobs.values_list("pk", flat=True):
            if not _has_read(waiting):
                self._begin(WAITING, "until it holds")
                self._wait(waiting, partial(_has_read, waiting))

    def _begin(self, step: str, until: str) -> None:
        """Begin a separate step, so that its time counts neither as checks nor as commit."""
        self._heartbeat.progress(Progress(step, 0, 0, ""))
        self._heartbeat.progress(Progress(step, 0, 0, "", detail=until))

    def _wait(self, other: UUID, over: Callable[[], bool]) -> None:
        until = _CLOCK.monotonic_s() + settings.REHEARSAL_LIMIT_SECONDS
        while not over() and _CLOCK.monotonic_s() < until:
            self._heartbeat.check()
            _create_bell().wait(_end_key(other))


def announce_end(job_id: UUID) -> None:
    """Wake the jobs that hold for this one."""
    _create_bell().ring(_end_key(job_id))


def _has_read(waiting: UUID) -> bool:
    """Check whether the job holds, or will never hold."""
    reading = Job.objects.filter(pk=waiting, state__in=Job.ACTIVE).exclude(progress_stage=HOLDING)
    return not reading.exists()


@cache
def _create_bell() -> Bell:
    return Bell(settings.CELERY_BROKER_URL)


def _is_active(job_id: UUID) -> bool:
    return Job.objects.filter(pk=job_id, state__in=Job.ACTIVE).exists()


def _end_key(job_id: UUID) -> str:
    return f"lakeui:job-ended:{job_id}"
