"""Field types that state their guarantees in the schema."""

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from lakeui.catalog.previews import RequestedRows, state_of_rows
from lakeui.catalog.roles import Role


@extend_schema_field(
    {"type": "string", "format": "int64", "pattern": r"^-?\d+$", "description": "int64 as a string"}
)
class Int64Field(serializers.IntegerField):
    """Bytes and rows: always text, because JavaScript rounds integers of 2⁵³ and over."""

    def to_representation(self, value: Any) -> str:  # type: ignore[override]
        return str(int(value))


@extend_schema_field({"type": "string", "enum": [role.label for role in Role]})
class RoleField(serializers.Field[Role, str, str, Any]):
    """A role by its name."""

    default_error_messages = {"unknown": "Use reporter, viewer, operator, maintainer or admin."}

    def to_representation(self, value: int) -> str:
        return str(Role(value).label)

    def to_internal_value(self, data: str) -> Role:
        role = Role.from_label(str(data))
        if role is None:
            self.fail("unknown")
        return role


@extend_schema_field({"type": "object", "additionalProperties": True})
class ObjectField(serializers.JSONField):
    """An open JSON object, as an engine recorded it."""


@extend_schema_field({"type": "string", "description": "null: not recorded"})
class RecordedField(serializers.CharField):
    """Text that may be unrecorded: the mirror's "" is null here, never a guess."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options | {"allow_null": True})

    def to_representation(self, value: Any) -> str | None:  # type: ignore[override]
        return str(value) if value else None


class OptionalTextField(serializers.CharField):
    """Text of a request that may be omitted or empty: ""."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options | {"required": False, "default": "", "allow_blank": True})


class RecordedChoiceField(serializers.ChoiceField):
    """A choice that may be unrecorded: the mirror's "" is null here."""

    def __init__(self, choices: Any, **options: Any) -> None:
        super().__init__(choices, allow_null=True, **options)

    def to_representation(self, value: Any) -> str | None:  # type: ignore[override]
        return str(value) if value else None


@extend_schema_field(
    {
        "type": "string",
        "readOnly": True,
        "description": "waiting, read, failed, or lost (no worker answered in time)",
    }
)
class RowsStateField(serializers.Field[RequestedRows, Any, str, RequestedRows]):
    """A worker's progress with the requested rows."""

    def __init__(self) -> None:
        super().__init__(source="*", read_only=True)

    def to_representation(self, value: RequestedRows) -> str:
        return state_of_rows(value)
