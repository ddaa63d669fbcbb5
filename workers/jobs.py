"""The task behind every job."""

import os
import signal
from typing import Any
from uuid import UUID

from structlog.contextvars import bound_contextvars

from lakeui.celery import app
from lakeui.jobs.leases import claim
from lakeui.task_names import RUN_JOB
from workers import spark_session
from workers.job_run import run_attempt


@app.task(name=RUN_JOB, bind=True)
def run_job(task: Any, job_id: str) -> None:  # noqa: ANN401 - Celery's task
    """Do a job, unless another delivery of this message has it or it has ended."""
    lease = claim(UUID(job_id), worker=f"{task.request.hostname}/{os.getpid()}")
    if lease is not None:
        with bound_contextvars(job_id=job_id, attempt=lease.attempt, worker=lease.worker):
            run_attempt(lease)
    if spark_session.has_died():
        os.kill(os.getpid(), signal.SIGTERM)  # whoever supervises this worker starts a new one
