"""A job's run: its steps, their cost, and competing writes."""

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from engine.commands.model import COMMANDS
from engine.conflicts.forecast import FORECASTS
from lakeui.api.fields import Int64Field, RecordedField
from lakeui.jobs.models import JobStage
from lakeui.jobs.spark_stages import STATUSES, stages_in


class SparkStageSerializer(serializers.Serializer[Any]):
    """One of Spark's stages in a step, without the bytes that Python reads and writes itself."""

    stage_id = serializers.IntegerField()
    attempt = serializers.IntegerField(help_text="From 0, as in Spark: it runs a stage anew.")
    status = serializers.ChoiceField(choices=STATUSES)
    started_at = serializers.DateTimeField(allow_null=True)
    ended_at = serializers.DateTimeField(allow_null=True)
    took_ms = Int64Field(allow_null=True, help_text="Of a stage that has ended.")
    tasks = serializers.IntegerField()
    done = serializers.IntegerField()
    failed = serializers.IntegerField(help_text="Tasks that failed; Spark may have run them anew.")
    core_ms = Int64Field()
    bytes_read = Int64Field()
    rows_read = Int64Field(
        allow_null=True, help_text="null: Spark counted lines or files, and not rows."
    )
    shuffle_read = Int64Field(help_text="Bytes.")
    shuffle_written = Int64Field(help_text="Bytes.")
    spilled = Int64Field(help_text="Bytes that did not fit into memory and went to disk.")


class JobStageSerializer(serializers.ModelSerializer[JobStage]):
    """A step of an attempt. Nulls: Spark had no part in it, or did not say."""

    found = RecordedField(help_text="What it found, in words.")
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
        help_text="The longest of Spark's stages in the order in which they began."
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
    """How recorded overlaps of the two operations ended on this table in 30 days."""

    aborted = serializers.IntegerField()
    resolved = serializers.IntegerField()
    files = serializers.IntegerField(allow_null=True, help_text="Shared by the average pair.")


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
    waits = serializers.BooleanField(help_text="A job that has not begun.")
    schedule = RecordedField()


class OutlookSerializer(serializers.Serializer[Any]):
    """Competing writes of an active job, as far as known before its own checks."""

    usual = UsualSerializer(allow_null=True)
    expected_end_at = serializers.DateTimeField(allow_null=True)
    read_version = serializers.IntegerField(allow_null=True)
    next_version = serializers.IntegerField(allow_null=True)
    forecast = serializers.ChoiceField(
        choices=FORECASTS, source="verdict", help_text="The worst of all that landed."
    )
    landed_count = serializers.IntegerField()
    landed = LandedSerializer(many=True, help_text="At most 10; what defines the table first.")
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
        allow_null=True, help_text="If nothing else committed before it."
    )
    forecast = serializers.ChoiceField(
        choices=FORECASTS, source="verdict", help_text="The worst of all that may commit first."
    )
    coming = ComingSerializer(many=True)


class RerunSerializer(serializers.Serializer[Any]):
    """The outlook of running an ended job again."""

    is_retry = serializers.BooleanField(help_text="It did not succeed: `:retry` runs it again.")
    asks_name = serializers.BooleanField(
        help_text="It removes rows or changes settings: the page asks for the table's name."
    )
    forecast = JobForecastSerializer(allow_null=True, help_text="Null of a dry run.")
