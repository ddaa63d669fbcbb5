"""Tokens to revoke, never to create or read here; answers of repeated requests, read-only."""

from auditlog.registry import auditlog
from django.contrib import admin
from django.http import HttpRequest

from lakeui.api.models import ApiToken, IdempotentAnswer
from lakeui.catalog.read_only_admin import InternalAdmin, ReadOnlyAdmin, register_rows

auditlog.register(ApiToken, include_fields=["name", "role", "user", "expiry", "public_id"])


@admin.register(ApiToken)
class ApiTokenAdmin(ReadOnlyAdmin):
    """Deleting a token revokes it."""

    list_display = ["name", "user", "role", "created", "expiry"]
    list_filter = ["role"]
    search_fields = ["name", "user__username"]
    date_hierarchy = "created"
    list_select_related = ["user"]
    fields = ["public_id", "name", "user", "role", "created", "expiry"]

    def has_delete_permission(self, request: HttpRequest, obj: ApiToken | None = None) -> bool:
        return admin.ModelAdmin.has_delete_permission(self, request, obj)


register_rows(
    IdempotentAnswer,
    "created_at user key status location",
    search="key user__username",
    filters="status",
    base=InternalAdmin,
    date_hierarchy="created_at",
)
