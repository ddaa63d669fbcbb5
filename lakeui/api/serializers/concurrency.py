"""Eligibility, isolation, the matrix and the swim-lane of a table."""

from typing import Any

from rest_framework import serializers

from lakeui.api.fields import Int64Field, ObjectField, RecordedField
from lakeui.conflicts.what_if import Verdict

LEVELS = ["Serializable", "WriteSerializable"]


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


class RunningJobSerializer(serializers.Serializer[Any]):
    """A job that would lose."""

    id = serializers.UUIDField()
    kind = serializers.CharField()
    state = serializers.CharField()


class ImpactSerializer(serializers.Serializer[Any]):
    """What a change of the settings would do."""

    changes = serializers.DictField(child=serializers.CharField())
    losing_jobs = RunningJobSerializer(many=True)
    streams = serializers.ListField(child=serializers.CharField())
    new_features = serializers.ListField(child=serializers.CharField())
    locked_out = serializers.ListField(child=serializers.CharField())
    irreversible = serializers.ListField(child=serializers.CharField())
    warnings = serializers.ListField(child=serializers.CharField())


class SettingsSerializer(serializers.Serializer[Any]):
    """The settings that decide who conflicts; those left out stay as they are."""

    level = serializers.ChoiceField(choices=LEVELS, required=False)
    deletion_vectors = serializers.BooleanField(required=False, allow_null=True, default=None)
    row_tracking = serializers.BooleanField(required=False, allow_null=True, default=None)


class SettingsChangeSerializer(SettingsSerializer):
    """A change of the settings, as a job."""

    reason = serializers.CharField(
        required=False,
        default="",
        allow_blank=True,
        max_length=2000,
        help_text="For the audit trail.",
    )


class PropertyChangeSerializer(serializers.Serializer[Any]):
    """null: not set."""

    name = serializers.CharField()
    old = serializers.CharField(allow_null=True)
    new = serializers.CharField(allow_null=True)


class RevertSerializer(serializers.Serializer[Any]):
    """A job to ask for at `tables/{id}/jobs/`."""

    kind = serializers.CharField()
    parameters = serializers.DictField()


class SettingsHistorySerializer(serializers.Serializer[Any]):
    """A version that changed properties; `revert` are the jobs that put back what can be."""

    version = serializers.IntegerField(source="commit.version")
    committed_at = serializers.DateTimeField(source="commit.committed_at", allow_null=True)
    user_name = RecordedField(source="commit.user_name")
    changes = PropertyChangeSerializer(many=True)
    is_in_force = serializers.BooleanField()
    obstacle = RecordedField()
    revert = RevertSerializer(many=True)


class IsolationSerializer(serializers.Serializer[Any]):
    """The level in force and the settings beside it; `impact` of the change that was asked about."""

    level = RecordedField(allow_null=True)
    is_set = serializers.BooleanField(help_text="false: the default is in force.")
    promise = serializers.CharField()
    deletion_vectors = serializers.BooleanField()
    row_tracking = serializers.BooleanField()
    row_level_eligible = serializers.BooleanField()
    row_level_reason = serializers.CharField()
    promises = serializers.DictField(child=serializers.CharField())
    impact = ImpactSerializer(allow_null=True)
    history = SettingsHistorySerializer(many=True)


class PairSerializer(serializers.Serializer[Any]):
    """Two operations that met; the one that lost or gave way first."""

    current_operation = RecordedField(allow_null=True)
    winner_operation = RecordedField(allow_null=True)
    escaped = serializers.IntegerField()
    absorbed = serializers.IntegerField()
    reported = serializers.IntegerField()
    wasted_ms = Int64Field()
    wasted_bytes = Int64Field()
    example_id = serializers.IntegerField()


class CellSerializer(serializers.Serializer[Any]):
    """What the checker says of two kinds of statement; `current` is the one that commits second."""

    current = serializers.CharField()
    winner = serializers.CharField()
    verdict = serializers.CharField(help_text="never, same row, same file set or always.")
    exceptions = serializers.ListField(child=serializers.CharField())


class MatrixSerializer(serializers.Serializer[Any]):
    """Computed for a table of this level, layout and features, beside what was observed."""

    level = serializers.CharField()
    computed = CellSerializer(many=True)
    observed = PairSerializer(many=True)


class CommitVerdictSerializer(serializers.Serializer[Any]):
    """A commit that met others, under the other setting."""

    version = serializers.IntegerField()
    operation = RecordedField(allow_null=True)
    met = serializers.ListField(child=serializers.IntegerField())
    verdict = serializers.ChoiceField(choices=list(Verdict))
    why = serializers.CharField()
    rule = serializers.CharField(allow_null=True)
    winning_version = serializers.IntegerField(allow_null=True)


class ConflictVerdictSerializer(serializers.Serializer[Any]):
    """A recorded conflict, under the other setting."""

    conflict_id = serializers.IntegerField()
    kind = serializers.CharField(help_text="escaped or absorbed.")
    rule = RecordedField(allow_null=True)
    verdict = serializers.ChoiceField(choices=list(Verdict))
    why = serializers.CharField()


class WhatIfSerializer(serializers.Serializer[Any]):
    """A range of versions under another setting."""

    level = serializers.CharField()
    row_level = serializers.BooleanField()
    first = serializers.IntegerField()
    last = serializers.IntegerField()
    commits = CommitVerdictSerializer(many=True)
    conflicts = ConflictVerdictSerializer(many=True)
    not_replayed = serializers.ListField(
        child=serializers.IntegerField(), help_text="Versions whose commit is not kept whole."
    )


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


class WhatIfRequestSerializer(SwimLaneRequestSerializer):
    """The other setting; what is left out is as the table has it."""

    level = serializers.ChoiceField(choices=LEVELS, required=False)
    row_level = serializers.BooleanField(required=False, allow_null=True, default=None)


class MatrixRequestSerializer(serializers.Serializer[Any]):
    """Which level to compute for, the table's own by default, and how far back to look."""

    level = serializers.ChoiceField(choices=LEVELS, required=False)

    days = serializers.IntegerField(required=False, min_value=1, max_value=3650, default=30)
