"""The parts of a job's time, compared with earlier runs of the same statement."""

from typing import Any

from rest_framework import serializers

from lakeui.api.fields import Int64Field, RecordedField
from lakeui.jobs.same_runs import VERDICTS
from lakeui.jobs.timeline import PartKind


class PartSerializer(serializers.Serializer[Any]):
    """A part of a job's time. A step in turns took less than from its start to its end."""

    kind = serializers.ChoiceField(choices=[kind.value for kind in PartKind])
    step = serializers.CharField(
        source="stage.name", default=None, allow_null=True, help_text="Of kind step: its name."
    )
    attempt = serializers.IntegerField(allow_null=True)
    started_at = serializers.DateTimeField()
    ended_at = serializers.DateTimeField(
        help_text="Of a part that goes on: when the job was last recorded."
    )
    took_ms = Int64Field()
    is_open = serializers.BooleanField(help_text="It goes on.")


class JobTimelineSerializer(serializers.Serializer[Any]):
    """From the request to the end, or to the last record of a running job; the sum of the parts."""

    total_ms = Int64Field()
    excess_ms = Int64Field(
        help_text="By how much the parts are more than the whole, where clocks of hosts disagree."
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

    name = serializers.CharField(help_text="A step, `queue`, `wasted attempts`, or a kind of rest.")
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
    usual_ms = Int64Field(help_text="The median of the earlier runs, queue included.")
    more_ms = Int64Field()
    explains = PartDifferenceSerializer(
        allow_null=True, help_text="The part that makes most of the difference."
    )
    differences = PartDifferenceSerializer(many=True, help_text="The largest first.")
    measures = MeasureSerializer(many=True)
    this = RunFactsSerializer()
    runs = RunFactsSerializer(many=True, help_text="At most 8, the latest first.")
