"""Jobs and schedules without facts about tables hidden from their reader."""

from copy import copy
from typing import TypeVar

from lakeui.catalog.command_tables import Reader
from lakeui.jobs.errors import NotPermittedError
from lakeui.jobs.models import Job, Schedule

WITHHELD = "It names tables that you may not see."
WITHHELD_STATEMENT = "-- names tables that you may not see"
_Asked = TypeVar("_Asked", Job, Schedule)


def redact_job(job: Job, reader: Reader) -> Job:
    """Return the job, or a copy without statement, plan and reasons if it names hidden tables."""
    if reader.may_read(job):
        return job
    told = _redact_command(job)
    told.plan, told.error_facts = {}, {}
    told.error_message = WITHHELD if job.error_message else ""
    return told


def redact_schedule(schedule: Schedule, reader: Reader) -> Schedule:
    """Return the schedule, or a copy without statement and note if it names hidden tables."""
    if reader.may_read(schedule):
        return schedule
    told = _redact_command(schedule)
    told.note = WITHHELD if schedule.note else ""
    return told


def check_readable(asked: Job | Schedule, reader: Reader, what: str) -> None:
    """Check that a person may read a command before they repeat or change it.

    Raises:
        NotPermittedError: it names tables hidden from them.
    """
    if not reader.may_read(asked):
        raise NotPermittedError(what, "view", "all tables that it names")


def _redact_command(asked: _Asked) -> _Asked:
    told = copy(asked)
    told.statement, told.parameters = WITHHELD_STATEMENT, {}
    return told
