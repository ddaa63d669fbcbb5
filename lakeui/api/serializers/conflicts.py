"""Conflicts: two writes that met."""

from rest_framework import serializers

from lakeui.api.fields import Int64Field, ObjectField, RecordedField
from lakeui.api.serializers.conflict_sides import (
    AdviceSerializer,
    AlikeConflictSerializer,
    SideSerializer,
)
from lakeui.conflicts.loss.landed import Landed
from lakeui.conflicts.models import Conflict


class ConflictSerializer(serializers.ModelSerializer[Conflict]):
    """A conflict in one row: who lost or gave way to whom, by which rule, at what cost."""

    table = serializers.CharField(
        source="table.name", default=None, allow_null=True, read_only=True
    )
    row_count = Int64Field(allow_null=True)
    wasted_ms = Int64Field()
    wasted_bytes = Int64Field()
    exception = RecordedField()
    code = RecordedField()
    subclass = RecordedField()
    rule = RecordedField()
    isolation_level = RecordedField()
    current_predicate = RecordedField()
    current_user_name = RecordedField()
    winner_user_name = RecordedField()
    row_level = RecordedField(help_text="Why rows could not tell the two apart, where asked.")

    class Meta:
        model = Conflict
        fields = [
            "id",
            "table_id",
            "table",
            "job_id",
            "attempt",
            "kind",
            "occurred_at",
            "exception",
            "code",
            "subclass",
            "rule",
            "message",
            "read_version",
            "attempted_version",
            "winning_version",
            "current_operation",
            "current_predicate",
            "current_user_name",
            "isolation_level",
            "winner_operation",
            "winner_user_name",
            "winner_at",
            "partitions",
            "file_count",
            "row_count",
            "row_level",
            "can_retry",
            "wasted_ms",
            "wasted_bytes",
        ]


class LandedLaterSerializer(serializers.Serializer[Landed]):
    """What the write that lost became after all: by its own job, or by one that ran it again."""

    version = serializers.IntegerField()
    job_id = serializers.UUIDField()
    is_same_job = serializers.BooleanField()


class ConflictDetailSerializer(ConflictSerializer):
    """A conflict with both sides, what would have helped, and losses like it.

    `facts` is what the engine recorded: files and rows both met at, its remedies, and under
    `decision` the verdict of every check on every winner, both sides' files, and the counts and
    positions of the rows that were compared.
    """

    facts = ObjectField()
    current = SideSerializer(source="sides.current")
    winner = SideSerializer(source="sides.winner")
    advice = AdviceSerializer(many=True)
    alike = AlikeConflictSerializer(many=True, source="alike.conflicts")
    alike_is_capped = serializers.BooleanField(source="alike.is_capped")
    landed = LandedLaterSerializer(allow_null=True)
    previous_id = serializers.IntegerField(source="neighbours.previous", allow_null=True)
    next_id = serializers.IntegerField(source="neighbours.next", allow_null=True)

    class Meta(ConflictSerializer.Meta):
        fields = [
            *ConflictSerializer.Meta.fields,
            "order_column",
            "shared_low",
            "shared_high",
            "facts",
            "current",
            "winner",
            "advice",
            "alike",
            "alike_is_capped",
            "landed",
            "previous_id",
            "next_id",
        ]
