"""Jobs that recur."""

from typing import Any

from django.utils.functional import cached_property
from rest_framework import serializers

from lakeui.api.fields import ObjectField, RecordedField
from lakeui.api.serializers.request import CommandRequestSerializer, RequestSerializer
from lakeui.catalog.named_tables import Reader
from lakeui.jobs.cron_words import cron_in_words
from lakeui.jobs.models import Schedule
from lakeui.jobs.withheld import shown_schedule


class ScheduleSerializer(serializers.ModelSerializer[Schedule]):
    """A schedule. `note` says why it last made no job, if it made none.

    Where it names tables that you may not see, its statement, parameters and note are left out.
    """

    table = serializers.CharField(source="table.name", read_only=True)
    owner = serializers.CharField(source="owner.username", read_only=True)
    parameters = ObjectField()
    note = RecordedField(allow_null=True)
    last_job_id = serializers.UUIDField(allow_null=True, read_only=True)
    cron_words = serializers.SerializerMethodField(help_text="Null where the text is not plain.")

    class Meta:
        model = Schedule
        fields = [
            "id",
            "table_id",
            "table",
            "name",
            "cron",
            "cron_words",
            "kind",
            "parameters",
            "statement",
            "max_retries",
            "owner",
            "enabled",
            "created_at",
            "next_due_at",
            "last_fired_at",
            "last_job_id",
            "note",
        ]

    @cached_property
    def reader(self) -> Reader:
        """Whoever asked; one for all rows of a list."""
        return Reader(self.context["request"].user)

    def to_representation(self, instance: Schedule) -> dict[str, Any]:
        return dict(super().to_representation(shown_schedule(instance, self.reader)))

    def get_cron_words(self, schedule: Schedule) -> str | None:
        return cron_in_words(schedule.cron) or None


class ScheduleRequestSerializer(CommandRequestSerializer):
    """A command as for a job, and when: five cron fields, in UTC."""

    name = serializers.CharField(max_length=200)
    cron = serializers.CharField(max_length=100, help_text="0 3 * * * is every night at three.")


class ScheduleChangeSerializer(RequestSerializer):
    """What is given changes. It rests or fires again from now on; what it missed is not made up."""

    enabled = serializers.BooleanField(required=False)
    name = serializers.CharField(max_length=200, required=False)
    cron = serializers.CharField(max_length=100, required=False)
    sql = serializers.CharField(max_length=100_000, required=False)
    retries = serializers.IntegerField(required=False, min_value=0, max_value=100)

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if not attrs:
            fault = "Say what is to change."
            raise serializers.ValidationError({"enabled": [fault]})
        return attrs
