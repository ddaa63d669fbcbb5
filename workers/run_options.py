"""Options for a job's command: its person, its transaction id, other writers."""

from functools import partial

from django.conf import settings

from engine.operations.options import RunOptions
from engine.spark.jobs import ProgressCallback
from lakeui.jobs.command_rules import readable_table
from lakeui.jobs.models import Job
from workers.follow_ups import asks_for_follow_ups
from workers.job_tables import oldest_other_start_ms, open_table, other_writers
from workers.observation import JobObserver


def options_of(
    job: Job, asker: Job, observer: JobObserver, progress: ProgressCallback
) -> RunOptions:
    """Return the options of a job's run; its source tables are opened with its person's rights.

    `asker` owns the follow-ups: the job itself, or the job that has the step of a script.
    """
    person = job.requested_by
    return RunOptions(
        txn_id=str(job.txn_id),
        retries=job.max_retries,
        observer=observer,
        progress=progress,
        running_since=partial(oldest_other_start_ms, job),
        resolve=lambda name: open_table(readable_table(name, person).uri),
        dry_run=job.dry_run,
        user_name=person.get_username() if person else None,
        writers_elsewhere=other_writers(job) if job.dry_run else None,
        in_process_bytes=settings.IN_PROCESS_BYTES,
        count_bytes=settings.DRY_RUN_COUNT_BYTES,
        then=asks_for_follow_ups(asker, job.table),
    )
