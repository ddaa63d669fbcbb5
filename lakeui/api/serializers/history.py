"""A table over time: commits by bucket, growth, a version's effects on other writes."""

from typing import Any

from rest_framework import serializers

from lakeui.api.fields import Int64Field, RecordedField
from lakeui.conflicts.commit_timeline import RANGES


class TimelineRequestSerializer(serializers.Serializer[Any]):
    """How far back; a day if not given."""

    range = serializers.ChoiceField(choices=list(RANGES), required=False, default="24h")


class OperationCommitsSerializer(serializers.Serializer[Any]):
    """How many commits did this."""

    operation = RecordedField()
    commits = serializers.IntegerField()


class TimeBucketSerializer(serializers.Serializer[Any]):
    """Commits from `start` on, for as long as a bucket is; empty ones are left out."""

    start = serializers.DateTimeField()
    operations = OperationCommitsSerializer(many=True)
    aborted = serializers.IntegerField(help_text="Aborted attempts of this installation's jobs.")


class TimelineSerializer(serializers.Serializer[Any]):
    """Commits, aborted attempts and resolved conflicts of a span, by bucket of time."""

    range = serializers.CharField(source="name")
    start = serializers.DateTimeField()
    end = serializers.DateTimeField()
    bucket_seconds = serializers.SerializerMethodField()
    commit_count = serializers.IntegerField()
    resolved = serializers.IntegerField()
    aborted = serializers.IntegerField()
    beaten = serializers.IntegerField(help_text="Versions that aborted others.")
    operations = OperationCommitsSerializer(many=True)
    buckets = TimeBucketSerializer(many=True)

    def get_bucket_seconds(self, timeline: Any) -> int:
        return int(timeline.width.total_seconds())


class GrowthPointSerializer(serializers.Serializer[Any]):
    """The table after a version."""

    version = serializers.IntegerField()
    committed_at = serializers.DateTimeField(allow_null=True)
    size_bytes = Int64Field()
    file_count = serializers.IntegerField()


class GrowthSerializer(serializers.Serializer[Any]):
    """Oldest first, at most 60 points over the latest 1,000 versions without a gap."""

    version_count = serializers.IntegerField()
    is_estimated = serializers.BooleanField(
        help_text="Some commit removed files without their size: sizes before it are too small."
    )
    points = GrowthPointSerializer(many=True)


class OverlappingWriteSerializer(serializers.Serializer[Any]):
    """A version's conflict, from the other side."""

    conflict_id = serializers.IntegerField(source="pk")
    kind = serializers.CharField()
    operation = RecordedField(source="current_operation")
    user_name = RecordedField(source="current_user_name")
    read_version = serializers.IntegerField(allow_null=True)
    winning_version = serializers.IntegerField(allow_null=True)
    winner_operation = RecordedField()
    row_count = Int64Field(allow_null=True)
    wasted_ms = serializers.IntegerField()


class StoppedStreamSerializer(serializers.Serializer[Any]):
    """A stream that ran as a job here and stopped at a version."""

    job_id = serializers.UUIDField(source="pk")
    stream_name = serializers.CharField(source="parameters.stream_name", default="")
    target = serializers.CharField(source="table.name")
    stopped_at = serializers.DateTimeField(source="finished_at")


class VersionEffectsSerializer(serializers.Serializer[Any]):
    """A version's effects on others; at most 20 of each kind, with the full counts."""

    aborted_count = serializers.IntegerField()
    aborted = OverlappingWriteSerializer(many=True, help_text="Attempts aborted by it.")
    passed_count = serializers.IntegerField()
    passed = OverlappingWriteSerializer(
        many=True, help_text="Writes that overlapped with it and committed."
    )
    resolved_count = serializers.IntegerField()
    resolved = OverlappingWriteSerializer(many=True, help_text="Conflicts that it resolved itself.")
