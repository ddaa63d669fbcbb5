"""Tokens: shown once when made, never again."""

from rest_framework import serializers

from lakeui.api.fields import RoleField
from lakeui.api.models import ApiToken
from lakeui.api.serializers.request import RequestSerializer

MAX_DAYS = 365


class TokenSerializer(serializers.ModelSerializer[ApiToken]):
    """A token without its secret."""

    id = serializers.UUIDField(source="public_id", read_only=True)
    role = RoleField(read_only=True)
    starts_with = serializers.SerializerMethodField(
        help_text="The first characters of it, to tell it by."
    )
    created_at = serializers.DateTimeField(source="created", read_only=True)
    expires_at = serializers.DateTimeField(source="expiry", read_only=True)

    class Meta:
        model = ApiToken
        fields = ["id", "name", "role", "starts_with", "created_at", "expires_at"]

    def get_starts_with(self, token: ApiToken) -> str:
        """A few characters of many."""
        return str(token.token_key[:12])


class NewTokenSerializer(TokenSerializer):
    """A token as it is shown once."""

    token = serializers.CharField(read_only=True, help_text="Keep it: it is not shown again.")

    class Meta(TokenSerializer.Meta):
        fields = [*TokenSerializer.Meta.fields, "token"]


class TokenRequestSerializer(RequestSerializer):
    """What a new token is for, what it may do and for how long."""

    name = serializers.CharField(max_length=100)
    role = RoleField()
    expires_in_days = serializers.IntegerField(
        min_value=1, max_value=MAX_DAYS, required=False, default=30
    )
