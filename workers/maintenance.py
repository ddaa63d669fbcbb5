"""Tasks of the clock: heal what failures leave, and request the jobs of schedules."""

from lakeui.celery import app
from lakeui.jobs.delivery import send_job, send_overdue
from lakeui.jobs.leases import requeue_expired
from lakeui.jobs.schedules import fire_due
from lakeui.jobs.uploads import remove_unused
from lakeui.task_names import FIRE_SCHEDULES, SWEEP_LEASES, TIDY_UPLOADS
from workers.retention import forget_spent_rows


@app.task(name=SWEEP_LEASES)
def sweep_leases() -> None:
    """Queue the jobs of silent workers again, and send what was never sent."""
    for job_id in requeue_expired():
        send_job(job_id)
    send_overdue()


@app.task(name=FIRE_SCHEDULES)
def fire_schedules() -> None:
    """Request the jobs of schedules that are due."""
    fire_due()


@app.task(name=TIDY_UPLOADS)
def tidy_uploads() -> None:
    """Remove uploaded files that no job needs any more, and rows that nobody does."""
    remove_unused()
    forget_spent_rows()
