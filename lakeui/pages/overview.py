"""The first page, and pages about the whole lake: what needs attention, the glossary, the search.

The first page shows the news since the reader's last visit. One search field finds tables, columns,
versions, jobs, conflicts, writers and pages; the command palette also offers settings and actions.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlencode

from django.conf import settings
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_POST

from engine.errors import RequestError
from lakeui.catalog.access import action_for_kind, may, tables_where, visible_tables
from lakeui.catalog.filters import is_row_id, match_words
from lakeui.catalog.glossary import TERMS
from lakeui.catalog.hours import RANGES, commits_since
from lakeui.catalog.models import Table
from lakeui.catalog.roles import Role
from lakeui.conflicts.costs import cost_by_column
from lakeui.conflicts.filters import visible_conflicts
from lakeui.monitoring import overview as lake
from lakeui.monitoring import search as room
from lakeui.monitoring.attention import CONDITIONS, Attention, WordedItem, attention
from lakeui.monitoring.conditions import Condition
from lakeui.monitoring.models import Mute
from lakeui.monitoring.mutes import group_mutes, mute, mutes_now, visible_mutes
from lakeui.monitoring.overview import (
    SHOWS,
    SORTS,
    first_steps,
    lake_of,
    list_leading_tables,
    list_running_jobs,
    many_aborted,
    news,
    table_counts,
)
from lakeui.monitoring.recent_conflicts import (
    ConflictsOfDay,
    add_resolved_counts,
    day_of,
    partition_costs,
    sums_of_day,
)
from lakeui.monitoring.search import SearchResults, uuid_in
from lakeui.pages.access.account import hides_first_steps
from lakeui.pages.charts.bars import draw_sparkline
from lakeui.pages.charts.heat import draw_heat, draw_partition_heat
from lakeui.pages.errors import refuse_when_read_only
from lakeui.pages.table_head import TABS

HEATS = ("hour", "partition")
_A_LOOK = timedelta(minutes=30)  # pages within it belong to one visit
_ROWS, _ITEMS, _OF_A_CHECK, _PAIRS, _NEWS = 25, 7, 3, 8, 8

SPANS = {"1": "a day", "3": "3 days", "7": "a week", "30": "30 days"}
_MOST = 20  # of each check

OFFERED = 8
_PROPERTIES = (
    "isolationLevel", "enableDeletionVectors", "enableRowTracking", "enableChangeDataFeed",
    "appendOnly", "columnMapping.mode", "logRetentionDuration", "deletedFileRetentionDuration",
    "targetFileSize", "checkpointInterval", "autoOptimize.optimizeWrite", "autoOptimize.autoCompact",
)  # fmt: skip
_ON_ISOLATION = frozenset({"isolationLevel", "enableDeletionVectors", "enableRowTracking"})
_ACTIONS = (
    ("optimize", "Optimize", "compact small files"),
    ("vacuum", "Vacuum", "clean up remove old files"),
    ("append", "Insert into", "append add write rows"),
    ("delete", "Delete rows of", "remove erase"),
    ("update", "Update rows of", "change set"),
    ("merge", "Merge into", "upsert"),
)
"""The kind of a job, its label, and other words that people look for it by."""
_ACTED_ON = 3  # tables to which an action is offered


@login_required
def overview(request: HttpRequest) -> HttpResponse:
    if request.htmx:  # type: ignore[attr-defined]  # by its middleware
        fragment = {"at_work": list_running_jobs(request.user)}
        return render(request, "overview/_running.html", fragment)
    looks = _Looks(request)
    now = timezone.now()
    since = RANGES[looks.range_name].start(now) if looks.range_name in RANGES else looks.previous
    day = day_of(request.user, now)
    context = _activity_context(request, since, day)
    context |= _tables_context(request, day, now, context)
    context |= _heat(request, day, now) | build_attention(request, now, day, _OF_A_CHECK)[1]
    page: dict[str, Any] = {
        "at_work": list_running_jobs(request.user),
        "reporter": Role.REPORTER.value,
        "first_steps": [] if hides_first_steps(request) else first_steps(request.user),  # type: ignore[arg-type]
        "looks": looks,
        "since": since,
        "ranges": RANGES,
        "first_range": "24h",
        "items_shown": _ITEMS,
        "twin": f"/api/v1/overview/?since={since.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}",
    }
    response = render(request, "overview/overview.html", context | page)
    looks.remember(response)
    return response


def _activity_context(request: HttpRequest, since: datetime, day: ConflictsOfDay) -> dict[str, Any]:
    happened = lake.activity(request.user, since, day)
    return {
        "lake": lake.lake_of(request.user),
        "activity": happened,
        "day": happened.conflicts if since == day.since else sums_of_day(request.user, day),
        "pairs_shown": _PAIRS,
        "news": news(request.user, since, _NEWS),
    }


def _tables_context(
    request: HttpRequest, day: ConflictsOfDay, now: datetime, facts: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the tables, each with its day."""
    show = _one_of(request, "show", SHOWS, "")
    sort = _one_of(request, "sort", SORTS, "-aborted")
    tables = list_leading_tables(request.user, day, _ROWS, show=show, sort=sort)
    commits, happened = lake.commits_by_hour(tables, now), facts["activity"]
    return {
        "tables": tables,
        "show": show,
        "shows": table_counts(request.user, day, facts["lake"]),
        "sort": sort,
        "to_look_at": many_aborted(day),
        "table_sums": add_resolved_counts(day, tables, now),
        "day_commits": happened.commit_count
        if happened.since == day.since
        else commits_since(request.user, day.since),
        "sparks": {
            t.pk: draw_sparkline(
                commits.get(t.pk, {}), day.aborted_by_hour.get(t.pk, {}), now.astimezone(UTC)
            )
            for t in tables
        },
    }


def _heat(request: HttpRequest, day: ConflictsOfDay, now: datetime) -> dict[str, Any]:
    by = _one_of(request, "heat", HEATS, "hour")
    heat_range = RANGES.get(request.GET.get("range", ""), RANGES["24h"])
    shown = {"heat_by": by, "heat_range": heat_range}
    if by == "hour":
        costs_by_column: Mapping[tuple[str, datetime], int] = day.cost_by_hour
        if heat_range.name != "24h":
            costs_by_column = cost_by_column(visible_conflicts(request.user), now, heat_range)
        return shown | {"heat": draw_heat(costs_by_column, now, heat_range)}
    costs = partition_costs(request.user, heat_range.start(now))
    return shown | {"heat": draw_partition_heat(costs.rows), "costs": costs}


def _one_of(request: HttpRequest, name: str, names: Collection[str], preset: str) -> str:
    given = request.GET.get(name, "")
    if given and given not in names:
        msg = f"Unknown {name}."
        raise Http404(msg)
    return given or preset


class _Looks:
    """The reader's last visit, kept in a cookie; a visit lasts while they keep reading.

    At a first visit (`is_first`) the last 24 hours are reported.
    """

    def __init__(self, request: HttpRequest) -> None:
        self.range_name = request.GET.get("range", "look")
        now = timezone.now()
        before, current = _parse_visit_times(request.COOKIES.get("looked", ""))
        if current is not None and now - current > _A_LOOK:
            before = current
        self.is_first = before is None
        self.previous, self._current = before or now - timedelta(hours=24), now

    def remember(self, response: HttpResponse) -> None:
        before = 0 if self.is_first else self.previous.timestamp()
        value = f"{before:.0f}.{self._current.timestamp():.0f}"
        response.set_cookie("looked", value, max_age=31_536_000, samesite="Lax", httponly=True)


def _parse_visit_times(text: str) -> tuple[datetime | None, datetime | None]:
    parts = text.split(".")
    if len(parts) != 2 or not all(p.isascii() and p.isdigit() and len(p) < 12 for p in parts):
        return None, None
    before, current = (datetime.fromtimestamp(int(part), UTC) for part in parts)
    return (before if before.timestamp() else None), current


@login_required
def attention_list(request: HttpRequest) -> HttpResponse:
    now = timezone.now()
    attention_now, context = build_attention(request, now, day_of(request.user, now), _MOST)
    checks = [
        {"rule": rule, "count": attention_now.counts.get(condition, 0)}
        for condition, rule in CONDITIONS.items()
    ]
    context |= {
        "checks": checks,
        "lake": lake_of(request.user),
        "most": _MOST,
        "spans": SPANS,
        "may_mute_all": may(request.user, "maintain"),
        "twin": "/api/v1/attention/",
    }
    return render(request, "overview/attention.html", context)


def build_attention(
    request: HttpRequest, now: datetime, day: ConflictsOfDay, most: int
) -> tuple[Attention, dict[str, Any]]:
    """Return what needs attention now and what is muted, for every page that shows it."""
    mutes = mutes_now(now)
    attention_now = attention(request.user, now, day, group_mutes(mutes), most)
    maintained = _list_maintained_tables(request, attention_now)
    return attention_now, {
        "attention_items": [_limit_to_rights(worded, maintained) for worded in attention_now.items],
        "attention_count": attention_now.count,
        "mutes": visible_mutes(mutes, request.user),
        "check_count": len(Condition),
        "maintained": maintained,
    }


def _limit_to_rights(worded: WordedItem, maintained: Collection[int]) -> WordedItem:
    """Replace an item's step by a link to its table for people who may not act on the table."""
    table, said = worded.item.table, worded.said
    acts = said.asks_job or said.posts
    if table is None or not acts or (table.pk in maintained and not settings.READ_ONLY):
        return worded
    address = reverse("table", args=[table.pk])
    return replace(worded, said=replace(said, step="Open table", address=address, posts=False))


@require_POST
@login_required
def attention_mute(request: HttpRequest) -> HttpResponse:
    """Mute a check of one table, or of all where none is posted."""
    refuse_when_read_only()
    check, days = request.POST.get("check", ""), request.POST.get("days", "")
    if check not in Condition.values or days not in SPANS:
        msg = "This check does not exist, or it cannot be muted for so long."
        raise Http404(msg)
    table = _table(request)
    _must_maintain(request, table)
    now = timezone.now()
    until = now + timedelta(days=int(days))
    reason = request.POST.get("reason", "")
    try:
        row = mute(Condition(check), table, until, by=request.user, now=now, reason=reason)  # type: ignore[arg-type]  # signed in
    except RequestError as error:
        messages.error(request, str(error))
    else:
        where = f"of {table.name}" if table else "of every table"
        messages.success(
            request,
            f"{Condition(check).label} {where}: muted for {SPANS[days]}, until "
            f"{row.until:%Y-%m-%d %H:%M} UTC.",
        )
    return redirect("attention")


@require_POST
@login_required
def attention_unmute(request: HttpRequest, pk: int) -> HttpResponse:
    """End a mute."""
    refuse_when_read_only()
    row = get_object_or_404(Mute.objects.select_related("table"), pk=pk)
    if row.table is not None:
        get_object_or_404(visible_tables(request.user), pk=row.table_id)
    _must_maintain(request, row.table)
    row.delete()
    messages.success(request, f"{row.label}: told again.")
    return redirect("attention")


def _table(request: HttpRequest) -> Table | None:
    text = request.POST.get("table", "")
    if not text:
        return None
    if not is_row_id(text):
        raise Http404
    return get_object_or_404(visible_tables(request.user), pk=int(text))


def _must_maintain(request: HttpRequest, table: Table | None) -> None:
    if not may(request.user, "maintain", table):
        msg = "You need the role maintainer on the table or on every table to mute a check."
        raise PermissionDenied(msg)


def _list_maintained_tables(request: HttpRequest, attention_now: Attention) -> Collection[int]:
    """Return the tables of the attention items that this person may mute."""
    named = {worded.item.table.pk for worded in attention_now.items if worded.item.table}
    if may(request.user, "maintain"):
        return named
    return set(
        tables_where(request.user, "maintain").filter(pk__in=named).values_list("pk", flat=True)
    )


@login_required
def glossary(request: HttpRequest) -> HttpResponse:
    """Render the page without a query."""
    return render(request, "overview/glossary.html", {"terms": TERMS, "twin": "/api/v1/glossary/"})


@login_required
def search(request: HttpRequest) -> HttpResponse:
    text = request.GET.get("q", "").strip()[: room.MAX_TEXT]
    results = room.search(request.user, text)
    entries = list_matching_entries(request, text) if text or request.htmx else []  # type: ignore[attr-defined]  # by its middleware
    if request.htmx:  # type: ignore[attr-defined]
        context = {"search_text": text, "found": results, "offered": entries}
        return render(request, "overview/_suggestions.html", context)
    sure = _only_one(results, text)
    if sure is not None:
        return redirect(sure[0], *sure[1:])
    context = {
        "search_text": text,
        "found": results,
        "offered": entries,
        "shown": room.SHOWN,
        "twin": f"/api/v1/search/?{urlencode({'q': text})}",
    }
    return render(request, "overview/search.html", context)


def _only_one(results: SearchResults, text: str) -> tuple[Any, ...] | None:
    """Return the target of an exact name: a table, version, job or conflict."""
    exact = [table for table in results.tables if table.name == text]
    if exact:
        return "table", exact[0].pk
    if uuid_in(text) and results.jobs:
        return "job", results.jobs[0].pk
    if results.count == 1 and results.versions:
        return "table-version", results.versions[0].table_id, results.versions[0].version
    return None


@dataclass(frozen=True, slots=True)
class PaletteEntry:
    """A line of the palette, also found by its `words`.

    With `press` it presses that button of the page instead.
    """

    kind: str
    label: str
    address: str
    press: str = ""
    words: str = ""

    def matches(self, words: Iterable[str]) -> bool:
        """Whether its label or its other words contain each of these."""
        text = f"{self.label} {self.words}".casefold()
        return all(word in text for word in words)


def list_matching_entries(request: HttpRequest, text: str) -> list[PaletteEntry]:
    """List entries that every word of the text describes; those of the open table first."""
    words = text.casefold().split()
    table = _open_table(request)
    entries = [*(_iter_table_entries(request, table) if table else ()), *_everywhere(request)]
    matching = [entry for entry in entries if entry.matches(words)]
    if not matching and not settings.READ_ONLY:
        matching = list(_iter_actions_on_named_tables(request, words))
    return matching[:OFFERED]


def _iter_actions_on_named_tables(
    request: HttpRequest, words: Sequence[str]
) -> Iterator[PaletteEntry]:
    """Yield actions that some of the words describe, on tables whose names hold the others."""
    for kind, label, more in _ACTIONS:
        names = [word for word in words if word not in f"{label} {more}".casefold()]
        if not names or len(names) == len(words):
            continue
        tables = tables_where(request.user, action_for_kind(kind, {}))
        named = tables.filter(match_words(" ".join(names), "name")).only("name")
        for table in named.order_by("name")[:_ACTED_ON]:
            yield _build_action(table, kind, label, more)


def _build_action(table: Table, kind: str, label: str, words: str) -> PaletteEntry:
    address = _link("job-new", table=table.pk, kind=kind)
    return PaletteEntry("Action", f"{label} {table.name}", address, words=words)


def _open_table(request: HttpRequest) -> Table | None:
    """Return the table whose page is open behind the palette, if the person may see it."""
    text = request.GET.get("table", "")
    if not is_row_id(text):
        return None
    return visible_tables(request.user).only("name").filter(pk=int(text)).first()


def _iter_table_entries(request: HttpRequest, table: Table) -> Iterator[PaletteEntry]:
    for _, label, route in TABS:
        yield PaletteEntry("Page", f"{label} of {table.name}", reverse(route, args=[table.pk]))
    yield PaletteEntry("Page", f"Conflicts of {table.name}", _link("conflict-list", table=table.pk))
    yield PaletteEntry("Page", f"Jobs of {table.name}", _link("job-list", table=table.pk))
    if settings.READ_ONLY:
        return
    maintains = may(request.user, "maintain", table)
    if may(request.user, "write", table):
        yield PaletteEntry(
            "Action", f"New statement on {table.name}", _link("job-new", table=table.pk)
        )
    for kind, label, more in _ACTIONS:
        if maintains or may(request.user, action_for_kind(kind, {}), table):
            yield _build_action(table, kind, label, more)
    if maintains:
        yield from _settings_of(table)


def _settings_of(table: Table) -> Iterator[PaletteEntry]:
    for name in _PROPERTIES:
        address = _link("job-new", table=table.pk, kind="set_properties")
        if name in _ON_ISOLATION:
            address = reverse("table-isolation", args=[table.pk])
        yield PaletteEntry("Setting", f"delta.{name} of {table.name}", address)


def _everywhere(request: HttpRequest) -> Iterator[PaletteEntry]:
    for label, route in (
        ("Overview", "overview"), ("Tables", "table-list"), ("Conflicts", "conflict-list"),
        ("Jobs", "job-list"), ("Schedules", "schedule-list"), ("Needs attention", "attention"),
        ("Explain an error", "explain"), ("Monitoring", "monitoring"),
        ("Access tokens", "token-list"), ("Glossary", "glossary"),
    ):  # fmt: skip
        yield PaletteEntry("Page", label, reverse(route))
    person = request.user
    if may(person, "maintain"):
        yield PaletteEntry("Page", "Audit log", reverse("audit"))
        yield PaletteEntry("Page", "Alerts", reverse("alerts"))
    if isinstance(person, User) and person.is_staff:
        yield PaletteEntry("Page", "Admin", reverse("admin:index"))
    if not settings.READ_ONLY:
        yield from _changes(request)
    for theme in ("Light", "Dark"):
        press = f"button[name=theme][value={theme.lower()}]"
        yield PaletteEntry("Setting", f"{theme} theme", reverse("overview"), press)
    yield PaletteEntry(
        "Setting", "Times in UTC", reverse("overview"), "button[name=zone][value=UTC]"
    )
    yield PaletteEntry(
        "Setting", "Times in your zone", reverse("overview"), "button[name=zone][value=local]"
    )


def _changes(request: HttpRequest) -> Iterator[PaletteEntry]:
    if tables_where(request.user, "write").exists():
        yield PaletteEntry("Action", "New job", reverse("job-new"))
    if may(request.user, "maintain"):
        yield PaletteEntry("Action", "New schedule", reverse("schedule-new"))
        yield PaletteEntry("Action", "Register a table", reverse("table-register"))
        yield PaletteEntry("Action", "Load a file into a table", reverse("table-upload"))
        yield PaletteEntry("Action", "Clone a table", reverse("table-clone"))


def _link(route: str, **query: object) -> str:
    return f"{reverse(route)}?{urlencode(query)}"
