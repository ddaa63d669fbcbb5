"""Find erasures that rows outlived, tables with many aborted writes, and costly metadata changes."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import islice
from typing import Any

from django.conf import settings
from django.db.models import Count, Q

from engine.conflict_facts import Verdict
from engine.conflicts.checker import FILE_RULES
from lakeui.catalog.access import role_of, visible_tables
from lakeui.catalog.hours import UtcHour, hour_named
from lakeui.catalog.models import HEAVY, Commit, Table
from lakeui.conflicts.eligibility.row_verdicts import row_verdicts
from lakeui.conflicts.models import Conflict, Erasure
from lakeui.monitoring.attention_items import NONE, AttentionItem, AttentionRequest, FoundItems
from lakeui.monitoring.conditions import Condition
from lakeui.monitoring.recent_conflicts import TableSums

_MONTH = timedelta(days=30)
_MS_A_MINUTE = 60_000
_HEAVY = [f"table__{name}" for name in HEAVY]
_JUDGED = 1  # tables, whose aborted writes are judged one by one


def find_outlived_erasures(request: AttentionRequest, days: int) -> FoundItems:
    """Find erasures that a worker found to be passed over: see `lakeui.conflicts.erasures`."""
    condition, since = Condition.REORDERED, request.now - timedelta(days=days)
    recent = Erasure.objects.filter(settled_by__isnull=True, at__gte=since)
    seen = (
        recent if role_of(request.user) else recent.filter(table__in=visible_tables(request.user))
    )
    told = request.exclude_muted(condition, seen, "table")
    first, count = request.first_of(
        told.select_related("table").defer(*_HEAVY).order_by("-at", "-id")
    )
    items = [
        AttentionItem(
            condition=condition,
            table=row.table,
            since=row.at,
            version=row.append_version,
            facts={
                "rows_at_most": row.rows_at_most,
                "delete_version": row.delete_version,
                "predicate": row.predicate,
                "append_writer": row.append_writer,
                "delete_writer": row.delete_writer,
            },
        )
        for row in first
    ]
    return items, count


def find_aborted_writes(request: AttentionRequest, writes: int) -> FoundItems:
    """Find tables with so many aborted writes in 24 hours, the most first.

    Writes that one change of the metadata aborted are one item, of `find_costly_metadata_changes`.
    """
    condition = Condition.ABORTED
    figures = {pk: cost.aborted for pk, cost in _costs_of_day(request).items()}
    worst, count = _select_worst(request, condition, figures, writes)
    tables = request.tables_by_id(worst)
    month = _month_of(worst, request.now)
    judged = _measure_row_level_gain(tables[pk] for pk in worst if pk in tables)
    items = [
        AttentionItem(
            condition=condition,
            table=tables[pk],
            facts=_cost_facts(request, pk) | month.get(pk, {}) | judged.get(pk, {}),
        )
        for pk in worst
        if pk in tables
    ]
    return items, count


def find_wasted_time(request: AttentionRequest, minutes: int) -> FoundItems:
    """Find tables whose aborted writes wasted so many minutes in 24 hours, the most first.

    A table with many aborted writes is one item, of `find_aborted_writes`. The time that one change
    of the metadata wasted is part of its item, of `find_costly_metadata_changes`.
    """
    condition, many = Condition.WASTED, settings.ATTENTION_ABORTED
    figures = {
        pk: cost.wasted_ms
        for pk, cost in _costs_of_day(request).items()
        if request.is_single or cost.aborted < many
    }
    worst, count = _select_worst(request, condition, figures, minutes * _MS_A_MINUTE)
    tables = request.tables_by_id(worst)
    items = [
        AttentionItem(condition=condition, table=tables[pk], facts=_cost_facts(request, pk))
        for pk in worst
        if pk in tables
    ]
    return items, count


def _costs_of_day(request: AttentionRequest) -> Mapping[int, TableSums]:
    """Return each table's aborted writes in 24 hours, without those of costly metadata changes.

    A request for a single condition counts them all.
    """
    costs = {pk: cost for pk, cost in request.day.by_table.items() if pk}
    if request.is_single:
        return costs
    for (pk, _), changes in _list_costly_changes(request, settings.ATTENTION_METADATA_COST):
        cost, wasted_ms = costs.get(pk, TableSums()), sum(row["wasted_ms"] for row in changes)
        costs[pk] = replace(
            cost, aborted=cost.aborted - len(changes), wasted_ms=cost.wasted_ms - wasted_ms
        )
    return costs


def _select_worst(
    request: AttentionRequest, condition: Condition, figures: Mapping[int, int], threshold: int
) -> tuple[list[int], int]:
    """Return the tables whose figure reaches the threshold, and how many there are."""
    if request.muted.hides(condition):
        return [], 0
    hidden = set(request.muted.list_muted_tables(condition))
    least = max(threshold, 1)
    reached = [pk for pk, figure in figures.items() if figure >= least and pk not in hidden]
    return sorted(reached, key=lambda pk: (-figures[pk], pk))[: request.most], len(reached)


def _cost_facts(request: AttentionRequest, table_id: int) -> dict[str, int]:
    cost = request.day.by_table[table_id]
    return {"aborted": cost.aborted, "wasted_ms": cost.wasted_ms}


def _measure_row_level_gain(tables: Iterable[Table]) -> Mapping[int, dict[str, int]]:
    """Judge the first table without row-level concurrency as if it had been on."""
    without = (table for table in tables if not table.row_level_eligible)
    facts = {}
    for table in islice(without, _JUDGED):
        verdicts = row_verdicts(table)
        facts[table.pk] = {
            "judged_30_days": len(verdicts.conflicts),
            "would_pass_30_days": len(verdicts.filter_by_verdict(Verdict.PASSES)),
            "undecidable_30_days": len(verdicts.filter_by_verdict(Verdict.UNDECIDABLE)),
        }
    return facts


def _month_of(tables: Sequence[int], now: datetime) -> Mapping[int, dict[str, int]]:
    """Count the aborted writes of a few tables in 30 days, and those aborted at file level."""
    rows = (
        Conflict.objects.filter(
            table__in=tables or NONE, occurred_at__gte=now - _MONTH, kind__in=Conflict.ABORTED_KINDS
        )
        .order_by()
        .values_list("table_id")
        .annotate(n=Count("pk"), file_level=Count("pk", Q(rule__in=FILE_RULES)))
    )
    return {
        pk: {"aborted_30_days": n, "file_level_30_days": file_level} for pk, n, file_level in rows
    }


def find_costly_metadata_changes(request: AttentionRequest, writes: int) -> FoundItems:
    """Find commits that changed the metadata and aborted so many writes in 24 hours."""
    condition = Condition.METADATA_COST
    if request.muted.hides(condition):
        return [], 0
    hidden = set(request.muted.list_muted_tables(condition))
    costly = [one for one in _list_costly_changes(request, writes) if one[0][0] not in hidden]
    shown = costly[: request.most]
    tables = request.tables_by_id({table for (table, _), _ in shown})
    quiet = quiet_hours(tables, request.now)
    items = [
        _metadata_cost(tables[table], version, changes, quiet.get(table))
        for (table, version), changes in shown
        if table in tables
    ]
    return items, len(costly)


def _list_costly_changes(
    request: AttentionRequest, writes: int
) -> list[tuple[tuple[int, int], list[Mapping[str, Any]]]]:
    """Return tables and versions with the conflicts they caused, those that wasted most first."""
    changes = request.metadata_conflicts.items()
    costly = [(key, conflicts) for key, conflicts in changes if len(conflicts) >= writes]
    return sorted(costly, key=lambda one: -sum(row["wasted_ms"] for row in one[1]))


def _metadata_cost(
    table: Table,
    version: int,
    aborted: Sequence[Mapping[str, Any]],
    quiet: tuple[int, int] | None,
) -> AttentionItem:
    first = aborted[0]
    return AttentionItem(
        condition=Condition.METADATA_COST,
        table=table,
        since=first["occurred_at"],
        version=version,
        facts={
            "aborted": len(aborted),
            "aborted_operations": sorted(row["current_operation"] for row in aborted),
            "winner_operation": first["winner_operation"],
            "winner_user_name": first["winner_user_name"],
            "wasted_ms": sum(row["wasted_ms"] for row in aborted),
            "wasted_bytes": sum(row["wasted_bytes"] for row in aborted),
            "quiet_hours_utc": list(quiet) if quiet else None,
        },
    )


DAYS = 7
_HOURS = 24


def quiet_hours(tables: Collection[int], now: datetime) -> Mapping[int, tuple[int, int]]:
    """Return the longest span without a commit in 7 days of a few tables, in UTC hours: (4, 6).

    A table that is written to at every hour, or at none, has no such span.
    """
    recent = Commit.objects.filter(
        table__in=tables or (0,), committed_at__gte=now - timedelta(DAYS)
    )
    busy: dict[int, set[int]] = {}
    hours = recent.annotate(hour=UtcHour("committed_at")).order_by()
    for table, hour in hours.values_list("table_id", "hour").distinct():
        busy.setdefault(table, set()).add(hour_named(hour).hour)
    spans = {table: _longest(hours) for table, hours in busy.items()}
    return {table: span for table, span in spans.items() if span is not None}


def _longest(busy: Iterable[int]) -> tuple[int, int] | None:
    """Round the clock: a span may begin before midnight and end after it."""
    ordered = sorted(busy)
    gaps = [
        ((later - hour - 1) % _HOURS, (hour + 1) % _HOURS, later)
        for hour, later in zip(ordered, [*ordered[1:], ordered[0]], strict=True)
    ]
    length, begin, end = max(gaps)
    return (begin, end) if length else None
