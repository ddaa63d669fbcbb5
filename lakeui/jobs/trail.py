"""Entries of the audit log for acts that change no editable field.

The model records a job's creation; cancelling, retrying and uploads are recorded here.
"""

import logging

from auditlog.models import LogEntry
from django.contrib.auth.models import User
from django.contrib.contenttypes.models import ContentType
from django.db import DatabaseError, transaction

from lakeui.catalog.models import Table
from lakeui.jobs.models import Job

logger = logging.getLogger(__name__)
SENT_FILE = "sent a file"


def record_act(did: str, by: User | None, job: Job | None = None, name: str = "") -> None:
    """Record an act on a job, or on nothing with a row. A failure to record fails nothing."""
    changes = {"table": ["None", str(job.table_id)], "kind": ["None", job.kind]} if job else {}
    try:
        with transaction.atomic():
            LogEntry.objects.create(
                content_type=ContentType.objects.get_for_model(Job if job else Table),
                object_pk=str(job.pk) if job else "",
                object_repr=(name or str(job))[:500],
                action=LogEntry.Action.UPDATE,
                changes=changes,
                actor=by,
                additional_data={"did": did},
            )
    except DatabaseError:
        logger.exception("An action could not be written to the audit log")
