"""A table's versions, and one of them."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from django.contrib.auth.decorators import login_required
from django.core.paginator import Paginator
from django.db.models import Count, QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.utils import timezone

from lakeui.catalog.access import may
from lakeui.catalog.filters import CommitFilter
from lakeui.catalog.models import Commit, CommitFile, Table
from lakeui.conflicts.models import Conflict
from lakeui.pages.charts.timeline import RANGES, Timeline, draw_timeline
from lakeui.pages.exports import export
from lakeui.pages.listing import Listing
from lakeui.pages.operations import RowCounts, rows_of, what_of
from lakeui.pages.table_head import table_head, visible_table

COLUMNS = {
    "version": lambda c: c.version,
    "committed_at": lambda c: c.committed_at,
    "operation": lambda c: c.operation,
    "user_name": lambda c: c.user_name,
    "engine_info": lambda c: c.engine_info,
    "read_version": lambda c: c.read_version,
    "isolation_level": lambda c: c.isolation_level,
    "is_blind_append": lambda c: c.is_blind_append,
    "predicate": lambda c: c.predicate,
    "operation_parameters": lambda c: c.operation_parameters,
    "operation_metrics": lambda c: c.operation_metrics,
    "files_added": lambda c: c.files_added,
    "files_removed": lambda c: c.files_removed,
    "bytes_added": lambda c: c.bytes_added,
    "bytes_removed": lambda c: c.bytes_removed,
    "rows_added": lambda c: c.rows_added,
    "rows_deleted_by_vectors": lambda c: c.rows_deleted_by_vectors,
    "txn_id": lambda c: c.txn_id,
    "user_metadata": lambda c: c.user_metadata,
}
_HIDDEN = ("raw",)
_FILES_A_PAGE = 50
_BAR_STEP, _LONGEST_BAR = 7, 7


@dataclass(frozen=True, slots=True)
class HistoryRow:
    """A version, or an attempt that lost before it could become one."""

    commit: Commit | None
    lost: Conflict | None
    what: str
    rows: RowCounts | None
    behind: int | None
    beaten: int = 0
    absorbed: int = 0

    @property
    def bar_end(self) -> int:
        return 1 + _BAR_STEP * min(self.behind or 0, _LONGEST_BAR)

    @property
    def bar_width(self) -> int:
        return self.bar_end - 1

    @property
    def net_bytes(self) -> int:
        return self.commit.bytes_added - self.commit.bytes_removed if self.commit else 0


@login_required
def history(request: HttpRequest, pk: int) -> HttpResponseBase:
    table = visible_table(request, pk)
    commits = table.commits.defer(*_HIDDEN).order_by("-version")
    listing = Listing(request, CommitFilter(request.GET, commits))
    if "export" in request.GET and listing.is_valid:
        return export(listing.rows, COLUMNS, request.GET["export"], f"{table.name}-history")
    context = _history_context(request, table, listing)
    return render(request, "tables/history.html", context, status=listing.status)


@login_required
def version(request: HttpRequest, pk: int, version: int) -> HttpResponse:
    table = visible_table(request, pk)
    commit = table.commits.filter(version=version).first()
    if commit is None:
        raise Http404(_why_not(table, version))
    context = _version_context(request, table, commit)
    return render(request, "tables/version.html", context)


def _history_context(request: HttpRequest, table: Table, listing: Listing) -> dict[str, Any]:
    shows_lost = request.GET.get("lost", "on") != "off"
    page_commits = list(listing.page)
    return {
        "table": table,
        "head": table_head(request, table, "history"),
        "listing": listing,
        "rows": _rows(table, page_commits, shows_lost=shows_lost and not listing.is_filtered),
        "shows_lost": shows_lost,
        "operations": table.commits.order_by()
        .values_list("operation")
        .annotate(n=Count("pk"))
        .order_by("-n"),
        "ranges": RANGES,
        "range_name": _range_name(request),
        "timeline": _timeline(table, _range_name(request)),
        "twin": listing.twin(f"/api/v1/tables/{table.pk}/versions/"),
    }


def _version_context(request: HttpRequest, table: Table, commit: Commit) -> dict[str, Any]:
    files = commit.files.order_by("action", "path")
    action = request.GET.get("action", "")
    if action in CommitFile.Action.values:
        files = files.filter(action=action)
    around = table.commits.order_by("version").values_list("version", flat=True)
    met = table.conflicts.filter(winning_version=commit.version).select_related("job")
    return {
        "table": table,
        "commit": commit,
        "head": table_head(request, table, "history", here=commit.version),
        "what": what_of(commit),
        "rows": rows_of(commit),
        "files": Paginator(files, _FILES_A_PAGE).get_page(request.GET.get("page")),
        "action": action,
        "actions": CommitFile.Action.choices,
        "previous": around.filter(version__lt=commit.version).last(),
        "next": around.filter(version__gt=commit.version).first(),
        "met": met.exclude(kind=Conflict.Kind.ABSORBED)[:20],
        "absorbed": _absorbed_by(table, commit),
        "files_touched": commit.files_added + commit.files_removed,
        "raw_is_cut": len(commit.raw.encode()) < commit.raw_bytes,
        "may_restore": may(request.user, "admin", table) and commit.version != table.version,
        "twin": f"/api/v1/tables/{table.pk}/versions/{commit.version}/",
    }


def _rows(table: Table, commits: list[Commit], *, shows_lost: bool) -> list[HistoryRow]:
    if not commits:
        return []
    low, high = commits[-1].version, commits[0].version
    met = table.conflicts.filter(winning_version__gte=low, winning_version__lte=high)
    beaten = _counted(met.exclude(kind=Conflict.Kind.ABSORBED).values_list("winning_version"))
    absorbed = _counted(
        table.conflicts.filter(
            kind=Conflict.Kind.ABSORBED, job__committed_version__range=(low, high)
        ).values_list("job__committed_version")
    )
    rows = [
        HistoryRow(
            commit,
            None,
            what_of(commit),
            rows_of(commit),
            None if commit.read_version is None else commit.version - commit.read_version,
            beaten.get(commit.version, 0),
            absorbed.get(commit.version, 0),
        )
        for commit in commits
    ]
    lost = met.filter(kind=Conflict.Kind.ESCAPED).order_by("-occurred_at") if shows_lost else ()
    return _merged(rows, lost)


def _merged(rows: list[HistoryRow], lost: Iterable[Conflict]) -> list[HistoryRow]:
    """Each attempt that lost stands right above the version it lost to."""
    by_winner: dict[int | None, list[HistoryRow]] = {}
    for conflict in lost:
        behind = (
            None
            if conflict.read_version is None or conflict.winning_version is None
            else conflict.winning_version - conflict.read_version
        )
        row = HistoryRow(None, conflict, "", None, behind)
        by_winner.setdefault(conflict.winning_version, []).append(row)
    merged: list[HistoryRow] = []
    for row in rows:
        merged.extend(by_winner.get(row.commit.version if row.commit else None, ()))
        merged.append(row)
    return merged


def _counted(versions: "QuerySet[Any, Any]") -> dict[int, int]:
    return dict(versions.order_by().annotate(n=Count("pk")))


def _absorbed_by(table: Table, commit: Commit) -> Iterable[Conflict]:
    """Conflicts that this version met on its way in and resolved."""
    return table.conflicts.filter(
        kind=Conflict.Kind.ABSORBED, job__committed_version=commit.version
    ).order_by("winning_version")[:20]


def _range_name(request: HttpRequest) -> str:
    name = request.GET.get("range", "")
    return name if name in RANGES else "24h"


def _timeline(table: Table, range_name: str) -> Timeline:
    now = timezone.now()
    start = now - RANGES[range_name][0]
    commits = table.commits.filter(committed_at__gte=start).order_by()
    lost = table.conflicts.filter(kind=Conflict.Kind.ESCAPED, occurred_at__gte=start).order_by()
    return draw_timeline(
        commits.values_list("committed_at", "operation").iterator(),
        lost.values_list("occurred_at", flat=True),
        range_name,
        now,
    )


def _why_not(table: Table, version: int) -> str:
    if table.version is None:
        return f"No version of {table.name} was read yet."
    if version > table.version:
        return f"{table.name} has no version {version}: the latest mirrored is {table.version}."
    return (
        f"Version {version} of {table.name} is not in the mirror: its log entry had been cleaned "
        f"up when the table was read first. The oldest kept is {table.earliest_version}."
    )
