"""The embedded stack in Django's admin: to look at, not to change."""

from django.contrib import admin

from lakeui.catalog.read_only_admin import ReadOnlyAdmin
from lakeui.local_stack.models import DemoStep, LoginLink


@admin.register(DemoStep)
class DemoStepAdmin(ReadOnlyAdmin):
    list_display = ["position", "title", "state", "job", "message"]
    list_filter = ["state"]
    search_fields = ["title", "key"]


@admin.register(LoginLink)
class LoginLinkAdmin(ReadOnlyAdmin):
    list_display = ["user", "created_at", "used_at"]
    list_filter = ["used_at"]
    search_fields = ["user__username"]
    exclude = ["nonce_digest"]
