"""Conflicts, read-only: the only record of aborted writes, so nobody edits it."""

from auditlog.registry import auditlog
from django.contrib import admin

from lakeui.catalog.read_only_admin import InternalAdmin, ReadOnlyAdmin
from lakeui.conflicts.models import (
    Conflict,
    ConflictDay,
    ConflictRows,
    ConflictTrials,
    Erasure,
    OrderLook,
    Pipeline,
    PipelineTransaction,
    StatementPair,
)

auditlog.register(StatementPair, include_fields=["table", "is_known", "assignee", "note"])


@admin.register(StatementPair)
class StatementPairAdmin(ReadOnlyAdmin):
    list_display = ["table", "current_operation", "winner_operation", "is_known", "assignee"]
    list_filter = ["is_known", "current_operation", "winner_operation"]
    search_fields = ["table__name", "note", "assignee__username"]
    list_select_related = ["table", "assignee"]


@admin.register(Conflict)
class ConflictAdmin(ReadOnlyAdmin):
    list_display = [
        "occurred_at",
        "kind",
        "exception",
        "subclass",
        "table",
        "current_operation",
        "winner_operation",
        "winning_version",
        "can_retry",
    ]
    list_filter = ["kind", "exception", "subclass", "current_operation", "winner_operation"]
    search_fields = ["table__name", "message", "current_user_name", "winner_user_name"]
    date_hierarchy = "occurred_at"
    list_select_related = ["table"]


@admin.register(ConflictDay)
class ConflictDayAdmin(InternalAdmin):
    list_display = [
        "day",
        "kind",
        "current_operation",
        "winner_operation",
        "conflicts",
        "wasted_ms",
        "wasted_bytes",
    ]
    list_filter = ["kind"]
    search_fields = ["current_operation", "winner_operation"]
    date_hierarchy = "day"


@admin.register(ConflictRows)
class ConflictRowsAdmin(InternalAdmin):
    """Requested rows; the rows are on their page, for people who may see the table."""

    list_display = ["asked_at", "conflict", "path", "version", "read_at", "error_code"]
    list_filter = ["error_code"]
    search_fields = ["path", "conflict__table__name"]
    list_select_related = ["conflict"]
    exclude = ["columns", "rows"]


@admin.register(ConflictTrials)
class ConflictTrialsAdmin(InternalAdmin):
    """Trials; the answers are on the conflict's page."""

    list_display = ["asked_at", "conflict", "condition", "read_at", "duration_ms", "error_code"]
    list_filter = ["error_code"]
    search_fields = ["conflict__table__name", "condition"]
    list_select_related = ["conflict"]


@admin.register(Erasure)
class ErasureAdmin(ReadOnlyAdmin):
    list_display = [
        "at", "table", "append_version", "delete_version", "rows_at_most", "settled_by",
    ]  # fmt: skip
    list_filter = ["delete_writer"]
    search_fields = ["table__name", "predicate"]
    list_select_related = ["table"]


@admin.register(OrderLook)
class OrderLookAdmin(InternalAdmin):
    list_display = ["table", "version"]
    search_fields = ["table__name"]
    list_select_related = ["table"]


@admin.register(Pipeline)
class PipelineAdmin(ReadOnlyAdmin):
    list_display = ["name", "reported_by", "first_seen_at", "last_seen_at", "dropped"]
    list_filter = ["reported_by"]
    search_fields = ["name", "reported_by__username"]
    list_select_related = ["reported_by"]


@admin.register(PipelineTransaction)
class PipelineTransactionAdmin(ReadOnlyAdmin):
    list_display = [
        "started_at", "pipeline", "table", "operation", "state", "committed_version", "host",
    ]  # fmt: skip
    list_filter = ["state"]
    search_fields = ["pipeline__name", "table__name", "txn_id", "host", "user_name"]
    list_select_related = ["pipeline", "table"]
