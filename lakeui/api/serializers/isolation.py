"""The settings that decide conflicts, the effects of changing them, overlaps, and the swim-lane."""

from typing import Any

from rest_framework import serializers

from engine.conflict_facts import Rule
from engine.conflicts.predict.forecast import MATRIX_VERDICTS
from engine.protocol.properties import SETTABLE_LEVELS
from lakeui.api.fields import Int64Field, OptionalTextField, RecordedChoiceField, RecordedField
from lakeui.api.serializers.request import PageRequestSerializer, RequestSerializer
from lakeui.conflicts.isolation.overlaps import ENDS
from lakeui.conflicts.lanes.bars import BarEnd
from lakeui.conflicts.lanes.narrowing import LaneOutcome
from lakeui.conflicts.lanes.path import RESULTS
from lakeui.conflicts.statements.text import KINDS, OTHER

LEVELS = [level.value for level in SETTABLE_LEVELS]


class RunningJobSerializer(serializers.Serializer[Any]):
    """A job to be aborted by the change."""

    id = serializers.UUIDField()
    kind = serializers.CharField()
    state = serializers.CharField()
    by = RecordedField(allow_null=True)
    since = serializers.DateTimeField(allow_null=True, help_text="The start of its attempt.")


class SeenStreamSerializer(serializers.Serializer[Any]):
    """A stream seen in 7 days. A reader would stop; a writer's batch would be aborted."""

    name = RecordedField(allow_null=True)
    reads = serializers.BooleanField()
    by = RecordedField(allow_null=True)
    last_at = serializers.DateTimeField(allow_null=True)


class CommittedLineSerializer(serializers.Serializer[Any]):
    """A line of the log to be added (+) or removed (-)."""

    sign = serializers.ChoiceField(choices=["+", "-"])
    text = serializers.CharField()


class CommittedSerializer(serializers.Serializer[Any]):
    """The contents of the commits, by action of the log."""

    name = serializers.CharField()
    lines = CommittedLineSerializer(many=True)


class UndecidedSerializer(serializers.Serializer[Any]):
    """Writes whose verdict cannot be derived from the record, and why."""

    kind = RecordedField(allow_null=True)
    count = serializers.IntegerField()
    why = serializers.CharField()


class ForecastSerializer(serializers.Serializer[Any]):
    """The last 30 days under the other settings. `more` is certain, by kind; `then` a minimum."""

    days = serializers.IntegerField()
    now = serializers.IntegerField(help_text="Writes aborted in these days.")
    then = serializers.IntegerField()
    more = serializers.DictField(child=serializers.IntegerField())
    fewer = serializers.IntegerField()
    undecided = UndecidedSerializer(many=True)
    unread = serializers.IntegerField(help_text="Overlaps that were not checked.")
    append_overlaps = serializers.IntegerField(
        allow_null=True, help_text="Overlaps with blind appends that count at the other level."
    )
    out_of_order = serializers.ListField(
        child=serializers.IntegerField(),
        allow_null=True,
        help_text="Out-of-order versions that would not exist. null: the level stays the same.",
    )


class ImpactSerializer(serializers.Serializer[Any]):
    """The effects of a change of the settings."""

    changes = serializers.DictField(child=serializers.CharField())
    clustering = serializers.ListField(child=serializers.CharField(), allow_null=True)
    committed = CommittedSerializer(many=True)
    aborted_jobs = RunningJobSerializer(many=True)
    streams = SeenStreamSerializer(many=True)
    new_features = serializers.ListField(child=serializers.CharField())
    locked_out = serializers.ListField(child=serializers.CharField())
    irreversible = serializers.ListField(child=serializers.CharField())
    undone_by = serializers.ListField(
        child=serializers.CharField(), help_text="Statements that restore the settings."
    )
    warnings = serializers.ListField(child=serializers.CharField())


class SettingsSerializer(RequestSerializer):
    """The settings that decide conflicts; omitted ones stay as they are."""

    level = serializers.ChoiceField(choices=LEVELS, required=False)
    deletion_vectors = serializers.BooleanField(required=False, allow_null=True, default=None)
    row_tracking = serializers.BooleanField(required=False, allow_null=True, default=None)
    clustering_columns = serializers.CharField(
        required=False,
        allow_blank=True,
        max_length=500,
        help_text="At most four, separated by commas. Empty: none.",
    )


class SettingsChangeSerializer(SettingsSerializer):
    """A change of the settings, as a job."""

    reason = OptionalTextField(max_length=2000, help_text="For the audit log.")


class PropertyChangeSerializer(serializers.Serializer[Any]):
    """null: not set."""

    name = serializers.CharField()
    old = serializers.CharField(allow_null=True)
    new = serializers.CharField(allow_null=True)


class RevertSerializer(serializers.Serializer[Any]):
    """A job to POST to `tables/{id}/jobs/`."""

    kind = serializers.CharField()
    parameters = serializers.DictField()


class SettingsHistorySerializer(serializers.Serializer[Any]):
    """A version that changed properties; `revert` are the jobs that restore as much as possible."""

    version = serializers.IntegerField(source="commit.version")
    committed_at = serializers.DateTimeField(source="commit.committed_at", allow_null=True)
    user_name = RecordedField(source="commit.user_name")
    changes = PropertyChangeSerializer(many=True)
    is_in_force = serializers.BooleanField()
    obstacle = RecordedField()
    revert = RevertSerializer(many=True)


class PairCellSerializer(serializers.Serializer[Any]):
    """Two kinds of statement on this table: the verdict, and how often they overlapped in those days."""

    current = serializers.ChoiceField(choices=KINDS)
    winner = serializers.ChoiceField(choices=KINDS)
    verdict = serializers.ChoiceField(choices=MATRIX_VERDICTS)
    preview = RecordedField(
        allow_null=True, help_text="The value under the proposed settings. null: it stays the same."
    )
    exceptions = serializers.ListField(child=serializers.CharField())
    overlap_count = serializers.IntegerField()
    resolved = serializers.IntegerField()
    aborted = serializers.IntegerField()


class OverlapSumsSerializer(serializers.Serializer[Any]):
    """The basis of the overlap counts: the latest 5,000 versions of those days at most."""

    since = serializers.DateTimeField()
    first = serializers.IntegerField(allow_null=True)
    last = serializers.IntegerField(allow_null=True)
    commits = serializers.IntegerField()
    unrecorded = serializers.IntegerField(help_text="Commits that do not record what they read.")
    is_capped = serializers.BooleanField()
    total = serializers.IntegerField()
    elsewhere = serializers.IntegerField(help_text="Overlaps of statements that have no cell.")


class IsolationSerializer(serializers.Serializer[Any]):
    """The level in force and related settings; `impact` of the proposed change."""

    level = RecordedField(allow_null=True)
    is_set = serializers.BooleanField(help_text="false: the default applies.")
    promise = serializers.CharField()
    deletion_vectors = serializers.BooleanField()
    row_tracking = serializers.BooleanField()
    clustering_columns = serializers.ListField(child=serializers.CharField())
    resolves_feature_enablement = serializers.BooleanField(
        help_text="Whether running writes can commit after a commit that only enables a feature."
    )
    row_level_eligible = serializers.BooleanField()
    row_level_reason = serializers.CharField()
    promises = serializers.DictField(child=serializers.CharField())
    impact = ImpactSerializer(allow_null=True)
    forecast = ForecastSerializer(
        allow_null=True, help_text="null: the settings have no effect that records can show."
    )
    cells = PairCellSerializer(many=True)
    overlaps = OverlapSumsSerializer()
    history = SettingsHistorySerializer(many=True)


class PairSerializer(serializers.Serializer[Any]):
    """The operations of two overlapping writes, with this transaction's first."""

    current_operation = RecordedField(allow_null=True)
    winner_operation = RecordedField(allow_null=True)
    aborted = serializers.IntegerField()
    resolved = serializers.IntegerField()
    reported = serializers.IntegerField()
    wasted_ms = Int64Field()
    wasted_bytes = Int64Field()
    example_id = serializers.IntegerField()


class CellSerializer(serializers.Serializer[Any]):
    """The checker's verdict on two kinds of statement; `current` commits second."""

    current = serializers.CharField()
    winner = serializers.CharField()
    verdict = serializers.ChoiceField(choices=MATRIX_VERDICTS)
    exceptions = serializers.ListField(child=serializers.CharField())


class MatrixSerializer(serializers.Serializer[Any]):
    """Computed for a table of this level, layout and features, beside observed counts."""

    level = serializers.CharField()
    computed = CellSerializer(many=True)
    cells = PairCellSerializer(many=True)
    overlaps = OverlapSumsSerializer()
    observed = PairSerializer(many=True)


class MatrixRequestSerializer(serializers.Serializer[Any]):
    """The level to compute for, by default the table's own, and the number of days to count."""

    level = serializers.ChoiceField(choices=LEVELS, required=False)
    days = serializers.IntegerField(required=False, min_value=1, max_value=3650, default=30)


class OverlapsRequestSerializer(PageRequestSerializer):
    """The kinds of both sides, the later one first."""

    current = serializers.ChoiceField(choices=[*KINDS, OTHER])
    winner = serializers.ChoiceField(choices=[*KINDS, OTHER])


class OverlapRowSerializer(serializers.Serializer[Any]):
    """An overlap of the last 30 days. `version` is null if the later write was aborted."""

    verdict = serializers.ChoiceField(choices=ENDS)
    version = serializers.IntegerField(allow_null=True)
    operation = RecordedField(allow_null=True)
    user_name = RecordedField(allow_null=True)
    winning_version = serializers.IntegerField()
    winner_operation = RecordedField(allow_null=True)
    winner_user_name = RecordedField(allow_null=True)
    at = serializers.DateTimeField(allow_null=True)
    conflict_id = serializers.IntegerField(allow_null=True)
    row_count = Int64Field(allow_null=True)


class OutOfOrderSerializer(serializers.Serializer[Any]):
    """A version whose state no prefix of the history explains (WriteSerializable reordering).

    `appends` are blind appends recorded before it that take effect after it. `is_known`: its reads
    are recorded, and statistics do not rule the appends out.
    """

    version = serializers.IntegerField(source="order.version")
    appends = serializers.ListField(child=serializers.IntegerField(), source="order.appends")
    is_known = serializers.BooleanField(source="order.is_known")
    operation = RecordedField(source="commit.operation", allow_null=True, default=None)
    predicate = RecordedField(source="commit.predicate", allow_null=True, default=None)
    rows_at_most = Int64Field(allow_null=True, help_text="Rows that the appends added.")
    at = serializers.DateTimeField(allow_null=True)


class BarSerializer(serializers.Serializer[Any]):
    """A transaction, from read version to commit. null: not recorded."""

    key = serializers.CharField(
        help_text="Use it as `pick` to get the versions that it overlapped with."
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
        allow_null=True, help_text="An upper limit if the start is estimated."
    )
    isolation_level = RecordedField(allow_null=True)
    is_blind_append = serializers.BooleanField(allow_null=True)
    overlap_count = serializers.IntegerField(
        allow_null=True, help_text="Versions committed between its read version and its end."
    )
    exempt = serializers.IntegerField(
        allow_null=True,
        help_text="The blind appends among them that do not count at its isolation level.",
    )
    resolved = serializers.ListField(
        child=serializers.IntegerField(),
        help_text="Versions with which it had a conflict that was resolved at row level.",
    )
    did = RecordedField(source="said", allow_null=True)
    ending = RecordedField(
        allow_null=True, help_text="What was resolved at row level, or why the write was aborted."
    )
    conflict_id = serializers.IntegerField(allow_null=True)
    winning_version = serializers.IntegerField(allow_null=True)
    wasted_ms = Int64Field()
    wasted_bytes = Int64Field()
    job_id = serializers.UUIDField(allow_null=True)
    pipeline = RecordedField(allow_null=True, help_text="The external program that reported it.")
    attempt = serializers.IntegerField(allow_null=True)
    percent = serializers.IntegerField(allow_null=True, help_text="Only for a running transaction.")


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
    aborted = serializers.IntegerField(help_text="Writes that committed and would be aborted.")
    spared = serializers.IntegerField(help_text="Writes that were aborted and would pass.")
    undecidable = serializers.IntegerField(
        help_text="Writes whose records are not sufficient to decide."
    )
    not_replayed = serializers.IntegerField(
        help_text="Versions whose commit is not fully recorded."
    )


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
        help_text="The forecast for a running transaction.",
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
    around = NavigatorSerializer(allow_null=True, help_text="null: no version has a known time.")
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
        help_text="column=value, if the mirror lists the files of the version.",
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
    began_at = serializers.DateTimeField(
        allow_null=True, help_text="The time when `first` was committed."
    )


class LaneSerializer(serializers.Serializer[Any]):
    """One writer or operation; "others" beyond the busiest twenty."""

    name = serializers.CharField()
    operation = RecordedField(allow_null=True, help_text="The most frequent operation.")
    commits = serializers.IntegerField()
    aborted = serializers.IntegerField()
    buckets = LaneBucketSerializer(many=True)


class LaneSumsSerializer(serializers.Serializer[Any]):
    """All lanes have the same buckets."""

    first = serializers.IntegerField()
    last = serializers.IntegerField()
    began_at = serializers.DateTimeField(
        allow_null=True, help_text="The time when `first` was committed."
    )
    ended_at = serializers.DateTimeField(
        allow_null=True, help_text="The time when `last` was committed."
    )
    wasted_ms = Int64Field()
    wasted_bytes = Int64Field()
    lanes = LaneSerializer(many=True)
    all = LaneSerializer()
