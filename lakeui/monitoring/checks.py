"""What is checked for people's attention, and from what figure on it is said."""

from dataclasses import dataclass
from datetime import timedelta

from django.conf import settings
from django.db.models import TextChoices

from lakeui.catalog.models import FEW_FILES
from lakeui.monitoring.alerts import MAX_WAIT

QUIET_MIRROR = timedelta(minutes=15)
COSTLY_CHANGE = 2  # writes aborted by one change of the metadata
UNKNOWN_FOR = timedelta(days=7)


class AttentionCheck(TextChoices):
    """What is checked, in the order in which it is shown. Alert rules offer the same checks."""

    REORDERED = "reordered", "Rows outlived an erasure"
    UNREACHABLE = "unreachable", "A log cannot be read"
    OUTCOME_UNKNOWN = "outcome_unknown", "A commit's outcome is unknown"
    ABORTED = "aborted", "Aborted writes"
    METADATA_COST = "metadata_cost", "A change of the metadata aborted writers"
    FAILED_JOB = "failed_job", "A job failed"
    FAILING_SCHEDULE = "failing_schedule", "A schedule fails"
    JOBS_WAIT = "jobs_wait", "Jobs wait"
    WORKER_SILENT = "worker_silent", "A worker is silent"
    SMALL_FILES = "small_files", "Small files"
    VACUUM_DUE = "vacuum_due", "VACUUM is due"
    MIRROR_QUIET = "mirror_quiet", "The mirror is behind"
    NEW_TABLES = "new_tables", "Tables are not registered"


ORDER = tuple(AttentionCheck)


@dataclass(frozen=True, slots=True)
class Threshold:
    """From when on a check tells, and where that figure is set."""

    check: AttentionCheck
    tells: str
    set_by: str


def thresholds() -> tuple[Threshold, ...]:
    """All of them, as they are in force here."""
    small = settings.SMALL_FILE_BYTES // 1024**2
    fixed = "fixed"
    return (
        Threshold(
            AttentionCheck.REORDERED,
            "a DELETE was ordered before an append whose rows it may match, in 30 days",
            fixed,
        ),
        Threshold(AttentionCheck.UNREACHABLE, "at the first try without success", fixed),
        Threshold(
            AttentionCheck.OUTCOME_UNKNOWN, "at once, for 7 days or until it is run again", fixed
        ),
        Threshold(
            AttentionCheck.ABORTED,
            f"{settings.ATTENTION_ABORTED} writes aborted on one table in 24 h",
            "ATTENTION_ABORTED",
        ),
        Threshold(
            AttentionCheck.METADATA_COST,
            f"{COSTLY_CHANGE} writes were aborted by one commit in 24 h",
            fixed,
        ),
        Threshold(AttentionCheck.FAILED_JOB, "failed in 24 h and not run again", fixed),
        Threshold(AttentionCheck.FAILING_SCHEDULE, "its last job failed, or it made none", fixed),
        Threshold(AttentionCheck.JOBS_WAIT, f"{_minutes(MAX_WAIT)} min in the queue", fixed),
        Threshold(
            AttentionCheck.WORKER_SILENT,
            f"no heartbeat for {settings.JOB_LEASE_SECONDS} s",
            "JOB_LEASE_SECONDS",
        ),
        Threshold(
            AttentionCheck.SMALL_FILES,
            f"{FEW_FILES} files under {small} MiB that are more than half of all",
            "SMALL_FILE_BYTES",
        ),
        Threshold(
            AttentionCheck.VACUUM_DUE,
            "past their retention, and more than half as many bytes as the table holds",
            "delta.deletedFileRetentionDuration of the table",
        ),
        Threshold(AttentionCheck.MIRROR_QUIET, f"not read for {_minutes(QUIET_MIRROR)} min", fixed),
        Threshold(
            AttentionCheck.NEW_TABLES,
            "a repeated search found one that is neither registered nor dismissed",
            fixed,
        ),
    )


def _minutes(span: timedelta) -> int:
    return int(span.total_seconds() // 60)
