"""Names of the conditions that need attention, and their severities."""

from django.db.models import TextChoices


class Condition(TextChoices):
    """A condition that needs a person, in the order in which pages show it.

    `lakeui.monitoring.attention.CONDITIONS` judges and words each.
    """

    REORDERED = "reordered", "Rows survived a DELETE"
    UNREACHABLE = "unreachable", "A table cannot be read"
    OUTCOME_UNKNOWN = "outcome_unknown", "A commit's outcome is unknown"
    STREAM_STOPPED = "stream_stopped", "A stream stopped"
    ABORTED = "aborted", "Writes to a table were aborted"
    WASTED = "wasted", "Aborted writes wasted time"
    METADATA_COST = "metadata_cost", "A change of the metadata aborted writes"
    FAILED_JOB = "failed_job", "A job failed"
    FAILING_SCHEDULE = "failing_schedule", "A schedule fails"
    JOBS_WAIT = "jobs_wait", "Jobs wait"
    WORKER_SILENT = "worker_silent", "A worker sends no heartbeat"
    BEAT_SILENT = "beat_silent", "Beat is silent"
    SMALL_FILES = "small_files", "Small files"
    VACUUM_DUE = "vacuum_due", "VACUUM is due"
    MIRROR_QUIET = "mirror_quiet", "The mirror is behind"
    NEW_TABLES = "new_tables", "Tables are not registered"


class Severity(TextChoices):
    """How soon a person should act."""

    CRITICAL = "critical"
    WARNING = "warning"


def condition_choices() -> list[tuple[str, str]]:
    """Return values and labels of the conditions, for the model of alert rules."""
    return [(condition.value, str(condition.label)) for condition in Condition]
