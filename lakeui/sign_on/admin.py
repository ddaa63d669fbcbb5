"""Linked identities and signed-in browsers in Django's admin."""

from auditlog.registry import auditlog
from django.contrib import admin
from django.http import HttpRequest

from lakeui.catalog.read_only_admin import ReadOnlyAdmin
from lakeui.sign_on.models import BrowserSession, LinkedIdentity

auditlog.register(LinkedIdentity, include_fields=["user", "issuer", "subject", "email"])


@admin.register(LinkedIdentity)
class LinkedIdentityAdmin(admin.ModelAdmin):
    """Links of subjects, made by administrators only: the subject's holder signs in as the user."""

    list_display = ["user", "issuer", "subject", "email", "last_sign_in_at"]
    search_fields = ["user__username", "subject", "email"]
    list_select_related = ["user"]
    autocomplete_fields = ["user"]
    readonly_fields = ["last_sign_in_at"]


@admin.register(BrowserSession)
class BrowserSessionAdmin(ReadOnlyAdmin):
    list_display = ["user", "way", "address", "started_at", "expires_at"]
    list_filter = ["way"]
    search_fields = ["user__username", "address"]
    list_select_related = ["user"]
    exclude = ["session_key"]

    def has_module_permission(self, _request: HttpRequest) -> bool:
        return False  # listed on the page Sessions
