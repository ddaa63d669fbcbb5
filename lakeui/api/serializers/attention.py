"""Conditions that need attention, their checks, and mutes."""

from typing import Any

from rest_framework import serializers

from lakeui.api.fields import ObjectField, RecordedField
from lakeui.api.serializers.request import RequestSerializer
from lakeui.monitoring.conditions import Condition, Severity
from lakeui.monitoring.models import Mute


class AttentionItemSerializer(serializers.Serializer[Any]):
    """A condition that needs attention, in words. `facts` holds its figures by name."""

    check_name = serializers.ChoiceField(Condition.choices, source="item.condition")
    severity = serializers.ChoiceField(Severity.choices, source="rule.severity")
    title = serializers.CharField()
    text = serializers.CharField(source="said.text")
    remedy = serializers.CharField(source="rule.remedy")
    table_id = serializers.IntegerField(source="item.table.pk", allow_null=True, default=None)
    table = serializers.CharField(source="item.table.name", allow_null=True, default=None)
    job_id = serializers.UUIDField(source="item.job.pk", allow_null=True, default=None)
    version = serializers.IntegerField(source="item.version", allow_null=True)
    since = serializers.DateTimeField(source="item.since", allow_null=True)
    facts = ObjectField(source="item.facts")


class CheckSerializer(serializers.Serializer[Any]):
    """A check: its threshold, where the threshold is set, and how many items it has now."""

    name = serializers.CharField()
    looks_for = serializers.CharField()
    severity = serializers.ChoiceField(Severity.choices)
    tells = serializers.CharField()
    set_by = serializers.CharField(help_text="Settings, comma-separated; fixed: none.")
    remedy = serializers.CharField()
    count = serializers.IntegerField()


class MuteSerializer(serializers.ModelSerializer[Mute]):
    """A check muted until then; for every table if none is named."""

    check_name = serializers.ChoiceField(Condition.choices, source="about")
    table = serializers.CharField(source="table.name", allow_null=True, default=None)
    reason = RecordedField(allow_null=True)
    muted_by = serializers.CharField(source="muted_by.username", allow_null=True, default=None)

    class Meta:
        model = Mute
        fields = [
            "id",
            "check_name",
            "table_id",
            "table",
            "until",
            "reason",
            "muted_by",
            "muted_at",
        ]


class MuteRequestSerializer(RequestSerializer):
    """The check to mute, and until when: 90 days at most."""

    check_name = serializers.ChoiceField(Condition.choices)
    table_id = serializers.IntegerField(
        required=False, allow_null=True, default=None, min_value=1, max_value=2**63 - 1
    )
    until = serializers.DateTimeField()
    reason = serializers.CharField(required=False, default="", allow_blank=True, max_length=500)


class AttentionSerializer(serializers.Serializer[Any]):
    """Everything told now: of each check the first 50, in the order of checks."""

    count = serializers.IntegerField()
    items = AttentionItemSerializer(many=True)
    checks = CheckSerializer(many=True)
    mutes = MuteSerializer(many=True)
