"""A job's log: short lines for people, with facts beside them for machines."""

from uuid import UUID

from django.utils import timezone

from lakeui.catalog.log_values import json_value, text
from lakeui.jobs.models import JobEvent


def log_event(
    job_id: UUID, message: str, level: JobEvent.Level = JobEvent.Level.INFO, **data: object
) -> None:
    """Add a line to a job's log. `data` is JSON-ready."""
    JobEvent.objects.create(
        job_id=job_id, at=timezone.now(), level=level, message=text(message), data=json_value(data)
    )
