"""One table at a glance: its facts, health, due chores and recent events.

An open page polls for later versions, and for the log's first sync.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.contrib.auth.decorators import login_required
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.cache import never_cache
from django_htmx.http import HttpResponseClientRefresh

from lakeui.catalog.access import may
from lakeui.catalog.chores import chores
from lakeui.catalog.file_layout import measure_unclustered
from lakeui.catalog.filters import is_row_id
from lakeui.catalog.growth import GROWTH_VERSIONS, Growth, GrowthPoint, growth
from lakeui.catalog.keys import check_constraints, redact_keys
from lakeui.catalog.models import Table
from lakeui.catalog.row_counts import rows_of
from lakeui.catalog.schema_rows import SchemaRows
from lakeui.catalog.syncs import sync_of
from lakeui.catalog.units import format_bytes, format_count
from lakeui.conflicts.models import Conflict
from lakeui.conflicts.unregistration import right_to_unregister
from lakeui.jobs.filters import visible_jobs
from lakeui.jobs.models import Job, Schedule
from lakeui.jobs.writers import jobs_changing
from lakeui.pages.operations import rows_text
from lakeui.pages.table_head import table_head, visible_table
from lakeui.pages.tables.history import history_rows

_COLUMNS_SHOWN, _RECENT = 60, 8
_CONFLICTS_SHOWN, _JOBS_SHOWN = 5, 5
CONFLICT_DAYS = 30

NOTHING_NEW = 204  # htmx leaves the page alone

MEANING = {
    "appendOnly": "writers refuse DELETE and UPDATE if the property says so",
    "invariants": "writers check NOT NULL and invariants",
    "checkConstraints": "writers check each constraint",
    "changeDataFeed": "writers may record the changed rows of each version",
    "generatedColumns": "writers compute some columns",
    "columnMapping": "columns have different names in the files; old readers see nulls",
    "identityColumns": "writers assign ids from the log, so inserts cannot run concurrently",
    "deletionVectors": "deleted rows are marked in deletion vectors, which readers must apply",
    "rowTracking": "each row keeps a permanent id, so that rows can be traced through OPTIMIZE",
    "timestampNtz": "timestamps without a zone",
    "domainMetadata": "the log stores named settings of features",
    "clustering": "files are ordered by clustering columns",
    "v2Checkpoint": "checkpoints may be split into sidecars, which old readers cannot read",
    "icebergCompatV1": "files are also compatible with Apache Iceberg",
    "icebergCompatV2": "files are also compatible with Apache Iceberg",
    "inCommitTimestamp": "the commit contains the time of a version, so the file's age does not matter",
    "vacuumProtocolCheck": "VACUUM checks the protocol first",
    "typeWidening": "some columns were widened, and readers convert older values",
    "variantType": "semi-structured VARIANT columns",
    "allowColumnDefaults": "columns may have defaults",
    "catalogManaged": "commits go through a catalog",
}

_HEIGHT, _BASE = 56, 68
_FEWEST_PX, _OVERLAP = 1, 0.06  # the latter in per cent: no seam between two steps


@login_required
def table_page(request: HttpRequest, pk: int) -> HttpResponse:
    table = visible_table(request, pk)
    return render(request, "tables/summary.html", _context(request, table))


def _context(request: HttpRequest, table: Table) -> dict[str, Any]:
    head = table_head(request, table, "summary")
    columns, not_clustered, grown = SchemaRows(table), measure_unclustered(table), growth(table)
    recent = table.commits.defer("raw").order_by("-version")[:_RECENT]
    return {
        "table": table,
        "head": head,
        "columns": columns[:_COLUMNS_SHOWN],
        "column_count": len(columns),
        "properties": sorted(table.properties.items()),
        "notes": client_notes(table),
        "constraints": check_constraints(table.properties),
        "keys": redact_keys(table.keys.all(), request.user),
        "rows": history_rows(table, list(recent), ()),
        "conflicts": _conflicts(table),
        "conflict_days": CONFLICT_DAYS,
        "jobs": _jobs(request, table),
        "schedules": _schedules(table),
        "chores": chores(table, not_clustered),
        "unclustered": not_clustered,
        "may_unregister": may(request.user, right_to_unregister(table), table)
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
    aborted = table.conflicts.exclude(kind=Conflict.Kind.RESOLVED).filter(occurred_at__gte=since)
    return list(aborted.defer("facts").order_by("-occurred_at")[:_CONFLICTS_SHOWN])


def _jobs(request: HttpRequest, table: Table) -> QuerySet[Job]:
    jobs = visible_jobs(request.user).filter(jobs_changing([table.pk]))
    return jobs.select_related("requested_by", "table").order_by("-created_at")[:_JOBS_SHOWN]


def _schedules(table: Table) -> list[Schedule]:
    return list(table.schedules.filter(enabled=True).order_by("next_due_at")[:_JOBS_SHOWN])


@never_cache
@login_required
def notify_later_commits(request: HttpRequest, pk: int) -> HttpResponse:
    """Return a notice of versions after the page's; nothing if there are none."""
    table = visible_table(request, pk)
    text = request.GET.get("after", "")
    if not is_row_id(text):
        msg = "Send the version that the page showed."
        raise Http404(msg)
    if table.version is None or table.version <= int(text):
        return HttpResponse(status=NOTHING_NEW)
    commit = table.commits.filter(version=table.version).defer("raw").first()
    context = {
        "table": table,
        "count": table.version - int(text),
        "commit": commit,
        "rows": rows_text(rows_of(commit)) if commit else "",
        "again": _again(request, pk),
    }
    return render(request, "states/_landed.html", context)


@never_cache
@login_required
def sync(request: HttpRequest, pk: int) -> HttpResponse:
    """Render the progress of the log's first sync; at its end the browser reloads its page."""
    table = visible_table(request, pk)
    state = sync_of(table)
    if state is None:
        return HttpResponseClientRefresh()
    return render(request, "tables/_sync.html", {"table": table, "sync": state})


def _again(request: HttpRequest, pk: int) -> str:
    """Return the requesting page, by its browser's header; else the table's own."""
    asked: str = request.htmx.current_url_abs_path or ""  # type: ignore[attr-defined]  # by its middleware
    safe = url_has_allowed_host_and_scheme(asked, {request.get_host()}, request.is_secure())
    return asked if asked and safe else f"/tables/{pk}/"


@dataclass(frozen=True, slots=True)
class FeatureNote:
    name: str
    meaning: str
    is_for_readers: bool


@dataclass(frozen=True, slots=True)
class ClientNotes:
    """Notes on clients; `limits` are sentences on locked-out ones; empty without any."""

    features: tuple[FeatureNote, ...]
    limits: tuple[str, ...]


def client_notes(table: Table) -> ClientNotes:
    """Return notes from the mirrored protocol."""
    readers = set(table.reader_features)
    names = sorted(readers | set(table.writer_features))
    features = tuple(
        FeatureNote(name, MEANING.get(name, "unknown to this page"), name in readers)
        for name in names
    )
    return ClientNotes(features, tuple(_limits(table, readers)))


def _limits(table: Table, readers: set[str]) -> list[str]:
    limits = []
    if "deletionVectors" in readers:
        limits.append(
            "Readers without deletion vectors refuse this table: delta-spark before 2.3, "
            "Presto and Trino before 420, and plain Parquet readers."
        )
    if "columnMapping" in readers or (table.min_reader_version or 0) == 2:
        limits.append("Readers without column mapping refuse this table.")
    if "v2Checkpoint" in readers:
        limits.append("Readers without v2 checkpoints refuse this table.")
    return limits


@dataclass(frozen=True, slots=True)
class GrowthStep:
    x: float
    width: float
    y: float
    height: float
    title: str


@dataclass(frozen=True, slots=True)
class GrowthStrip:
    """One quantity: its steps, and the value of its top line."""

    name: str
    steps: tuple[GrowthStep, ...]
    top: str


@dataclass(frozen=True, slots=True)
class GrowthChart:
    """A chart; `from_label` and `to_label` label the ends of the time axis."""

    strips: tuple[GrowthStrip, ...]
    points: tuple[GrowthPoint, ...]
    from_label: str
    to_label: str
    base: int = _BASE


def draw_growth(growth: Growth, now: datetime) -> GrowthChart | None:
    """Draw the chart; None for fewer than two points, or if none has a time."""
    dated = [(p.committed_at, p) for p in growth.points if p.committed_at is not None]
    if len(dated) < 2:
        return None
    points = tuple(point for _, point in dated)
    edges = _edges([moment for moment, _ in dated], now)
    sizes = [point.size_bytes for point in points]
    files = [point.file_count for point in points]
    titles = [f"v{p.version}, {_moment(at)}" for at, p in dated]
    return GrowthChart(
        strips=(
            _strip("Size", sizes, edges, titles, format_bytes),
            _strip("Files", files, edges, titles, format_count),
        ),
        points=points,
        from_label=_moment(dated[0][0]),
        to_label="now",
    )


def _edges(moments: Sequence[datetime], now: datetime) -> list[float]:
    """Return the start of each point's step, in per cent, and the end of the last one."""
    span = (max(now, moments[-1]) - moments[0]).total_seconds() or 1
    begun = [100 * max((moment - moments[0]).total_seconds(), 0) / span for moment in moments]
    return [*begun, 100.0]


def _strip(
    name: str,
    values: Sequence[int],
    edges: Sequence[float],
    titles: Sequence[str],
    text: Callable[[float], str],
) -> GrowthStrip:
    highest = max(values) or 1
    steps = tuple(
        GrowthStep(
            x=edges[i],
            width=max(edges[i + 1] - edges[i], 0) + _OVERLAP,
            y=_BASE - max(_HEIGHT * value / highest, _FEWEST_PX),
            height=max(_HEIGHT * value / highest, _FEWEST_PX),
            title=f"{titles[i]}: {text(value)}",
        )
        for i, value in enumerate(values)
    )
    return GrowthStrip(name, steps, text(highest))


def _moment(moment: datetime) -> str:
    local = timezone.localtime(moment)
    return f"{local.day} {local:%b %H:%M}"
