"""Jobs: their request, progress and end."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, cast

from django.utils.functional import cached_property
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from lakeui.api.fields import Int64Field, ObjectField, RecordedField
from lakeui.api.serializers.request import CommandRequestSerializer
from lakeui.api.serializers.run_times import ComparisonSerializer, JobTimelineSerializer
from lakeui.api.serializers.runs import (
    JobStageSerializer,
    OutlookSerializer,
    RerunSerializer,
    RunCostSerializer,
)
from lakeui.catalog.command_tables import Reader
from lakeui.jobs.models import Job, JobAttempt, JobEvent, JobStage
from lakeui.jobs.redaction import redact_job
from lakeui.jobs.run_costs import RunCost, cost_of
from lakeui.jobs.same_runs import comparison_of
from lakeui.jobs.timeline import JobTimeline, timeline_of
from lakeui.monitoring.outlook import Outlook, outlook_of
from lakeui.monitoring.rerun import rerun_of
from lakeui.monitoring.spark_ui import SparkPages, spark_pages


class JobSerializer(serializers.ModelSerializer[Job]):
    """A job in one row. If it names tables hidden from you, its statement is left out."""

    table = serializers.CharField(source="table.name", read_only=True)
    requested_by = serializers.CharField(
        source="requested_by.username", default=None, allow_null=True, read_only=True
    )
    progress = serializers.SerializerMethodField()
    cost = serializers.SerializerMethodField()
    error_code = RecordedField()

    class Meta:
        model = Job
        fields = [
            "id",
            "table_id",
            "table",
            "kind",
            "statement",
            "dry_run",
            "state",
            "requested_by",
            "schedule_id",
            "reason",
            "attempts",
            "progress",
            "created_at",
            "sent_at",
            "started_at",
            "finished_at",
            "cancel_requested_at",
            "committed_version",
            "error_code",
            "cost",
        ]

    @cached_property
    def reader(self) -> Reader:
        """Hold the caller; one for all rows of a list."""
        return Reader(self.context["request"].user)

    def to_representation(self, instance: Job) -> dict[str, Any]:
        return dict(super().to_representation(redact_job(instance, self.reader)))

    @extend_schema_field(RunCostSerializer)
    def get_cost(self, job: Job) -> dict[str, Any]:
        cost: RunCost = cost_of(job.attempt_rows.all(), dry_run=job.dry_run)
        return dict(RunCostSerializer(cost).data)

    @extend_schema_field(
        {
            "type": "object",
            "properties": {
                "stage": {"type": "string"},
                "done": {"type": "string", "format": "int64"},
                "total": {"type": "string", "format": "int64"},
                "unit": {"type": "string"},
                "running": {"type": "string", "format": "int64"},
            },
        }
    )
    def get_progress(self, job: Job) -> dict[str, str]:
        return {
            "stage": job.progress_stage,
            "done": str(job.progress_done),
            "total": str(job.progress_total),
            "unit": job.progress_unit,
            "running": str(job.progress_running),
        }


class JobAttemptSerializer(serializers.ModelSerializer[JobAttempt]):
    """One attempt at a job. Core times and bytes are Spark's counts, null without any."""

    bytes_written = Int64Field()
    files_written = Int64Field(allow_null=True)
    core_ms = Int64Field(allow_null=True)
    bytes_read = Int64Field(allow_null=True)
    bytes_shuffled = Int64Field(allow_null=True)
    spark_application = RecordedField(help_text="The id of the Spark application that it ran in.")
    spark_ui = serializers.SerializerMethodField(
        help_text="Spark's own pages of it: of admins of all tables, while they are served."
    )
    stages = JobStageSerializer(many=True, read_only=True)

    class Meta:
        model = JobAttempt
        fields = [
            "number",
            "worker",
            "started_at",
            "finished_at",
            "outcome",
            "read_version",
            "attempted_version",
            "bytes_written",
            "files_written",
            "core_ms",
            "bytes_read",
            "bytes_shuffled",
            "spark_application",
            "spark_ui",
            "message",
            "stages",
        ]

    @extend_schema_field(serializers.CharField(allow_null=True))
    def get_spark_ui(self, attempt: JobAttempt) -> str | None:
        """Return Spark's pages, read once for the attempts of one application."""
        shared = cast("dict[str, Any]", self.context)
        pages_of: dict[str, SparkPages | None] = shared.setdefault("spark_pages", {})
        application = attempt.spark_application
        if application not in pages_of:
            pages_of[application] = spark_pages(self.context["request"].user, application)
        pages = pages_of[application]
        return pages.jobs if pages else None


class JobDetailSerializer(JobSerializer):
    """A job with its command, attempts, metrics and, if it failed, the error's facts.

    If it names tables hidden from you, its statement, parameters, plan, reasons and log are left
    out.
    """

    parameters = ObjectField()
    metrics = ObjectField()
    plan = ObjectField(help_text="What a dry run found.")
    error_message = RecordedField()
    error_facts = ObjectField()
    attempt_rows = JobAttemptSerializer(many=True, read_only=True)
    conflicts = serializers.PrimaryKeyRelatedField[Any](many=True, read_only=True)
    follow_ups = serializers.PrimaryKeyRelatedField[Any](
        many=True, read_only=True, help_text="Jobs that its table requested after its commit."
    )
    schedule = serializers.CharField(
        source="schedule.name", default=None, allow_null=True, read_only=True
    )
    idempotency_key = RecordedField()
    outlook = serializers.SerializerMethodField()
    timeline = serializers.SerializerMethodField()
    comparison = serializers.SerializerMethodField()
    rerun = serializers.SerializerMethodField()
    also_changes = serializers.SerializerMethodField(
        help_text="Tables that the steps of a script change beside the job's own."
    )

    class Meta(JobSerializer.Meta):
        fields = [
            *JobSerializer.Meta.fields,
            "also_changes",
            "parameters",
            "txn_id",
            "base_version",
            "max_retries",
            "time_limit_s",
            "retry_of",
            "caused_by",
            "follow_ups",
            "worker",
            "heartbeat_at",
            "metrics",
            "plan",
            "error_message",
            "error_facts",
            "attempt_rows",
            "conflicts",
            "schedule",
            "idempotency_key",
            "outlook",
            "timeline",
            "comparison",
            "rerun",
        ]

    def to_representation(self, instance: Job) -> dict[str, Any]:
        told = super().to_representation(instance)
        if not self.reader.may_read(instance):
            for attempt in told["attempt_rows"]:
                attempt["message"] = ""
        return told

    @extend_schema_field(OutlookSerializer(allow_null=True))
    def get_outlook(self, job: Job) -> dict[str, Any] | None:
        """Return the outlook; null if the job has ended, is cancelling, or changes nothing."""
        attempts = list(job.attempt_rows.all())
        latest = max(attempts, key=lambda attempt: attempt.number, default=None)
        outlook: Outlook | None = outlook_of(job, latest)
        return dict(OutlookSerializer(outlook).data) if outlook else None

    @extend_schema_field(JobTimelineSerializer)
    def get_timeline(self, job: Job) -> dict[str, Any]:
        return dict(JobTimelineSerializer(_timeline(job)).data)

    @extend_schema_field(ComparisonSerializer(allow_null=True))
    def get_comparison(self, job: Job) -> dict[str, Any] | None:
        """Return the comparison; null before the job begins, or if no earlier run succeeded."""
        comparison = comparison_of(job, _timeline(job))
        return dict(ComparisonSerializer(comparison).data) if comparison else None

    @extend_schema_field(RerunSerializer(allow_null=True))
    def get_rerun(self, job: Job) -> dict[str, Any] | None:
        """Return the rerun; null if the job runs, created its table, or names hidden tables."""
        rerun = rerun_of(job) if self.reader.may_read(job) else None
        return dict(RerunSerializer(rerun).data) if rerun else None

    @extend_schema_field(serializers.ListField(child=serializers.CharField()))
    def get_also_changes(self, job: Job) -> list[str]:
        """Return the names of other changed tables; none if the job names hidden tables."""
        if not self.reader.may_read(job):
            return []
        return sorted(table.name for table in job.also_changes.all())


def _timeline(job: Job) -> JobTimeline:
    """Return the timeline up to the last record, so that the same rows give the same ETag."""
    attempts = list(job.attempt_rows.all())
    stages = {
        attempt.pk: sorted(attempt.stages.all(), key=lambda stage: stage.place)
        for attempt in attempts
    }
    return timeline_of(job, attempts, stages, _last_record(job, attempts, stages))


def _last_record(
    job: Job, attempts: Sequence[JobAttempt], stages: Mapping[int, Sequence[JobStage]]
) -> datetime:
    steps = [step for group in stages.values() for step in group]
    moments = [
        *(job.created_at, job.started_at, job.heartbeat_at),
        *(attempt.finished_at or attempt.started_at for attempt in attempts),
        *(step.finished_at or step.started_at for step in steps),
    ]
    return max(moment for moment in moments if moment is not None)


class JobRequestSerializer(CommandRequestSerializer):
    """A command, as a kind with parameters or as one SQL statement: one of the two."""

    dry_run = serializers.BooleanField(required=False, default=False)
    reason = serializers.CharField(
        required=False,
        default="",
        allow_blank=True,
        max_length=2000,
        help_text="For the audit log.",
    )


class JobEventSerializer(serializers.ModelSerializer[JobEvent]):
    """A line of a job's log."""

    data = ObjectField()  # type: ignore[assignment]

    class Meta:
        model = JobEvent
        fields = ["id", "at", "level", "message", "data"]
