"""A table's versions: their times and changes, and the aborted attempts between them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from django.contrib.auth.decorators import login_required
from django.db.models import F, Q
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.utils import timezone

from lakeui.catalog.access import may
from lakeui.catalog.command_tables import Reader
from lakeui.catalog.differences import DefinitionChange, change_of
from lakeui.catalog.filters import PARTITION_VERSIONS
from lakeui.catalog.models import Commit, CommitFile, Table
from lakeui.catalog.row_counts import RowCounts, rows_of
from lakeui.conflicts.commit_timeline import RANGES, commit_timeline, usual_range
from lakeui.conflicts.filters import VersionFilter, may_read_condition
from lakeui.conflicts.isolation.reordering import OutOfOrderVersion, find_out_of_order_among
from lakeui.conflicts.models import Conflict
from lakeui.conflicts.version_effects import (
    VersionEffects,
    conflicts_of,
    count_aborted_by_version,
    count_resolved_by_version,
    effects_of,
)
from lakeui.jobs.filters import visible_jobs
from lakeui.jobs.models import Job
from lakeui.jobs.streams import streams_stopped_by
from lakeui.jobs.version_jobs import job_of_version
from lakeui.pages.charts.bars import draw_timeline
from lakeui.pages.exports import export
from lakeui.pages.listing import ListPage
from lakeui.pages.operations import rows_text, short_rows, what_of
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
    "files_restated": lambda c: c.files_restated,
    "files_removed": lambda c: c.files_removed,
    "bytes_added": lambda c: c.bytes_added,
    "bytes_removed": lambda c: c.bytes_removed,
    "bytes_written": lambda c: c.bytes_written,
    "rows_added": lambda c: c.rows_added,
    "rows_removed": lambda c: c.rows_removed,
    "rows_inserted": lambda c: rows_of(c).inserted,
    "rows_updated": lambda c: rows_of(c).updated,
    "rows_deleted": lambda c: rows_of(c).deleted,
    "rows_deleted_by_vectors": lambda c: c.rows_deleted_by_vectors,
    "txn_id": lambda c: c.txn_id,
    "user_metadata": lambda c: c.user_metadata,
}
_HIDDEN = ("raw",)
_VERSIONS_A_PAGE = 25
_FORM_FIELDS = ("user", "since", "until", "partition", "q")
_KEPT = (
    "operation",
    "range",
    "aborted",
    "resolved",
    "beat",
)  # beside the form's own fields
_NEVER_ABORTED = (
    "resolved",
    "partition",
    "conflict",
)  # filters excluding every aborted attempt

_BAR_STEP, _LONGEST_BAR = 7, 7
ABORTED_SHOWN = 200  # aborted attempts, on one page

_FILES_SHOWN = 6


@dataclass(frozen=True, slots=True)
class HistoryRow:
    """A version, or an aborted attempt.

    `order` is set if the version is out of order. `behind` counts the versions between its read
    version and its end; None: not recorded.
    """

    commit: Commit | None
    aborted: Conflict | None
    behind: int | None
    what: str = ""
    rows: RowCounts | None = None
    beaten: int = 0
    resolved: int = 0
    order: OutOfOrderVersion | None = None

    @property
    def bar_end(self) -> int:
        return 1 + _BAR_STEP * min(self.behind or 0, _LONGEST_BAR)

    @property
    def bar_width(self) -> int:
        return self.bar_end - 1

    @property
    def is_cut(self) -> bool:
        """Read further back than its drawing is long."""
        return (self.behind or 0) > _LONGEST_BAR

    @property
    def net_bytes(self) -> int:
        return self.commit.bytes_added - self.commit.bytes_removed if self.commit else 0

    @property
    def rows_text(self) -> str:
        return rows_text(self.rows) if self.rows else ""

    @property
    def short_rows(self) -> str:
        return short_rows(self.rows) if self.rows else ""


@login_required
def history(request: HttpRequest, pk: int) -> HttpResponseBase:
    table = visible_table(request, pk)
    commits = table.commits.defer(*_HIDDEN).order_by("-version")
    listing = ListPage(request, VersionFilter(request.GET, commits), _VERSIONS_A_PAGE)
    if "export" in request.GET and listing.is_valid:
        return export(listing.rows, COLUMNS, request.GET["export"], f"{table.name}-history")
    context = _context(request, table, listing)
    return render(request, "tables/history.html", context, status=listing.status)


def _context(request: HttpRequest, table: Table, listing: ListPage) -> dict[str, Any]:
    commits = list(listing.page)
    shows_aborted = request.GET.get("aborted") != "off"
    rows = (
        _rows(request, table, listing, commits)
        if shows_aborted
        else history_rows(table, commits, ())
    )
    now = timezone.now()
    timeline = commit_timeline(table, _range_name(request, table), now)
    opened = _find_opened_commit(request, commits)
    return {
        "table": table,
        "head": table_head(request, table, "history", here=opened.version if opened else None),
        "listing": listing,
        "rows": rows,
        "listed": (commits[0].version, commits[-1].version) if commits else None,
        "kept": _KEPT,
        "resolved": request.GET.get("resolved", ""),
        "aborted_limit": ABORTED_SHOWN,
        "aborted_shown": sum(row.aborted is not None for row in rows),
        "shows_aborted": shows_aborted,
        "timeline": timeline,
        "chart": draw_timeline(timeline, _moments(commits)),
        "operations": _operations(request, timeline.operations),
        "ranges": RANGES,
        "narrowed": any(request.GET.get(name) for name in _FORM_FIELDS),
        "partition_versions": PARTITION_VERSIONS,
        "opened": opened,
        "detail": history_detail(request, table, opened) if opened else None,
        "twin": listing.twin(f"/api/v1/tables/{table.pk}/versions/"),
    }


def _rows(
    request: HttpRequest, table: Table, listing: ListPage, commits: list[Commit]
) -> list[HistoryRow]:
    if not listing.is_valid or any(request.GET.get(name) for name in _NEVER_ABORTED):
        return history_rows(table, commits, ())
    low, high = _span(table, listing, commits)
    aborted = list_aborted_attempts(request, table, low, high)
    if request.GET.get("beat"):
        aborted = [
            conflict
            for conflict in aborted
            if conflict.winning_version in {c.version for c in commits}
        ]
    return history_rows(table, commits, aborted)


def _span(table: Table, listing: ListPage, commits: list[Commit]) -> tuple[int, int]:
    """Return the versions of this page: from its last row up to the page before it."""
    page = listing.page
    asked_in_time = bool({"since", "until"} & {one.name for one in listing.active})
    if not commits:
        return 0, -1 if asked_in_time else (table.version or 0)
    low = commits[-1].version if page.has_next() or asked_in_time else 0
    if page.has_previous():
        before = listing.rows[page.start_index() - 2].version
        return low, before - 1
    return low, commits[0].version if asked_in_time else (table.version or 0)


def _find_opened_commit(request: HttpRequest, commits: list[Commit]) -> Commit | None:
    version = request.GET.get("open", "")
    return next((commit for commit in commits if str(commit.version) == version), None)


def _moments(commits: list[Commit]) -> tuple[Any, Any] | None:
    """Return the commit times of a page's first and latest; None if they are not recorded."""
    moments = [commit.committed_at for commit in commits if commit.committed_at is not None]
    return (min(moments), max(moments)) if moments else None


def _operations(request: HttpRequest, counted: Sequence[tuple[str, int]]) -> list[tuple[str, int]]:
    """Return the operations of the span, and the requested one even without a match."""
    named = [(name, n) for name, n in counted if name]
    asked = request.GET.get("operation", "")
    if asked and asked not in dict(named):
        named.append((asked, 0))
    return named


def _range_name(request: HttpRequest, table: Table) -> str:
    name = request.GET.get("range", "")
    return name if name in RANGES else usual_range(table, timezone.now())


@dataclass(frozen=True, slots=True)
class HistoryDetail:
    """A version's detail; `change` is None if the definition stayed; `job` is its job of ours.

    `files` are the largest of its files; `more_files` counts the rest, unmirrored ones too.
    """

    commit: Commit
    previous: int | None
    change: DefinitionChange | None
    files: tuple[CommitFile, ...]
    more_files: int
    effects: VersionEffects
    streams: tuple[Job, ...]
    job: Job | None
    may_restore: bool

    @property
    def reason(self) -> str:
        """The recorded reason for it, if any."""
        return self.commit.user_metadata or (self.job.reason if self.job else "")


def history_detail(request: HttpRequest, table: Table, commit: Commit) -> HistoryDetail:
    before = table.commits.filter(version__lt=commit.version).order_by("-version")
    previous = before.values_list("version", flat=True).first()
    largest = commit.files.order_by(F("size_bytes").desc(nulls_last=True), "path")[:_FILES_SHOWN]
    files = tuple(largest)
    touched = commit.files_added + commit.files_removed
    return HistoryDetail(
        commit=commit,
        previous=previous,
        change=change_of(commit),
        files=files,
        more_files=max(touched - len(files), 0),
        effects=effects_of(table, commit.version),
        streams=tuple(streams_stopped_by(commit, request.user)),
        job=job_of_version(visible_jobs(request.user), table, commit.version),
        may_restore=previous is not None and may(request.user, "admin", table),
    )


def history_rows(
    table: Table, commits: Sequence[Commit], aborted: Iterable[Conflict]
) -> list[HistoryRow]:
    """Return rows, latest first; an aborted attempt stands above its winning version."""
    low, high = (commits[-1].version, commits[0].version) if commits else (0, -1)
    beaten, resolved = (
        count_aborted_by_version(table, low, high),
        count_resolved_by_version(table, low, high),
    )
    orders = find_out_of_order_among(table, commits)
    rows = [
        HistoryRow(
            commit,
            None,
            None if commit.read_version is None else commit.version - commit.read_version,
            what_of(commit),
            rows_of(commit),
            beaten.get(commit.version, 0),
            resolved.get(commit.version, 0),
            orders.get(commit.version),
        )
        for commit in commits
    ]
    return _merge_rows(rows, list(aborted))


def list_aborted_attempts(
    request: HttpRequest, table: Table, low: int, high: int
) -> list[Conflict]:
    """List attempts aborted by a version of a span that match the list's filters."""
    query, reader = request.GET, Reader(request.user)
    aborted = (
        conflicts_of(table)
        .filter(kind=Conflict.Kind.ABORTED, winning_version__range=(low, high))
        .defer("facts")
    )
    if operation := query.get("operation"):
        aborted = aborted.filter(current_operation__iexact=operation)
    if user := query.get("user"):
        aborted = aborted.filter(current_user_name__iexact=user)
    text = query.get("q")
    if text:
        said = Q(current_predicate__icontains=text) | Q(message__icontains=text)
        aborted = aborted.filter(said)
    first = list(aborted.order_by("-winning_version", "-occurred_at")[:ABORTED_SHOWN])
    # hidden conditions must not be searchable
    return [c for c in first if not text or may_read_condition(c, reader)]


def _merge_rows(rows: list[HistoryRow], aborted: list[Conflict]) -> list[HistoryRow]:
    merged: list[HistoryRow] = []
    waiting = [_build_aborted_row(conflict) for conflict in aborted][::-1]
    for row in rows:
        version = row.commit.version if row.commit else 0
        while waiting and _get_winning_version(waiting[-1]) >= version:
            merged.append(waiting.pop())
        merged.append(row)
    return merged + waiting[::-1]


def _get_winning_version(row: HistoryRow) -> int:
    return (row.aborted.winning_version or 0) if row.aborted else 0


def _build_aborted_row(conflict: Conflict) -> HistoryRow:
    are_recorded = conflict.read_version is not None and conflict.winning_version is not None
    behind = (
        (conflict.winning_version or 0) - (conflict.read_version or 0) if are_recorded else None
    )
    return HistoryRow(None, conflict, behind)
