"""The task behind every job."""

import os
from functools import partial
from typing import Any
from uuid import UUID

from structlog.contextvars import bound_contextvars

from lakeui.celery import app
from lakeui.jobs.job_rows import send_next_dry_run, take_back
from lakeui.jobs.leases import claim
from lakeui.task_names import RUN_JOB
from workers import spark_session
from workers.failures import patiently
from workers.job_run import run_attempt
from workers.reads import BoundedTask, take_place


@app.task(name=RUN_JOB, bind=True, base=BoundedTask)
def run_job(task: Any, job_id: str) -> None:  # noqa: ANN401 - Celery's task
    """Run a job, unless another delivery of this message has it or it has ended.

    A worker whose Spark has died takes none: it ends, and the job is sent to another. Where too
    many dry runs are at work, a job is sent again later.
    """
    key = UUID(job_id)
    if spark_session.end_worker_if_dead():
        patiently(partial(take_back, key))
        return
    with take_place() as has_place:
        if not has_place:
            patiently(partial(take_back, key))
            return
        worker = f"{task.request.hostname}/{os.getpid()}"
        lease = patiently(partial(claim, key, worker=worker))
        if lease is not None:
            with bound_contextvars(job_id=job_id, attempt=lease.attempt, worker=lease.worker):
                run_attempt(lease)
    if lease is not None and lease.job.dry_run:
        patiently(send_next_dry_run)
    spark_session.end_worker_if_dead()
