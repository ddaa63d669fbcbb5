"""A pasted conflict error, explained."""

from typing import Any

from rest_framework import serializers

from lakeui.api.fields import ObjectField, RecordedField
from lakeui.conflicts.reports import MAX_REPORT_CHARS


class ExplainRequestSerializer(serializers.Serializer[Any]):
    """The error's text. `record` keeps it among the table's conflicts."""

    text = serializers.CharField(max_length=MAX_REPORT_CHARS, trim_whitespace=False)
    table = serializers.CharField(
        max_length=255, required=False, default="", allow_blank=True, help_text="Its id or name."
    )
    record = serializers.BooleanField(required=False, default=False)


class ExplanationSerializer(serializers.Serializer[Any]):
    """What the text says. `conflict` is null when it tells of none: see `recognised` then."""

    conflict = ObjectField(allow_null=True)
    more = serializers.IntegerField(help_text="Other conflicts in the same text.")
    recognised = serializers.ListField(child=serializers.CharField())
    table_id = serializers.IntegerField(allow_null=True)
    table = serializers.CharField(allow_null=True)
    winning_version = serializers.IntegerField(allow_null=True)
    found_by = RecordedField(help_text="By what the winner was found in the mirror.")
    conflict_id = serializers.IntegerField(allow_null=True, help_text="Where it was recorded.")
