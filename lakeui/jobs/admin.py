"""Jobs, read-only: they are requested, cancelled and retried elsewhere, and never edited."""

from auditlog.registry import auditlog
from django.contrib import admin

from lakeui.catalog.read_only_admin import ReadOnlyAdmin, ReadOnlyInline
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


@admin.register(Job)
class JobAdmin(ReadOnlyAdmin):
    list_display = [
        "id",
        "table",
        "kind",
        "state",
        "schedule",
        "dry_run",
        "requested_by",
        "created_at",
        "finished_at",
        "attempts",
        "committed_version",
        "error_code",
    ]
    list_filter = ["state", "kind", "queue", "dry_run", "error_code"]
    search_fields = ["id", "table__name", "requested_by__username", "statement", "reason"]
    date_hierarchy = "created_at"
    list_select_related = ["table", "requested_by", "schedule"]
    inlines = [JobAttemptInline, JobEventInline]


@admin.register(JobAttempt)
class JobAttemptAdmin(ReadOnlyAdmin):
    list_display = [
        "job",
        "number",
        "outcome",
        "worker",
        "started_at",
        "finished_at",
        "core_ms",
        "bytes_written",
    ]
    list_filter = ["outcome"]
    search_fields = ["job__id", "worker", "message"]
    date_hierarchy = "started_at"
    list_select_related = ["job"]
    inlines = [JobStageInline]


@admin.register(JobStage)
class JobStageAdmin(ReadOnlyAdmin):
    list_display = ["attempt", "place", "name", "found", "started_at", "took_ms", "done", "total"]
    list_filter = ["name"]
    search_fields = ["attempt__job__id", "name", "found"]
    date_hierarchy = "started_at"
    list_select_related = ["attempt"]


@admin.register(WorkerReport)
class WorkerReportAdmin(ReadOnlyAdmin):
    list_display = [
        "name",
        "queue",
        "seen_at",
        "code_version",
        "slots",
        "spark_version",
        "cores",
        "busy_cores",
    ]
    list_filter = ["queue"]
    search_fields = ["name", "spark_master"]
    date_hierarchy = "seen_at"


@admin.register(JobEvent)
class JobEventAdmin(ReadOnlyAdmin):
    list_display = ["at", "job", "level", "message"]
    list_filter = ["level"]
    search_fields = ["job__id", "message"]
    date_hierarchy = "at"
    list_select_related = ["job"]


@admin.register(Schedule)
class ScheduleAdmin(ReadOnlyAdmin):
    list_display = ["name", "table", "kind", "cron", "owner", "enabled", "next_due_at", "last_job"]
    list_filter = ["enabled", "kind"]
    search_fields = ["name", "table__name", "owner__username", "statement"]
    list_select_related = ["table", "owner", "last_job"]


@admin.register(Upload)
class UploadAdmin(ReadOnlyAdmin):
    list_display = ["name", "owner", "sent_at"]
    list_filter = ["sent_at"]
    search_fields = ["name", "owner__username"]
    date_hierarchy = "sent_at"
    list_select_related = ["owner"]


@admin.register(PeriodicTurn)
class PeriodicTurnAdmin(ReadOnlyAdmin):
    list_display = ["name", "holder", "expires_at"]
    list_filter = ["expires_at"]
    search_fields = ["name"]
