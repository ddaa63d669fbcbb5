"""One table at a glance: what it is, how it does, what it needs, what happened to it lately."""

from datetime import timedelta
from typing import Any

from django.conf import settings
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone

from lakeui.catalog.access import may
from lakeui.catalog.constraints import check_constraints
from lakeui.catalog.file_layout import unclustered
from lakeui.catalog.growth import GROWTH_VERSIONS, growth
from lakeui.catalog.models import Table
from lakeui.catalog.schema_rows import schema_rows
from lakeui.catalog.upkeep import chores
from lakeui.conflicts.models import Conflict
from lakeui.jobs.models import Job, Schedule
from lakeui.jobs.unregistering import needed_to_unregister
from lakeui.pages.charts.growth import draw_growth
from lakeui.pages.client_features import client_notes
from lakeui.pages.history_rows import history_rows
from lakeui.pages.table_head import table_head, visible_table

_COLUMNS_SHOWN, _RECENT = 60, 8
_CONFLICTS_SHOWN, _JOBS_SHOWN = 5, 5
CONFLICT_DAYS = 30


@login_required
def table_page(request: HttpRequest, pk: int) -> HttpResponse:
    table = visible_table(request, pk)
    return render(request, "tables/summary.html", _context(request, table))


def _context(request: HttpRequest, table: Table) -> dict[str, Any]:
    head = table_head(request, table, "summary")
    columns, not_clustered, grown = schema_rows(table), unclustered(table), growth(table)
    recent = table.commits.defer("raw").order_by("-version")[:_RECENT]
    return {
        "table": table,
        "head": head,
        "columns": columns[:_COLUMNS_SHOWN],
        "column_count": len(columns),
        "properties": sorted(table.properties.items()),
        "notes": client_notes(table),
        "constraints": check_constraints(table.properties),
        "keys": table.keys.all(),
        "rows": history_rows(table, list(recent), ()),
        "conflicts": _conflicts(table),
        "conflict_days": CONFLICT_DAYS,
        "jobs": table.jobs.select_related("requested_by").order_by("-created_at")[:_JOBS_SHOWN],
        "schedules": _schedules(table),
        "chores": chores(table, not_clustered),
        "unclustered": not_clustered,
        "may_unregister": may(request.user, needed_to_unregister(table), table)
        and not settings.READ_ONLY,
        "may_job": head.may_write and not settings.READ_ONLY,
        "growth": grown,
        "growth_chart": draw_growth(grown, timezone.now()),
        "growth_versions": GROWTH_VERSIONS,
        "active_states": Job.ACTIVE,
        "twin": f"/api/v1/tables/{table.pk}/",
    }


def _conflicts(table: Table) -> list[Conflict]:
    since = timezone.now() - timedelta(days=CONFLICT_DAYS)
    escaped = table.conflicts.exclude(kind=Conflict.Kind.ABSORBED).filter(occurred_at__gte=since)
    return list(escaped.defer("facts").order_by("-occurred_at")[:_CONFLICTS_SHOWN])


def _schedules(table: Table) -> list[Schedule]:
    return list(table.schedules.filter(enabled=True).order_by("next_due_at")[:_JOBS_SHOWN])
