"""Conflicts, read-only, because they are the only record of aborted writes."""

from auditlog.registry import auditlog

from lakeui.catalog.read_only_admin import InternalAdmin, register_rows
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
register_rows(
    StatementPair,
    "table current_operation winner_operation is_known assignee",
    search="table__name note assignee__username",
    filters="is_known current_operation winner_operation",
)
register_rows(
    Conflict,
    "occurred_at kind exception subclass table current_operation winner_operation "
    "winning_version can_retry",
    search="table__name message current_user_name winner_user_name",
    filters="kind exception subclass current_operation winner_operation",
    date_hierarchy="occurred_at",
)
register_rows(
    ConflictDay,
    "day kind current_operation winner_operation conflicts wasted_ms wasted_bytes",
    search="current_operation winner_operation",
    filters="kind",
    base=InternalAdmin,
    date_hierarchy="day",
)

# Requested rows; the rows are on their page, for people who may see the table.
register_rows(
    ConflictRows,
    "asked_at conflict path version read_at error_code",
    search="path conflict__table__name",
    filters="error_code",
    base=InternalAdmin,
    exclude=["columns", "rows"],
)

# Trials; the answers are on the conflict's page.
register_rows(
    ConflictTrials,
    "asked_at conflict condition read_at duration_ms error_code",
    search="conflict__table__name condition",
    filters="error_code",
    base=InternalAdmin,
)
register_rows(
    Erasure,
    "at table append_version delete_version rows_at_most settled_by",
    search="table__name predicate",
    filters="delete_writer",
)
register_rows(OrderLook, "table version", search="table__name", base=InternalAdmin)
register_rows(
    Pipeline,
    "name reported_by first_seen_at last_seen_at dropped",
    search="name reported_by__username",
    filters="reported_by",
)
register_rows(
    PipelineTransaction,
    "started_at pipeline table operation state committed_version host",
    search="pipeline__name table__name txn_id host user_name",
    filters="state",
)
