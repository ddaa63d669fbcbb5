"""The embedded stack in Django's admin: to look at, not to change."""

from django.contrib import admin
from django.http import HttpRequest

from lakeui.local_stack.models import DemoStep, LoginLink


class _ReadOnly(admin.ModelAdmin):  # type: ignore[type-arg]  # not generic while Django runs
    def has_add_permission(self, request: HttpRequest) -> bool:
        del request
        return False

    def has_change_permission(self, request: HttpRequest, obj: object = None) -> bool:
        del request, obj
        return False


@admin.register(DemoStep)
class DemoStepAdmin(_ReadOnly):
    list_display = ("position", "title", "state", "job", "message")
    list_filter = ("state",)
    search_fields = ("title", "key")


@admin.register(LoginLink)
class LoginLinkAdmin(_ReadOnly):
    list_display = ("user", "created_at", "used_at")
    list_filter = ("used_at",)
    search_fields = ("user__username",)
    exclude = ("nonce_digest",)
