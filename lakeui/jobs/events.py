"""A job's log: short lines for people, with facts beside them for machines."""

from datetime import datetime
from uuid import UUID

from django.utils import timezone

from lakeui.catalog.log_values import json_value, text
from lakeui.jobs.models import JobEvent


def log_event(
    job_id: UUID,
    message: str,
    level: JobEvent.Level = JobEvent.Level.INFO,
    *,
    at: datetime | None = None,
    **data: object,
) -> None:
    """Add a line to a job's log, at the time `at` or now; `data` is JSON-ready."""
    JobEvent.objects.create(
        job_id=job_id,
        at=at or timezone.now(),
        level=level,
        message=text(message),
        data=json_value(data),
    )
