"""The embedded stack in Django's admin: to read, to delete, not to change."""

from django.contrib import admin
from django.http import HttpRequest

from lakeui.catalog.read_only_admin import ReadOnlyAdmin
from lakeui.local_stack.models import DemoStep, LoginLink


class _Deletable(ReadOnlyAdmin):
    def has_delete_permission(self, request: HttpRequest, obj: object = None) -> bool:
        return admin.ModelAdmin.has_delete_permission(self, request, obj)


@admin.register(DemoStep)
class DemoStepAdmin(_Deletable):
    list_display = ["position", "title", "state", "job", "message"]
    list_filter = ["state"]
    search_fields = ["title", "key"]

    def has_module_permission(self, _request: HttpRequest) -> bool:
        return False  # of the demo: opened by its address


@admin.register(LoginLink)
class LoginLinkAdmin(_Deletable):
    list_display = ["user", "created_at", "used_at"]
    list_filter = ["used_at"]
    search_fields = ["user__username"]
    exclude = ["nonce_digest"]
