"""Recorded commits and conflicts under other settings."""

from typing import Any

from rest_framework import serializers

from lakeui.api.fields import RecordedField
from lakeui.api.serializers.concurrency import SwimLaneRequestSerializer
from lakeui.api.serializers.isolation import LEVELS
from lakeui.conflicts.what_if import Verdict


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


class WhatIfRequestSerializer(SwimLaneRequestSerializer):
    """The other setting; what is left out is as the table has it."""

    level = serializers.ChoiceField(choices=LEVELS, required=False)
    row_level = serializers.BooleanField(required=False, allow_null=True, default=None)
