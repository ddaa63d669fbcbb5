"""Jobs, read-only: they are requested, cancelled and retried elsewhere, and never edited."""

from auditlog.registry import auditlog

from lakeui.catalog.read_only_admin import ReadOnlyInline, register_rows
from lakeui.jobs.models import (
    Job,
    JobAttempt,
    JobEvent,
    JobStage,
    PeriodicTurn,
    Schedule,
    Upload,
    WorkerReport,
)

auditlog.register(
    Job,
    include_fields=["table", "kind", "statement", "dry_run", "requested_by", "reason", "retry_of"],
)

auditlog.register(
    Schedule, include_fields=["table", "name", "cron", "statement", "owner", "enabled"]
)


class JobAttemptInline(ReadOnlyInline):
    model = JobAttempt
    fields = ["number", "worker", "started_at", "finished_at", "outcome", "read_version", "message"]


class JobStageInline(ReadOnlyInline):
    model = JobStage
    fields = ["place", "name", "found", "took_ms", "done", "total", "core_ms", "bytes_read"]


class JobEventInline(ReadOnlyInline):
    model = JobEvent
    fields = ["at", "level", "message"]


register_rows(
    Job,
    "id table kind state schedule dry_run requested_by "
    "created_at finished_at attempts committed_version error_code",
    search="id table__name requested_by__username statement reason",
    filters="state kind queue dry_run error_code",
    date_hierarchy="created_at",
    inlines=[JobAttemptInline, JobEventInline],
)
register_rows(
    JobAttempt,
    "job number outcome worker started_at finished_at core_ms bytes_written",
    search="job__id worker message",
    filters="outcome",
    date_hierarchy="started_at",
    inlines=[JobStageInline],
)
register_rows(
    JobStage,
    "attempt place name found started_at took_ms done total",
    search="attempt__job__id name found",
    filters="name",
    date_hierarchy="started_at",
)
register_rows(
    WorkerReport,
    "name queue seen_at code_version slots spark_version cores busy_cores",
    search="name spark_master",
    filters="queue",
    date_hierarchy="seen_at",
)
register_rows(
    JobEvent, "at job level message", search="job__id message", filters="level", date_hierarchy="at"
)
register_rows(
    Schedule,
    "name table kind cron owner enabled next_due_at last_job",
    search="name table__name owner__username statement",
    filters="enabled kind",
)
register_rows(
    Upload,
    "name owner sent_at",
    search="name owner__username",
    filters="sent_at",
    date_hierarchy="sent_at",
)
register_rows(PeriodicTurn, "name holder expires_at", search="name", filters="expires_at")
