"""Tasks that heal what failures leave: expired leases, and jobs that no worker was told of."""

from lakeui.celery import app
from lakeui.jobs.delivery import send_job, send_overdue
from lakeui.jobs.leases import requeue_expired
from lakeui.task_names import SWEEP_LEASES


@app.task(name=SWEEP_LEASES)
def sweep_leases() -> None:
    """Queue the jobs of silent workers again, and send what was never sent."""
    for job_id in requeue_expired():
        send_job(job_id)
    send_overdue()
