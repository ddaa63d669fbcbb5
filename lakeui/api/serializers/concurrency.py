"""Eligibility and the swim-lane of a table."""

from typing import Any

from rest_framework import serializers

from lakeui.api.fields import ObjectField, RecordedField


class StepSerializer(serializers.Serializer[Any]):
    """A condition of row-level concurrency. `job` is what to POST to the table's jobs to mend it."""

    name = serializers.CharField()
    holds = serializers.BooleanField()
    evidence = serializers.CharField()
    fix = RecordedField(allow_null=True)
    cost = RecordedField(allow_null=True)
    job = ObjectField(allow_null=True)


class RuntimeSerializer(serializers.Serializer[Any]):
    """What another engine does with this table."""

    runtime = serializers.CharField()
    takes_part = serializers.BooleanField()
    reason = serializers.CharField()
    limits = RecordedField(allow_null=True)


class EligibilitySerializer(serializers.Serializer[Any]):
    """Whether the table takes part in row-level concurrency, and why. null: not mirrored yet."""

    eligible = serializers.BooleanField(allow_null=True)
    obstacle = RecordedField(allow_null=True)
    traces_moves = serializers.BooleanField(help_text="OPTIMIZE can be followed row by row.")
    conditions = StepSerializer(many=True)
    runtimes = RuntimeSerializer(many=True)
    locked_out = serializers.ListField(child=serializers.CharField())
    avoided = serializers.IntegerField(help_text="Conflicts that rows resolved so far.")
    avoided_lately = serializers.IntegerField(help_text="The same, in the last 30 days.")


class BarSerializer(serializers.Serializer[Any]):
    """A transaction, from read version to commit."""

    lane = serializers.CharField()
    operation = serializers.CharField()
    outcome = serializers.ChoiceField(choices=["committed", "escaped", "reported"])
    version = serializers.IntegerField(allow_null=True)
    read_version = serializers.IntegerField(allow_null=True)
    started_at = serializers.DateTimeField(allow_null=True)
    started_is_estimated = serializers.BooleanField()
    finished_at = serializers.DateTimeField(allow_null=True)
    isolation_level = RecordedField(allow_null=True)
    is_blind_append = serializers.BooleanField(allow_null=True)
    conflict_id = serializers.IntegerField(allow_null=True)
    winning_version = serializers.IntegerField(allow_null=True)
    job_id = serializers.UUIDField(allow_null=True)


class JointSerializer(serializers.Serializer[Any]):
    """An absorbed conflict."""

    conflict_id = serializers.IntegerField()
    version = serializers.IntegerField(allow_null=True)
    winning_version = serializers.IntegerField(allow_null=True)
    rule = serializers.CharField()


class ReorderedSerializer(serializers.Serializer[Any]):
    """A blind append that may be ordered after a later version which did not read it."""

    version = serializers.IntegerField()
    later = serializers.IntegerField()


class SwimLaneSerializer(serializers.Serializer[Any]):
    """Transactions of a range of versions, in the order in which they ended."""

    first = serializers.IntegerField()
    last = serializers.IntegerField()
    lanes = serializers.ListField(child=serializers.CharField())
    bars = BarSerializer(many=True)
    joints = JointSerializer(many=True)
    reordered = ReorderedSerializer(many=True)


class SwimLaneRequestSerializer(serializers.Serializer[Any]):
    """A range of versions, both ends included; at most 500."""

    first = serializers.IntegerField(required=False, min_value=0, max_value=2**53)
    last = serializers.IntegerField(required=False, min_value=0, max_value=2**53)


class LaneSumsRequestSerializer(serializers.Serializer[Any]):
    """A range of versions, both ends included; at most 5,000, the latest of them."""

    first = serializers.IntegerField(required=False, default=0, min_value=0, max_value=2**53)
    last = serializers.IntegerField(required=False, min_value=0, max_value=2**53)
    by = serializers.ChoiceField(choices=("writer", "operation"), required=False, default="writer")


class LaneBucketSerializer(serializers.Serializer[Any]):
    """Commits that landed in versions `first` to `last`, attempts that lost to them."""

    first = serializers.IntegerField()
    last = serializers.IntegerField()
    commits = serializers.IntegerField()
    lost = serializers.IntegerField()


class LaneSerializer(serializers.Serializer[Any]):
    """One writer or operation; "others" beyond the busiest twenty."""

    name = serializers.CharField()
    commits = serializers.IntegerField()
    lost = serializers.IntegerField()
    buckets = LaneBucketSerializer(many=True)


class LaneSumsSerializer(serializers.Serializer[Any]):
    """All lanes have the same buckets."""

    first = serializers.IntegerField()
    last = serializers.IntegerField()
    lanes = LaneSerializer(many=True)
    all = LaneSerializer()
