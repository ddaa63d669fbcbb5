"""The head of every page of a table: its facts in one line, its ruler, its tabs."""

from dataclasses import dataclass
from datetime import timedelta

from django.db.models import Count, Q
from django.http import HttpRequest
from django.shortcuts import get_object_or_404
from django.urls import reverse
from django.utils import timezone

from lakeui.catalog.access import role_of, visible_tables
from lakeui.catalog.models import Table, TableSync
from lakeui.catalog.roles import Role
from lakeui.catalog.syncs import sync_of
from lakeui.conflicts.models import Conflict
from lakeui.conflicts.version_effects import conflicts_of
from lakeui.jobs.filters import visible_jobs
from lakeui.jobs.writers import active_jobs
from lakeui.pages.access.account import read_watched_ids
from lakeui.pages.charts.ruler import RULER_VERSIONS, Ruler, draw_ruler

TABS = (
    ("summary", "Summary", "table"),
    ("schema", "Schema", "table-schema"),
    ("history", "History", "table-history"),
    ("concurrency", "Concurrency", "table-concurrency"),
    ("what-if", "What if", "table-what-if"),
    ("isolation", "Isolation", "table-isolation"),
    ("eligibility", "Row-level eligibility", "table-eligibility"),
    ("files", "Files", "table-files"),
    ("preview", "Rows", "table-preview"),
)
"""The pages of a table alone: name, label, route. Conflicts and jobs are lists of all tables, narrowed."""
_COMMITS = ("commits", "Commits", "table-commits")
"""The page, after the history, of a table whose commits the catalog decides."""


@dataclass(frozen=True, slots=True)
class Tab:
    name: str
    label: str
    address: str
    count: int | None = None


@dataclass(frozen=True, slots=True)
class TableHead:
    """Facts beside the table's own row."""

    ruler: Ruler | None
    tabs: tuple[Tab, ...]
    current_tab: str
    resolved: int
    aborted: int
    last_writer: str
    role: Role | None
    is_watched: bool
    sync: TableSync | None

    @property
    def may_write(self) -> bool:
        return self.role is not None and self.role >= Role.OPERATOR

    @property
    def may_maintain(self) -> bool:
        return self.role is not None and self.role >= Role.MAINTAINER


def visible_table(request: HttpRequest, pk: int) -> Table:
    """Return the table; 404 for a missing and for a hidden one alike."""
    tables = visible_tables(request.user).select_related("managed")  # for its tabs
    return get_object_or_404(tables, pk=pk)


def table_head(
    request: HttpRequest, table: Table, current_tab: str, here: int | None = None
) -> TableHead:
    """Return the head; `here` is the page's version, None for a page about all versions."""
    recent = list(
        table.commits.order_by("-version").values_list("version", "operation", "user_name")[
            :RULER_VERSIONS
        ]
    )
    counts = _conflict_counts(table)
    aborted_by = (
        conflicts_of(table)
        .filter(kind=Conflict.Kind.ABORTED, winning_version__gte=recent[-1][0] if recent else 0)
        .values_list("winning_version", flat=True)
    )
    commits = [(version, operation) for version, operation, _ in reversed(recent)]
    ruler = draw_ruler(commits, aborted_by, table.version if here is None else here)
    active = visible_jobs(request.user) & active_jobs(table)
    return TableHead(
        ruler=ruler,
        tabs=_tabs(table, counts["all"], active.count()),
        current_tab=current_tab,
        resolved=counts["resolved"],
        aborted=counts["aborted"],
        last_writer=recent[0][2] if recent else "",
        role=role_of(request.user, table),
        is_watched=table.pk in read_watched_ids(request),
        sync=sync_of(table),
    )


def _conflict_counts(table: Table) -> dict[str, int]:
    day = Q(occurred_at__gte=timezone.now() - timedelta(hours=24))
    return table.conflicts.aggregate(
        all=Count("pk", filter=~Q(kind=Conflict.Kind.RESOLVED)),
        resolved=Count("pk", filter=day & Q(kind=Conflict.Kind.RESOLVED)),
        aborted=Count("pk", filter=day & ~Q(kind=Conflict.Kind.RESOLVED)),
    )


def _tabs(table: Table, conflict_count: int, active_jobs: int) -> tuple[Tab, ...]:
    pages = list(TABS)
    if hasattr(table, "managed"):
        pages.insert(3, _COMMITS)
    tabs = [Tab(name, label, reverse(route, args=[table.pk])) for name, label, route in pages]
    conflicts = f"{reverse('conflict-list')}?table={table.pk}"
    jobs = f"{reverse('job-list')}?table={table.pk}"
    after = [tab.name for tab in tabs].index("concurrency") + 1
    return (
        *tabs[:after],
        Tab("conflicts", "Conflicts", conflicts, conflict_count or None),
        *tabs[after:],
        Tab("jobs", "Jobs", jobs, active_jobs or None),
    )
