"""Roles on one table."""

from rest_framework import serializers

from lakeui.api.fields import RoleField
from lakeui.api.serializers.request import RequestSerializer
from lakeui.catalog.models import TableGrant


class GrantSerializer(serializers.ModelSerializer[TableGrant]):
    """Somebody's role on this table, beside what their groups give on every table."""

    user = serializers.CharField(source="user.username", read_only=True)
    role = RoleField(read_only=True)
    granted_by = serializers.CharField(
        source="granted_by.username", default=None, allow_null=True, read_only=True
    )

    class Meta:
        model = TableGrant
        fields = ["user", "role", "granted_at", "granted_by"]


class GrantRequestSerializer(RequestSerializer):
    """The role to have."""

    role = RoleField()
