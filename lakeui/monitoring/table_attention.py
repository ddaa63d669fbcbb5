"""Find tables that cannot be read, or that need OPTIMIZE, VACUUM or a sync of the mirror."""

from datetime import timedelta

from django.db.models import Count, Min, QuerySet

from lakeui.catalog.access import visible_tables
from lakeui.catalog.health import has_many_small_files, is_vacuum_due
from lakeui.catalog.models import HEAVY, Table
from lakeui.monitoring.attention_items import AttentionItem, AttentionRequest, FoundItems
from lakeui.monitoring.conditions import Condition

MANY_TABLES = 20
"""More tables than this that fail alike have one cause, and are one item."""


def find_unreadable_tables(request: AttentionRequest, _threshold: int) -> FoundItems:
    """Find tables whose last sync failed; one item for many with the same error."""
    tables = visible_tables(request.user).exclude(mirror_error_code="").order_by("name")
    facts = ("mirror_error_code", "mirror_error", "mirror_tries", "version")
    return _find_by_cause(request, Condition.UNREACHABLE, tables, facts, "mirror_failed_at")


def find_small_files(request: AttentionRequest, few: int) -> FoundItems:
    """Find readable tables with mostly small files, those with the most first."""
    tables = visible_tables(request.user).filter(has_many_small_files(few), mirror_error_code="")
    facts = ("small_file_count", "file_count", "last_optimize_at")
    ordered = tables.order_by("-small_file_count", "name")
    return _find_tables(request, Condition.SMALL_FILES, ordered, facts)


def find_vacuum_due(request: AttentionRequest, _threshold: int) -> FoundItems:
    """Find readable tables that VACUUM would make much smaller now, the largest gain first."""
    tables = visible_tables(request.user).filter(is_vacuum_due(), mirror_error_code="")
    facts = ("vacuum_bytes", "vacuum_file_count", "last_vacuum_at")
    ordered = tables.order_by("-vacuum_bytes", "name")
    return _find_tables(request, Condition.VACUUM_DUE, ordered, facts)


def find_quiet_tables(request: AttentionRequest, minutes: int) -> FoundItems:
    """Find tables not synced for `minutes`; one item if many are late at once."""
    since = request.now - timedelta(minutes=minutes)
    late = visible_tables(request.user).filter(mirror_error_code="", mirrored_at__lt=since)
    ordered = late.order_by("mirrored_at")
    return _find_by_cause(request, Condition.MIRROR_QUIET, ordered, ("version",), "mirrored_at")


def _find_by_cause(
    request: AttentionRequest,
    condition: Condition,
    tables: QuerySet[Table],
    facts: tuple[str, ...],
    began: str,
) -> FoundItems:
    """Find one item for each error that many tables have in common, and for each other table."""
    told = request.exclude_muted(condition, tables, "pk")
    causes = told.order_by().values("mirror_error_code").annotate(n=Count("pk"), since=Min(began))
    common = {row["mirror_error_code"]: row for row in causes if row["n"] > MANY_TABLES}
    together = [
        AttentionItem(
            condition=condition,
            since=row["since"],
            facts={"tables": row["n"], "mirror_error_code": code},
        )
        for code, row in common.items()
    ]
    others = tables.exclude(mirror_error_code__in=common)
    items, count = _find_tables(request, condition, others, facts, began)
    return (together + items)[: request.most], len(together) + count


def _find_tables(
    request: AttentionRequest,
    condition: Condition,
    tables: QuerySet[Table],
    facts: tuple[str, ...],
    began: str = "",
) -> FoundItems:
    told = request.exclude_muted(condition, tables.defer(*HEAVY), "pk")
    first, count = request.first_of(told)
    items = [
        AttentionItem(
            condition=condition,
            table=table,
            since=getattr(table, began) if began else None,
            facts={name: getattr(table, name) for name in facts},
        )
        for table in first
    ]
    return items, count
