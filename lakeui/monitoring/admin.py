"""Mutes, tables of audit entries, alerts and their outbox: read-only.

Checks are muted on the page of conditions that need attention, alerts are set up on theirs; both
over REST too.
"""

from auditlog.registry import auditlog

from lakeui.catalog.read_only_admin import InternalAdmin, register_rows
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
register_rows(
    Mute,
    "label table until reason muted_by muted_at",
    search="table__name reason muted_by__username",
    filters="about",
)
register_rows(
    AuditedTable,
    "table_pk entry",
    search="=table_pk entry__object_repr",
    list_select_related=["entry__content_type", "entry__actor"],
    base=InternalAdmin,
)
register_rows(
    AlertChannel,
    "name kind shown_target enabled",
    search="name shown_target",
    filters="kind enabled",
    exclude=["sealed_target", "sealed_secret"],
)
register_rows(
    AlertRule,
    "name condition tables channel enabled told_at",
    search="name tables channel__name",
    filters="condition enabled",
)
register_rows(AlertFinding, "key rule first_seen_at last_seen_at told_at", search="key rule__name")
register_rows(
    AlertDelivery,
    "created_at channel rule outcome tries next_try_at error",
    search="channel__name rule__name error",
    filters="outcome is_test",
)
register_rows(
    LineageEvent,
    "at type run_id outcome tries next_try_at error",
    search="=run_id error",
    filters="type outcome",
)
