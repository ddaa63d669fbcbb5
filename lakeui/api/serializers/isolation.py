"""The settings that decide conflicts, the effects of changing them, and overlapping pairs."""

from typing import Any

from rest_framework import serializers

from engine.conflicts.matrix import MATRIX_VERDICTS
from engine.protocol.properties import SETTABLE_LEVELS
from lakeui.api.fields import Int64Field, RecordedField
from lakeui.api.serializers.request import RequestSerializer
from lakeui.conflicts.isolation.overlap_rows import ENDS
from lakeui.conflicts.statements.kinds import KINDS, OTHER

LEVELS = [level.value for level in SETTABLE_LEVELS]


class RunningJobSerializer(serializers.Serializer[Any]):
    """A job to be aborted by the change."""

    id = serializers.UUIDField()
    kind = serializers.CharField()
    state = serializers.CharField()
    by = RecordedField(allow_null=True)
    since = serializers.DateTimeField(allow_null=True, help_text="When its attempt began.")


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
    now = serializers.IntegerField(help_text="Aborted in those days.")
    then = serializers.IntegerField()
    more = serializers.DictField(child=serializers.IntegerField())
    fewer = serializers.IntegerField()
    undecided = UndecidedSerializer(many=True)
    unread = serializers.IntegerField(help_text="Overlaps that were not checked.")
    append_overlaps = serializers.IntegerField(
        allow_null=True, help_text="Overlaps with blind appends that the other level would count."
    )
    out_of_order = serializers.ListField(
        child=serializers.IntegerField(),
        allow_null=True,
        help_text="Out-of-order versions that would not exist; null: the level stays.",
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
        child=serializers.CharField(), help_text="Statements that put the settings back."
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
        help_text="At most four, a comma between; empty for none.",
    )


class SettingsChangeSerializer(SettingsSerializer):
    """A change of the settings, as a job."""

    reason = serializers.CharField(
        required=False,
        default="",
        allow_blank=True,
        max_length=2000,
        help_text="For the audit log.",
    )


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
        allow_null=True, help_text="Under the settings asked about; null where it stays."
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
    unrecorded = serializers.IntegerField(help_text="Commits that do not say what they read.")
    is_capped = serializers.BooleanField()
    total = serializers.IntegerField()
    elsewhere = serializers.IntegerField(help_text="Of statements that have no cell.")


class IsolationSerializer(serializers.Serializer[Any]):
    """The level in force and related settings; `impact` of the proposed change."""

    level = RecordedField(allow_null=True)
    is_set = serializers.BooleanField(help_text="false: the default is in force.")
    promise = serializers.CharField()
    deletion_vectors = serializers.BooleanField()
    row_tracking = serializers.BooleanField()
    clustering_columns = serializers.ListField(child=serializers.CharField())
    resolves_feature_enablement = serializers.BooleanField(
        help_text="Whether running writes pass a commit that only enables a feature."
    )
    row_level_eligible = serializers.BooleanField()
    row_level_reason = serializers.CharField()
    promises = serializers.DictField(child=serializers.CharField())
    impact = ImpactSerializer(allow_null=True)
    forecast = ForecastSerializer(
        allow_null=True, help_text="null: the settings have no effect that a record could tell of."
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


class OverlapsRequestSerializer(serializers.Serializer[Any]):
    """The kinds of both sides, the later one first."""

    current = serializers.ChoiceField(choices=[*KINDS, OTHER])
    winner = serializers.ChoiceField(choices=[*KINDS, OTHER])
    page_size = serializers.CharField(required=False)
    page_token = serializers.CharField(required=False)


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


class ReorderedRequestSerializer(serializers.Serializer[Any]):
    """Nothing but paging."""

    page_size = serializers.CharField(required=False)
    page_token = serializers.CharField(required=False)


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
    rows_at_most = Int64Field(allow_null=True, help_text="Rows of the appends.")
    at = serializers.DateTimeField(allow_null=True)
