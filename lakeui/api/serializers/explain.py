"""A pasted conflict error, explained."""

from typing import Any

from rest_framework import serializers

from lakeui.api.fields import Int64Field, ObjectField, RecordedField
from lakeui.api.serializers.request import RequestSerializer
from lakeui.conflicts.reports.messages import MAX_REPORT_CHARS


class ExplainRequestSerializer(RequestSerializer):
    """The error's text. `record` keeps it among the table's conflicts.

    `read_version` and `operation` are of the write that lost, for what the text does not tell.
    """

    text = serializers.CharField(max_length=MAX_REPORT_CHARS, trim_whitespace=False)
    table = serializers.CharField(
        max_length=255, required=False, default="", allow_blank=True, help_text="Its id or name."
    )
    record = serializers.BooleanField(required=False, default=False)
    read_version = serializers.IntegerField(
        required=False, allow_null=True, default=None, min_value=0, max_value=2**53
    )
    operation = serializers.CharField(
        max_length=100, required=False, default="", allow_blank=True, help_text="MERGE, say."
    )


class MarkSerializer(serializers.Serializer[Any]):
    """Where a fact stands in the text: its characters from `start` up to `end`."""

    number = serializers.IntegerField()
    fact = serializers.CharField()
    start = serializers.IntegerField()
    end = serializers.IntegerField()


class ReportVerdictSerializer(serializers.Serializer[Any]):
    """What it comes to. `check`: the rule's place among `check_count`; null where none is behind it."""

    headline = serializers.CharField()
    did = serializers.CharField(help_text="What the winner did, before the table's name.")
    then = serializers.CharField(help_text="The same, after it.")
    ignored_rows = serializers.IntegerField(
        allow_null=True, help_text="New rows of the winner that a commit would have overlooked."
    )
    rule = RecordedField(allow_null=True)
    check = serializers.IntegerField(allow_null=True)
    check_count = serializers.IntegerField()
    why = RecordedField(allow_null=True)
    decided_by = serializers.CharField()
    decided_why = serializers.CharField()
    retry = serializers.CharField()


class PairHistorySerializer(serializers.Serializer[Any]):
    """Losses of the pair on the table in 30 days; `passes` would have passed had rows decided."""

    current_operation = RecordedField(allow_null=True, help_text="null: any that lost counts.")
    winner_operation = serializers.CharField()
    lost = serializers.IntegerField()
    lost_lately = serializers.IntegerField(help_text="In 24 hours.")
    passes = serializers.IntegerField()
    undecidable = serializers.IntegerField()
    wasted_ms = Int64Field()


class ExplanationSerializer(serializers.Serializer[Any]):
    """What the text says. `conflict` is null when it tells of none: see `recognised` then."""

    conflict = ObjectField(allow_null=True)
    format = RecordedField(allow_null=True, help_text="Whose kind of message it is.")
    marks = MarkSerializer(many=True)
    verdict = ReportVerdictSerializer(allow_null=True)
    pair = PairHistorySerializer(allow_null=True)
    more = serializers.IntegerField(help_text="Other conflicts in the same text.")
    recognised = serializers.ListField(child=serializers.CharField())
    table_id = serializers.IntegerField(allow_null=True)
    table = serializers.CharField(allow_null=True)
    winning_version = serializers.IntegerField(allow_null=True)
    found_by = RecordedField(help_text="By what the winner was found in the mirror.")
    conflict_id = serializers.IntegerField(allow_null=True, help_text="Where it was recorded.")
