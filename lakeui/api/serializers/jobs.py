"""Jobs: their request, progress and end, the parts of their time, cost and competing writes."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, cast

from django.utils.functional import cached_property
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from engine.commands.model import COMMANDS
from engine.conflicts.predict.forecast import FORECASTS
from lakeui.api.fields import Int64Field, ObjectField, OptionalTextField, RecordedField
from lakeui.api.serializers.request import CommandRequestSerializer
from lakeui.catalog.command_tables import Reader
from lakeui.jobs.earlier_runs import VERDICTS, comparison_of
from lakeui.jobs.filters import redact_job
from lakeui.jobs.models import Job, JobAttempt, JobEvent, JobStage
from lakeui.jobs.spark_stages import STATUSES, stages_in
from lakeui.jobs.timeline import JobTimeline, PartKind, RunCost, cost_of, timeline_of
from lakeui.monitoring.outlook import Outlook, outlook_of, rerun_of
from lakeui.monitoring.worker_state import SparkPages, spark_pages


class PartSerializer(serializers.Serializer[Any]):
    """A part of a job's time. A step in turns took less than from its start to its end."""

    kind = serializers.ChoiceField(choices=[kind.value for kind in PartKind])
    step = serializers.CharField(
        source="stage.name",
        default=None,
        allow_null=True,
        help_text="The name of the step, if the kind is step.",
    )
    attempt = serializers.IntegerField(allow_null=True)
    started_at = serializers.DateTimeField()
    ended_at = serializers.DateTimeField(
        help_text="For a part that is still running, the time of the job's last record."
    )
    took_ms = Int64Field()
    is_open = serializers.BooleanField(help_text="Whether it is still running.")


class JobTimelineSerializer(serializers.Serializer[Any]):
    """From the request to the end, or to the last record of a running job; the sum of the parts."""

    total_ms = Int64Field()
    excess_ms = Int64Field(
        help_text="How much longer the parts are than the whole, if the clocks of hosts differ."
    )
    parts = PartSerializer(many=True)


class RunFactsSerializer(serializers.Serializer[Any]):
    """One run of the statement. Nulls: not recorded."""

    job_id = serializers.UUIDField()
    started_at = serializers.DateTimeField(allow_null=True)
    committed_version = serializers.IntegerField(allow_null=True)
    attempts = serializers.IntegerField()
    worker = RecordedField()
    total_ms = Int64Field()
    queue_ms = Int64Field()
    row_count = Int64Field(allow_null=True, help_text="Rows inserted, updated and deleted.")
    bytes_read = Int64Field(allow_null=True)
    bytes_written = Int64Field(allow_null=True)


class PartDifferenceSerializer(serializers.Serializer[Any]):
    """A part of the time in this run, and its median in the earlier ones."""

    name = serializers.CharField(
        help_text="A step, `queue`, `wasted attempts`, or another part of the time."
    )
    this_ms = Int64Field()
    usual_ms = Int64Field()
    more_ms = Int64Field()


class MeasureSerializer(serializers.Serializer[Any]):
    """A count of this run, and its median in the earlier runs with a record."""

    name = serializers.CharField()
    unit = serializers.CharField()
    this = Int64Field()
    usual = Int64Field()


class ComparisonSerializer(serializers.Serializer[Any]):
    """Compared with the last successful runs of the same kind and parameters on the table."""

    verdict = serializers.ChoiceField(choices=VERDICTS)
    usual_ms = Int64Field(help_text="The median of the earlier runs, including the queue.")
    more_ms = Int64Field()
    explains = PartDifferenceSerializer(
        allow_null=True, help_text="The part that causes most of the difference."
    )
    differences = PartDifferenceSerializer(many=True, help_text="The largest first.")
    measures = MeasureSerializer(many=True)
    this = RunFactsSerializer()
    runs = RunFactsSerializer(many=True, help_text="At most 8 runs, latest first.")


class SparkStageSerializer(serializers.Serializer[Any]):
    """One of Spark's stages in a step, without the bytes that Python reads and writes itself."""

    stage_id = serializers.IntegerField()
    attempt = serializers.IntegerField(help_text="The attempt of the stage, from 0 as in Spark.")
    status = serializers.ChoiceField(choices=STATUSES)
    started_at = serializers.DateTimeField(allow_null=True)
    ended_at = serializers.DateTimeField(allow_null=True)
    took_ms = Int64Field(allow_null=True, help_text="Only for a stage that has ended.")
    tasks = serializers.IntegerField()
    done = serializers.IntegerField()
    failed = serializers.IntegerField(help_text="Tasks that failed. Spark may have retried them.")
    core_ms = Int64Field()
    bytes_read = Int64Field()
    rows_read = Int64Field(
        allow_null=True, help_text="null: Spark counted lines or files instead of rows."
    )
    shuffle_read = Int64Field(help_text="Bytes.")
    shuffle_written = Int64Field(help_text="Bytes.")
    spilled = Int64Field(help_text="Bytes spilled from memory to disk.")


class JobStageSerializer(serializers.ModelSerializer[JobStage]):
    """A step of an attempt. Nulls: Spark had no part in it, or did not say."""

    found = RecordedField(help_text="The result as a sentence.")
    took_ms = Int64Field()
    done = Int64Field()
    running = Int64Field()
    total = Int64Field()
    median_ms = Int64Field(allow_null=True)
    slowest_ms = Int64Field(allow_null=True)
    core_ms = Int64Field(allow_null=True)
    bytes_read = Int64Field(allow_null=True)
    bytes_shuffled = Int64Field(allow_null=True)
    spark_stages = serializers.SerializerMethodField(
        help_text="The longest Spark stages, in order of their start."
    )

    class Meta:
        model = JobStage
        fields = [
            "name",
            "found",
            "started_at",
            "finished_at",
            "took_ms",
            "unit",
            "done",
            "running",
            "total",
            "median_ms",
            "slowest_ms",
            "slowest_task",
            "core_ms",
            "bytes_read",
            "bytes_shuffled",
            "spark_stage_count",
            "spark_stages",
        ]

    @extend_schema_field(SparkStageSerializer(many=True))
    def get_spark_stages(self, step: JobStage) -> list[dict[str, Any]]:
        return list(SparkStageSerializer(stages_in(step), many=True).data)


class CostSerializer(serializers.Serializer[Any]):
    """Sums over attempts; null if none of them recorded it."""

    attempts = serializers.IntegerField()
    wall_ms = Int64Field(allow_null=True)
    core_ms = Int64Field(allow_null=True)
    bytes_read = Int64Field(allow_null=True)
    bytes_written = Int64Field(allow_null=True)
    bytes_shuffled = Int64Field(allow_null=True)
    files_written = Int64Field(allow_null=True)


class RunCostSerializer(serializers.Serializer[Any]):
    """The cost of a job; `useful` is the running or landed attempt's."""

    useful = CostSerializer()
    wasted = CostSerializer()


class UsualSerializer(serializers.Serializer[Any]):
    """Earlier successful runs of the kind on the table."""

    median_ms = Int64Field()
    spread_ms = Int64Field()
    runs = serializers.IntegerField()


class PairRecordSerializer(serializers.Serializer[Any]):
    """The outcomes of recorded overlaps of the two operations on this table in 30 days."""

    aborted = serializers.IntegerField()
    resolved = serializers.IntegerField()
    files = serializers.IntegerField(
        allow_null=True, help_text="Files shared by a pair, on average."
    )


class LandedSerializer(serializers.Serializer[Any]):
    """A version that the job did not see: whether the two conflict, and why."""

    version = serializers.IntegerField(source="commit.version")
    operation = RecordedField(source="commit.operation")
    writer = RecordedField(source="commit.user_name")
    committed_at = serializers.DateTimeField(source="commit.committed_at", allow_null=True)
    forecast = serializers.ChoiceField(choices=FORECASTS, source="forecast.verdict")
    why = serializers.CharField(source="forecast.why")
    record = PairRecordSerializer()


class ComingSerializer(serializers.Serializer[Any]):
    """A writer that may land first: a job, or a due schedule."""

    operation = serializers.CharField()
    writer = RecordedField()
    expected_at = serializers.DateTimeField(allow_null=True)
    forecast = serializers.ChoiceField(choices=FORECASTS, source="forecast.verdict")
    why = serializers.CharField(source="forecast.why")
    record = PairRecordSerializer()
    job_id = serializers.UUIDField(allow_null=True)
    waits = serializers.BooleanField(help_text="Whether the job has not started.")
    schedule = RecordedField()


class OutlookSerializer(serializers.Serializer[Any]):
    """Competing writes of an active job, as far as known before its own checks."""

    usual = UsualSerializer(allow_null=True)
    expected_end_at = serializers.DateTimeField(allow_null=True)
    read_version = serializers.IntegerField(allow_null=True)
    next_version = serializers.IntegerField(allow_null=True)
    forecast = serializers.ChoiceField(
        choices=FORECASTS, source="verdict", help_text="The worst outcome over all later commits."
    )
    landed_count = serializers.IntegerField()
    landed = LandedSerializer(
        many=True, help_text="At most 10. Commits that change the table's definition come first."
    )
    coming = ComingSerializer(many=True)


class JobForecastRequestSerializer(serializers.Serializer[Any]):
    """The command."""

    kind = serializers.ChoiceField(choices=sorted(COMMANDS), help_text="optimize, delete, …")


class JobForecastSerializer(serializers.Serializer[Any]):
    """The likely overlaps of a job if it began now. Files and bytes are the most it can read."""

    files = Int64Field()
    size_bytes = Int64Field()
    usual = UsualSerializer(allow_null=True)
    next_version = serializers.IntegerField(
        allow_null=True, help_text="The outcome if no other write commits before it."
    )
    forecast = serializers.ChoiceField(
        choices=FORECASTS,
        source="verdict",
        help_text="The worst outcome over all writes that may commit first.",
    )
    coming = ComingSerializer(many=True)


class RerunSerializer(serializers.Serializer[Any]):
    """The outlook of running an ended job again."""

    is_retry = serializers.BooleanField(
        help_text="Whether `:retry` can run it again, because it did not succeed."
    )
    asks_name = serializers.BooleanField(
        help_text="Whether the page asks for the table's name, because the job removes rows or "
        "changes settings."
    )
    forecast = JobForecastSerializer(allow_null=True, help_text="null: it is a dry run.")


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
    spark_application = RecordedField(help_text="The id of the Spark application that ran it.")
    spark_ui = serializers.SerializerMethodField(
        help_text="The URL of Spark's own pages about it. Only for admins of all tables, while "
        "Spark serves them."
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
    plan = ObjectField(help_text="The result of a dry run.")
    error_message = RecordedField()
    error_facts = ObjectField()
    attempt_rows = JobAttemptSerializer(many=True, read_only=True)
    conflicts = serializers.PrimaryKeyRelatedField[Any](many=True, read_only=True)
    follow_ups = serializers.PrimaryKeyRelatedField[Any](
        many=True, read_only=True, help_text="Jobs that this job's commit requested for its table."
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
        help_text="Tables that the steps of a script change in addition to the job's own table."
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
    reason = OptionalTextField(max_length=2000, help_text="For the audit log.")


class JobEventSerializer(serializers.ModelSerializer[JobEvent]):
    """A line of a job's log."""

    data = ObjectField()  # type: ignore[assignment]

    class Meta:
        model = JobEvent
        fields = ["id", "at", "level", "message", "data"]
