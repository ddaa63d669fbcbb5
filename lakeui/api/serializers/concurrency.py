"""The swim-lane of a table."""

from typing import Any

from rest_framework import serializers

from engine.conflict_facts import Rule
from lakeui.api.fields import Int64Field, RecordedChoiceField, RecordedField
from lakeui.conflicts.lanes.bars import BarEnd
from lakeui.conflicts.lanes.narrowing import LaneOutcome
from lakeui.conflicts.lanes.path import RESULTS


class BarSerializer(serializers.Serializer[Any]):
    """A transaction, from read version to commit. null: not recorded."""

    key = serializers.CharField(
        help_text="Give it as `pick` to see the versions it overlapped with."
    )
    lane = serializers.CharField(help_text="Who wrote.")
    engine = RecordedField(allow_null=True)
    operation = serializers.CharField()
    outcome = serializers.ChoiceField(choices=list(BarEnd))
    version = serializers.IntegerField(allow_null=True)
    read_version = serializers.IntegerField(allow_null=True)
    started_at = serializers.DateTimeField(allow_null=True)
    started_is_estimated = serializers.BooleanField()
    finished_at = serializers.DateTimeField(allow_null=True)
    took_ms = serializers.IntegerField(
        allow_null=True, help_text="At most, where the start is estimated."
    )
    isolation_level = RecordedField(allow_null=True)
    is_blind_append = serializers.BooleanField(allow_null=True)
    overlap_count = serializers.IntegerField(
        allow_null=True, help_text="Versions that landed between what it read and its end."
    )
    exempt = serializers.IntegerField(
        allow_null=True, help_text="Blind appends among them, which do not count at its level."
    )
    resolved = serializers.ListField(
        child=serializers.IntegerField(),
        help_text="Versions with which it had a conflict that was resolved at row level.",
    )
    did = RecordedField(source="said", allow_null=True)
    ending = RecordedField(allow_null=True, help_text="What was resolved, or why it was aborted.")
    conflict_id = serializers.IntegerField(allow_null=True)
    winning_version = serializers.IntegerField(allow_null=True)
    wasted_ms = Int64Field()
    wasted_bytes = Int64Field()
    job_id = serializers.UUIDField(allow_null=True)
    pipeline = RecordedField(allow_null=True, help_text="The program elsewhere that reported it.")
    attempt = serializers.IntegerField(allow_null=True)
    percent = serializers.IntegerField(allow_null=True, help_text="Of a running one.")


class JointSerializer(serializers.Serializer[Any]):
    """A conflict resolved at row level."""

    conflict_id = serializers.IntegerField()
    version = serializers.IntegerField(allow_null=True)
    winning_version = serializers.IntegerField(allow_null=True)
    rule = RecordedChoiceField(list(Rule))
    how = serializers.CharField()


class ReorderedSerializer(serializers.Serializer[Any]):
    """Blind append `version` takes effect after the out-of-order version `later`."""

    version = serializers.IntegerField()
    later = serializers.IntegerField()


class LaneCountsSerializer(serializers.Serializer[Any]):
    """Transactions of any outcome that match the other filters; `resolved` are committed too."""

    all = serializers.IntegerField()
    committed = serializers.IntegerField()
    aborted = serializers.IntegerField()
    resolved = serializers.IntegerField()
    running = serializers.IntegerField()
    wasted_ms = Int64Field()
    wasted_bytes = Int64Field()


class OtherSettingSerializer(serializers.Serializer[Any]):
    """All versions of the range replayed with one setting changed: what-if has each verdict."""

    name = serializers.CharField()
    level = serializers.CharField()
    row_level = serializers.BooleanField()
    aborted = serializers.IntegerField(help_text="Committed, and would be aborted.")
    spared = serializers.IntegerField(help_text="Aborted, and would pass.")
    undecidable = serializers.IntegerField(help_text="What is recorded does not decide.")
    not_replayed = serializers.IntegerField(help_text="Versions whose commit is not kept whole.")


class PassageSerializer(serializers.Serializer[Any]):
    """A bucket of time: versions `first` to `last` landed in it; null without any."""

    start = serializers.DateTimeField()
    first = serializers.IntegerField(allow_null=True)
    last = serializers.IntegerField(allow_null=True)
    commits = serializers.IntegerField()
    aborted = serializers.IntegerField()


class NavigatorSerializer(serializers.Serializer[Any]):
    """The surroundings of the range: 24 hours if they contain it, else all recorded time.

    96 buckets of time, without empty ones. `is_capped`: of the latest 3,000 versions only.
    """

    start = serializers.DateTimeField()
    end = serializers.DateTimeField()
    is_day = serializers.BooleanField()
    is_capped = serializers.BooleanField()
    passages = PassageSerializer(many=True)


class StepOnTheWaySerializer(serializers.Serializer[Any]):
    """A version that overlapped with a transaction, and the result."""

    version = serializers.IntegerField()
    operation = RecordedField(allow_null=True)
    result = serializers.ChoiceField(
        choices=RESULTS,
        source="verdict",
        help_text="Of a transaction that runs, what is forecast.",
    )
    why = serializers.CharField()


class NextAttemptSerializer(serializers.Serializer[Any]):
    """The same job's next attempt after the abort; `version` null: it has not committed."""

    job_id = serializers.UUIDField()
    number = serializers.IntegerField(allow_null=True)
    version = serializers.IntegerField(allow_null=True)
    finished_at = serializers.DateTimeField(allow_null=True)
    state = serializers.CharField(help_text="The job's.")


class LanePathSerializer(serializers.Serializer[Any]):
    """The versions that overlapped with transaction `pick`, without `left_out` earlier ones."""

    key = serializers.CharField(source="bar.key")
    steps = StepOnTheWaySerializer(many=True)
    left_out = serializers.IntegerField()
    after = NextAttemptSerializer(allow_null=True)


class SwimLaneSerializer(serializers.Serializer[Any]):
    """Transactions of a range of versions, in the order of their end, and running ones."""

    first = serializers.IntegerField()
    last = serializers.IntegerField()
    lanes = serializers.ListField(child=serializers.CharField())
    counts = LaneCountsSerializer()
    bars = BarSerializer(many=True)
    running = BarSerializer(many=True)
    joints = JointSerializer(many=True)
    reordered = ReorderedSerializer(many=True)
    other_settings = OtherSettingSerializer(many=True)
    around = NavigatorSerializer(allow_null=True, help_text="null: no version has a time.")
    picked = LanePathSerializer(allow_null=True)


class SwimLaneRequestSerializer(serializers.Serializer[Any]):
    """A range of versions, both ends included; at most 500."""

    first = serializers.IntegerField(required=False, min_value=0, max_value=2**53 - 1)
    last = serializers.IntegerField(required=False, min_value=0, max_value=2**53 - 1)


class ConcurrencyRequestSerializer(SwimLaneRequestSerializer):
    """The transactions of a range, and the one to follow."""

    outcome = serializers.ChoiceField(
        choices=list(LaneOutcome),
        required=False,
    )
    writer = serializers.CharField(required=False, default="", max_length=300)
    operation = serializers.CharField(required=False, default="", max_length=300)
    partition = serializers.CharField(
        required=False,
        default="",
        max_length=300,
        help_text="column=value, as far as the mirror lists the files of a version.",
    )
    pick = serializers.CharField(
        required=False, default="", max_length=60, help_text="A bar's `key`."
    )


class LaneSumsRequestSerializer(serializers.Serializer[Any]):
    """A range of versions, both ends included; at most the latest 5,000 of them."""

    first = serializers.IntegerField(required=False, default=0, min_value=0, max_value=2**53 - 1)
    last = serializers.IntegerField(required=False, min_value=0, max_value=2**53 - 1)
    by = serializers.ChoiceField(choices=("writer", "operation"), required=False, default="writer")
    writer = serializers.CharField(required=False, default="", max_length=300)
    operation = serializers.CharField(required=False, default="", max_length=300)


class LaneBucketSerializer(serializers.Serializer[Any]):
    """Commits in versions `first` to `last`, and attempts aborted by them."""

    first = serializers.IntegerField()
    last = serializers.IntegerField()
    commits = serializers.IntegerField()
    aborted = serializers.IntegerField()
    began_at = serializers.DateTimeField(allow_null=True, help_text="When `first` landed.")


class LaneSerializer(serializers.Serializer[Any]):
    """One writer or operation; "others" beyond the busiest twenty."""

    name = serializers.CharField()
    operation = RecordedField(allow_null=True, help_text="Its most frequent one.")
    commits = serializers.IntegerField()
    aborted = serializers.IntegerField()
    buckets = LaneBucketSerializer(many=True)


class LaneSumsSerializer(serializers.Serializer[Any]):
    """All lanes have the same buckets."""

    first = serializers.IntegerField()
    last = serializers.IntegerField()
    began_at = serializers.DateTimeField(allow_null=True, help_text="When `first` landed.")
    ended_at = serializers.DateTimeField(allow_null=True, help_text="When `last` landed.")
    wasted_ms = Int64Field()
    wasted_bytes = Int64Field()
    lanes = LaneSerializer(many=True)
    all = LaneSerializer()
