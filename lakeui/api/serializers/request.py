"""Fields of a request's body: known ones only."""

from collections.abc import Mapping
from typing import Any

from rest_framework import serializers

from lakeui.catalog.hours import RANGES

MAX_NAMED = 20


class RequestSerializer(serializers.Serializer[Any]):
    """A body of known fields. An unknown name is an error: `dryrun` must not run for real."""

    def to_internal_value(self, data: Any) -> dict[str, Any]:
        named = set(data) if isinstance(data, Mapping) else set()
        if unknown := sorted(map(str, named - set(self.fields))):
            fault = f"Unknown field. The fields are: {', '.join(sorted(self.fields))}."
            faults = {name[:100]: [fault] for name in unknown[:MAX_NAMED]}
            raise serializers.ValidationError(faults, code="unknown_field")
        taken: dict[str, Any] = super().to_internal_value(data)
        return taken


class PageRequestSerializer(RequestSerializer):
    """Nothing but paging, which `SequencePaging` reads itself."""

    page_size = serializers.CharField(required=False)
    page_token = serializers.CharField(required=False)


class RangeRequestSerializer(RequestSerializer):
    """The time up to now: one of those that pages offer."""

    range = serializers.ChoiceField(choices=list(RANGES), default="24h")


class CommandRequestSerializer(RequestSerializer):
    """A command, as a kind with parameters or as one SQL statement: one of the two."""

    kind = serializers.CharField(max_length=40, required=False, help_text="optimize, delete, …")
    parameters = serializers.DictField(required=False, help_text="The parameters of this kind.")
    sql = serializers.CharField(max_length=100_000, required=False, help_text="OPTIMIZE t …")
    retries = serializers.IntegerField(required=False, default=0, min_value=0, max_value=100)
    time_limit_s = serializers.IntegerField(
        required=False,
        default=0,
        min_value=0,
        max_value=2**31 - 1,
        help_text="The time limit for a worker. 0 is the installation's limit.",
    )

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if ("kind" in attrs) == ("sql" in attrs):
            fault = "Send either kind with parameters, or sql."
            raise serializers.ValidationError({"kind": [fault]})
        if "sql" in attrs and "parameters" in attrs:
            fault = "A statement contains its own parameters."
            raise serializers.ValidationError({"parameters": [fault]})
        where = attrs.get("parameters", {}).get("where")
        if isinstance(where, str) and not where.strip():
            fault = "The condition is blank. Leave it out to select every row."
            raise serializers.ValidationError({"parameters": {"where": [fault]}})
        return attrs
