"""Muted checks and the tables entries of the audit trail are about: both read-only.

Checks are muted on the page of what needs attention, and over REST.
"""

from auditlog.registry import auditlog
from django.contrib import admin

from lakeui.catalog.read_only_admin import ReadOnlyAdmin
from lakeui.monitoring.models import AuditedTable, Mute

auditlog.register(Mute, include_fields=["about", "table", "until", "reason"])


@admin.register(Mute)
class MuteAdmin(ReadOnlyAdmin):
    list_display = ["about", "table", "until", "reason", "muted_by", "muted_at"]
    list_filter = ["about"]
    search_fields = ["table__name", "reason", "muted_by__username"]
    list_select_related = ["table", "muted_by"]


@admin.register(AuditedTable)
class AuditedTableAdmin(ReadOnlyAdmin):
    list_display = ["table_pk", "entry"]
    search_fields = ["=table_pk", "entry__object_repr"]
    list_select_related = ["entry__content_type", "entry__actor"]
