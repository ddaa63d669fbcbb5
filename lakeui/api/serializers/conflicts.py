"""Both sides of a conflict, how to avoid it, conflicts like it, shared rows, and costs."""

from typing import Any

from rest_framework import serializers

from lakeui.api.fields import Int64Field, RecordedField, RowsStateField
from lakeui.conflicts.models import ConflictRows


class SideChangesSerializer(serializers.Serializer[Any]):
    """A side's changes to the table's files; null: not in the log."""

    files_changed = serializers.IntegerField()
    files_masked = serializers.IntegerField(help_text="Files with a new deletion vector.")
    files_added = serializers.IntegerField()
    rows_changed = Int64Field(allow_null=True)
    rows_added = Int64Field(allow_null=True)


class SideJobSerializer(serializers.Serializer[Any]):
    """The side's job in this installation, and its attempt."""

    id = serializers.UUIDField()
    kind = serializers.CharField()
    attempt = serializers.IntegerField()
    attempts = serializers.IntegerField()
    schedule_id = serializers.IntegerField(allow_null=True)


class SidePipelineSerializer(serializers.Serializer[Any]):
    """The pipeline that reported a side: name, host, user, and attempt."""

    name = serializers.CharField()
    host = RecordedField()
    user = RecordedField()
    attempt = serializers.IntegerField()


class ResolvedSerializer(serializers.Serializer[Any]):
    """A conflict that the winning commit itself resolved before it landed."""

    id = serializers.IntegerField(source="pk")
    winning_version = serializers.IntegerField(allow_null=True)
    winner_operation = serializers.CharField()
    file_count = serializers.IntegerField()
    how = RecordedField(source="passed_by")


class SideSerializer(serializers.Serializer[Any]):
    """One side. `statement_is_whole`: the writer's own, not put together from the log entry."""

    operation = serializers.CharField()
    user = RecordedField()
    engine = RecordedField()
    statement = RecordedField()
    statement_is_whole = serializers.BooleanField()
    predicate = RecordedField()
    read_version = serializers.IntegerField(allow_null=True)
    read_at = serializers.DateTimeField(allow_null=True)
    ended_at = serializers.DateTimeField(allow_null=True)
    isolation_level = RecordedField()
    changes = SideChangesSerializer(allow_null=True)
    txn_id = RecordedField()
    job = SideJobSerializer(allow_null=True)
    pipeline = SidePipelineSerializer(allow_null=True)
    resolved = ResolvedSerializer(many=True)
    resolved_count = serializers.IntegerField()


class AdviceSerializer(serializers.Serializer[Any]):
    """One way out: its verdict on this conflict, and how often it would have helped in 30 days."""

    kind = serializers.CharField(allow_blank=True)
    title = serializers.CharField()
    text = serializers.CharField(allow_blank=True)
    verdict = serializers.CharField(allow_blank=True)
    helped = serializers.IntegerField(
        allow_null=True,
        help_text="How many of the `of` similar aborted writes it would have helped.",
    )
    of = serializers.IntegerField(allow_null=True)
    undecidable = serializers.IntegerField(
        help_text="Similar aborted writes for which this is not known."
    )
    condition = RecordedField(help_text="The condition to add to the write's own condition.")
    sql = RecordedField(help_text="The statement with the added condition.")
    rest_sql = RecordedField(help_text="The statement for the rows that the condition leaves out.")
    is_advised = serializers.BooleanField()


class SimilarConflictSerializer(serializers.Serializer[Any]):
    """A loss of the same write."""

    id = serializers.IntegerField(source="pk")
    occurred_at = serializers.DateTimeField()
    winning_version = serializers.IntegerField(allow_null=True)
    winner_operation = serializers.CharField()
    winner_user_name = RecordedField()
    row_count = Int64Field(allow_null=True)
    wasted_ms = Int64Field()
    passed_again = serializers.BooleanField(
        allow_null=True,
        help_text="Whether its next attempt committed. null: there was no next attempt.",
    )


class ConflictRowsSerializer(serializers.ModelSerializer[ConflictRows]):
    """Rows touched by both sides, as read by a worker."""

    state = RowsStateField()
    positions = serializers.ListField(child=serializers.IntegerField())
    columns = serializers.ListField(child=serializers.DictField(child=serializers.CharField()))
    rows = serializers.ListField(
        child=serializers.ListField(child=serializers.CharField(allow_null=True))
    )
    error_code = RecordedField()
    error_message = RecordedField()

    class Meta:
        model = ConflictRows
        fields = [
            "path",
            "version",
            "state",
            "asked_at",
            "read_at",
            "positions",
            "columns",
            "rows",
            "omitted_columns",
            "error_code",
            "error_message",
        ]


class PairCostSerializer(serializers.Serializer[Any]):
    """The operations of two conflicting writes, with this transaction's first."""

    current = serializers.CharField(allow_blank=True)
    winner = serializers.CharField(allow_blank=True)
    aborted = serializers.IntegerField()
    reported = serializers.IntegerField()
    resolved = serializers.IntegerField()
    wasted_ms = Int64Field()
    wasted_bytes = Int64Field()


class HourCostSerializer(serializers.Serializer[Any]):
    """The cost of a pair in one full hour."""

    pair = serializers.CharField()
    hour = serializers.DateTimeField()
    wasted_ms = Int64Field()


class ConflictPartitionCostSerializer(serializers.Serializer[Any]):
    """The cost of a pair in one partition; "" if the conflict names none."""

    table_id = serializers.IntegerField(allow_null=True)
    table = serializers.CharField(allow_blank=True)
    partition = serializers.CharField(allow_blank=True)
    current = serializers.CharField(allow_blank=True)
    winner = serializers.CharField(allow_blank=True)
    times = serializers.IntegerField()
    wasted_ms = Int64Field()


class ConflictCostsSerializer(serializers.Serializer[Any]):
    """By pair for all listed conflicts; by hour and by partition for the last 24 hours."""

    total = PairCostSerializer()
    pairs = PairCostSerializer(many=True)
    more_pairs = serializers.IntegerField()
    hours = HourCostSerializer(many=True)
    partitions = ConflictPartitionCostSerializer(many=True)
    partitions_are_cut = serializers.BooleanField()
