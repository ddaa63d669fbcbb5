"""Alerts, as they are read and as they are sent; and conditions that need attention, with mutes."""

from typing import Any

from rest_framework import serializers

from lakeui.api.fields import ObjectField, OptionalTextField, RecordedChoiceField, RecordedField
from lakeui.api.serializers.request import RequestSerializer
from lakeui.monitoring.alerting.channels import MAX_GROUP_MINUTES, MAX_REPEAT_HOURS, MAX_THRESHOLD
from lakeui.monitoring.alerting.webhooks import MAX_URL
from lakeui.monitoring.attention import CONDITIONS
from lakeui.monitoring.conditions import Condition, Severity
from lakeui.monitoring.models import AlertChannel, AlertDelivery, AlertRule, Mute


class ChannelSerializer(serializers.ModelSerializer[AlertChannel]):
    """A channel. Of a webhook's URL the host is shown; neither the rest nor the secret ever is."""

    target = serializers.CharField(source="shown_target")
    is_signed = serializers.SerializerMethodField(help_text="Its messages carry webhook-signature.")

    class Meta:
        model = AlertChannel
        fields = [
            "id",
            "name",
            "kind",
            "target",
            "is_signed",
            "secret_made_at",
            "quiet_from",
            "quiet_to",
            "zone",
            "enabled",
            "created_at",
        ]

    def get_is_signed(self, channel: AlertChannel) -> bool:
        return bool(channel.sealed_secret)


class NewChannelSerializer(ChannelSerializer):
    """A channel with its secret, shown only once."""

    secret = serializers.CharField(
        allow_null=True,
        help_text="Store it now: it is not shown again. null: the kind does not sign.",
    )

    class Meta(ChannelSerializer.Meta):
        fields = [*ChannelSerializer.Meta.fields, "secret"]


class ChannelChangeSerializer(RequestSerializer):
    """The fields to change."""

    name = serializers.CharField(max_length=100, required=False)
    target = serializers.CharField(
        max_length=MAX_URL,
        required=False,
        help_text="The URL of a webhook, or e-mail addresses separated by commas.",
    )
    quiet_from = serializers.TimeField(required=False, allow_null=True, help_text="In `zone`.")
    quiet_to = serializers.TimeField(required=False, allow_null=True)
    zone = serializers.CharField(max_length=64, required=False, help_text="Europe/Berlin")
    enabled = serializers.BooleanField(required=False)
    new_secret = serializers.BooleanField(
        required=False, help_text="Create a new secret. The old secret becomes invalid."
    )


class ChannelRequestSerializer(ChannelChangeSerializer):
    """A new channel. Its target is resolved and checked, not called; `:test` calls it."""

    name = serializers.CharField(max_length=100)
    kind = serializers.ChoiceField(AlertChannel.Kind.choices)
    target = serializers.CharField(
        max_length=MAX_URL,
        help_text="The URL of a webhook, or e-mail addresses separated by commas.",
    )
    new_secret = None  # type: ignore[assignment]  # it gets one anyway


class RuleSerializer(serializers.ModelSerializer[AlertRule]):
    """An alert rule. `threshold` is the one in force, null where the condition takes none."""

    threshold = serializers.SerializerMethodField()
    channel = serializers.CharField(source="channel.name")

    class Meta:
        model = AlertRule
        fields = [
            "id",
            "name",
            "condition",
            "threshold",
            "tables",
            "channel_id",
            "channel",
            "group_minutes",
            "repeat_hours",
            "ignores_quiet_hours",
            "enabled",
            "created_at",
            "told_at",
        ]

    def get_threshold(self, rule: AlertRule) -> int | None:
        condition = CONDITIONS[Condition(rule.condition)]
        return (rule.threshold or condition.threshold) if condition.unit else None


class RuleChangeSerializer(RequestSerializer):
    """The fields to change."""

    name = serializers.CharField(max_length=100, required=False)
    condition = serializers.ChoiceField(Condition.choices, required=False)
    threshold = serializers.IntegerField(
        required=False,
        allow_null=True,
        min_value=1,
        max_value=MAX_THRESHOLD,
        help_text="Only for conditions with a `unit`. null: the condition's default.",
    )
    tables = serializers.CharField(
        max_length=255,
        required=False,
        allow_blank=True,
        help_text="A pattern of table names, such as sales.*. Blank: every table.",
    )
    channel_id = serializers.PrimaryKeyRelatedField(
        queryset=AlertChannel.objects.all(), source="channel", required=False
    )
    group_minutes = serializers.IntegerField(
        required=False, min_value=0, max_value=MAX_GROUP_MINUTES
    )
    repeat_hours = serializers.IntegerField(
        required=False, min_value=0, max_value=MAX_REPEAT_HOURS, help_text="0: never."
    )
    ignores_quiet_hours = serializers.BooleanField(required=False)
    enabled = serializers.BooleanField(required=False)


class RuleRequestSerializer(RuleChangeSerializer):
    """A new rule."""

    name = serializers.CharField(max_length=100)
    condition = serializers.ChoiceField(Condition.choices)
    channel_id = serializers.PrimaryKeyRelatedField(
        queryset=AlertChannel.objects.all(), source="channel"
    )


class DeliverySerializer(serializers.ModelSerializer[AlertDelivery]):
    """A message of the outbox: delivered at least once, or given up."""

    title = serializers.CharField(source="content.title")
    count = serializers.IntegerField(source="content.count")
    channel = serializers.CharField(source="channel.name")
    error = RecordedField()

    class Meta:
        model = AlertDelivery
        fields = [
            "id",
            "title",
            "count",
            "channel_id",
            "channel",
            "rule_id",
            "is_test",
            "outcome",
            "tries",
            "error",
            "created_at",
            "next_try_at",
            "ended_at",
        ]


class ConditionSerializer(serializers.Serializer[Any]):
    """A condition for rules."""

    name = serializers.CharField()
    says = serializers.CharField()
    default_threshold = serializers.IntegerField(allow_null=True)
    unit = RecordedField()


class AlertsSerializer(serializers.Serializer[Any]):
    """Everything there is of alerts; of the outbox the last 20 messages."""

    conditions = ConditionSerializer(many=True)
    channels = ChannelSerializer(many=True)
    rules = RuleSerializer(many=True)
    deliveries = DeliverySerializer(many=True)


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
    set_by = serializers.CharField(
        help_text="The settings that define the condition, separated by commas. Empty: it is fixed."
    )
    remedy = serializers.CharField()
    count = serializers.IntegerField()


class MuteSerializer(serializers.ModelSerializer[Mute]):
    """A check muted until then; for every table if none is named.

    `check_name` is null for a mute of a repeated conflict, `repeated_id`.
    """

    check_name = RecordedChoiceField(list(Condition), source="about")
    repeated_id = serializers.IntegerField(source="statement_pair_id", allow_null=True)
    table = serializers.CharField(source="table.name", allow_null=True, default=None)
    reason = RecordedField(allow_null=True)
    muted_by = serializers.CharField(source="muted_by.username", allow_null=True, default=None)

    class Meta:
        model = Mute
        fields = [
            "id",
            "check_name",
            "repeated_id",
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
    reason = OptionalTextField(max_length=500)


class AttentionSerializer(serializers.Serializer[Any]):
    """The current attention items: the first 50 of each check, in the order of checks."""

    count = serializers.IntegerField()
    items = AttentionItemSerializer(many=True)
    checks = CheckSerializer(many=True)
    mutes = MuteSerializer(many=True)
