"""Mutes, tables of audit entries, alerts and their outbox: read-only.

Checks are muted on the page of conditions that need attention, alerts are set up on theirs; both
over REST too.
"""

from auditlog.registry import auditlog
from django.contrib import admin

from lakeui.catalog.read_only_admin import InternalAdmin, ReadOnlyAdmin
from lakeui.monitoring.models import (
    AlertChannel,
    AlertDelivery,
    AlertFinding,
    AlertRule,
    AuditedTable,
    LineageEvent,
    Mute,
)

auditlog.register(Mute, include_fields=["about", "table", "statement_pair", "until", "reason"])
auditlog.register(
    AlertChannel,
    include_fields=[
        "name",
        "kind",
        "shown_target",
        "secret_made_at",
        "quiet_from",
        "quiet_to",
        "zone",
        "enabled",
    ],
)
auditlog.register(AlertRule, exclude_fields=["created_at", "told_at"])


@admin.register(Mute)
class MuteAdmin(ReadOnlyAdmin):
    list_display = ["label", "table", "until", "reason", "muted_by", "muted_at"]
    list_filter = ["about"]
    search_fields = ["table__name", "reason", "muted_by__username"]
    list_select_related = ["table", "muted_by"]


@admin.register(AuditedTable)
class AuditedTableAdmin(InternalAdmin):
    list_display = ["table_pk", "entry"]
    search_fields = ["=table_pk", "entry__object_repr"]
    list_select_related = ["entry__content_type", "entry__actor"]


@admin.register(AlertChannel)
class AlertChannelAdmin(ReadOnlyAdmin):
    list_display = ["name", "kind", "shown_target", "enabled"]
    list_filter = ["kind", "enabled"]
    search_fields = ["name", "shown_target"]
    exclude = ["sealed_target", "sealed_secret"]


@admin.register(AlertRule)
class AlertRuleAdmin(ReadOnlyAdmin):
    list_display = ["name", "condition", "tables", "channel", "enabled", "told_at"]
    list_filter = ["condition", "enabled"]
    search_fields = ["name", "tables", "channel__name"]
    list_select_related = ["channel"]


@admin.register(AlertFinding)
class AlertFindingAdmin(ReadOnlyAdmin):
    list_display = ["key", "rule", "first_seen_at", "last_seen_at", "told_at"]
    search_fields = ["key", "rule__name"]
    list_select_related = ["rule"]


@admin.register(AlertDelivery)
class AlertDeliveryAdmin(ReadOnlyAdmin):
    list_display = ["created_at", "channel", "rule", "outcome", "tries", "next_try_at", "error"]
    list_filter = ["outcome", "is_test"]
    search_fields = ["channel__name", "rule__name", "error"]
    list_select_related = ["channel", "rule"]


@admin.register(LineageEvent)
class LineageEventAdmin(ReadOnlyAdmin):
    list_display = ["at", "type", "run_id", "outcome", "tries", "next_try_at", "error"]
    list_filter = ["type", "outcome"]
    search_fields = ["=run_id", "error"]
