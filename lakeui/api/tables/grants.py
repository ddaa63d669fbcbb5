"""Who has a role on one table alone: for the table's admins."""

from django.contrib.auth.models import User
from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework import serializers, status
from rest_framework.generics import ListAPIView, get_object_or_404
from rest_framework.request import Request
from rest_framework.response import Response

from lakeui.api.caller import caller
from lakeui.api.fields import RoleField
from lakeui.api.serializers.request import RequestSerializer
from lakeui.api.table_views import TableScopedView, require
from lakeui.catalog.models import TableGrant


class GrantSerializer(serializers.ModelSerializer[TableGrant]):
    """A person's role on this table, beside their groups' role on every table."""

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


class GrantList(TableScopedView, ListAPIView[TableGrant]):
    """The roles given on this table, for its admins."""

    queryset = TableGrant.objects.none()
    serializer_class = GrantSerializer

    def get_queryset(self) -> QuerySet[TableGrant]:
        require(self.request, "admin", self.table)
        return self.table.grants.select_related("user", "granted_by").order_by("granted_at")


class GrantDetail(TableScopedView):
    """One person's role on this table."""

    serializer_class = GrantSerializer

    @extend_schema(request=GrantRequestSerializer, responses={200: GrantSerializer})
    def put(self, request: Request, table_id: int, username: str) -> Response:  # noqa: ARG002
        """Give a role, or change it. It is on record in the audit log."""
        table = self.table
        require(request, "admin", table)
        body = GrantRequestSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        person = get_object_or_404(User, username=username)
        grant, _ = TableGrant.objects.update_or_create(
            table=table,
            user=person,
            defaults={"role": body.validated_data["role"], "granted_by": caller(request)},
        )
        return Response(GrantSerializer(grant).data)

    @extend_schema(responses={204: None})
    def delete(self, request: Request, table_id: int, username: str) -> Response:  # noqa: ARG002
        """Revoke the role on this table; roles of groups stay."""
        table = self.table
        require(request, "admin", table)
        get_object_or_404(table.grants.all(), user__username=username).delete()
        return Response(status=status.HTTP_204_NO_CONTENT)
