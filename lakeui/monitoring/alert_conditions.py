"""What an alert rule can watch for: the checks for people's attention, and sums of the last hour."""

from collections.abc import Mapping
from dataclasses import dataclass

from django.db.models import TextChoices

from lakeui.monitoring.checks import Check


class Condition(TextChoices):
    """In the order in which they are offered."""

    ABORTED = "aborted", "Writes to a table were aborted"
    WASTED = "wasted", "Aborted writes wasted time"
    FAILED_JOB = "failed_job", "A job failed"
    STREAM_STOPPED = "stream_stopped", "A stream stopped"
    OUTCOME_UNKNOWN = "outcome_unknown", "A commit's outcome is unknown"
    FAILING_SCHEDULE = "failing_schedule", "A schedule fails"
    JOBS_WAIT = "jobs_wait", "Jobs wait"
    WORKER_SILENT = "worker_silent", "A worker is silent"
    UNREACHABLE = "unreachable", "A log cannot be read"
    MIRROR_QUIET = "mirror_quiet", "The mirror is behind"
    REORDERED = "reordered", "Rows outlived an erasure"
    METADATA_COST = "metadata_cost", "A change of the metadata aborted writers"
    SMALL_FILES = "small_files", "Small files"
    VACUUM_DUE = "vacuum_due", "VACUUM is due"


@dataclass(frozen=True, slots=True)
class Limit:
    """The figure from which on a condition holds; a rule may set another."""

    default: int
    unit: str


LIMITS: Mapping[Condition, Limit] = {
    Condition.ABORTED: Limit(10, "writes in an hour"),
    Condition.WASTED: Limit(15, "minutes in an hour"),
    Condition.MIRROR_QUIET: Limit(15, "minutes"),
}
"""Of the conditions that are not here, the check for attention has the figure."""

OF_A_CHECK: Mapping[Condition, Check] = {
    condition: Check(condition.value)
    for condition in Condition
    if condition.value in Check.values and condition not in LIMITS
}
