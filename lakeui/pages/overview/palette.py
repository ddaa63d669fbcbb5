"""The command palette's entries beside search results: pages, settings and actions."""

from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import urlencode

from django.conf import settings
from django.contrib.auth.models import User
from django.http import HttpRequest
from django.urls import reverse

from lakeui.catalog.access import action_for_kind, may, tables_where, visible_tables
from lakeui.catalog.filters import MAX_ID_DIGITS
from lakeui.catalog.models import Table
from lakeui.pages.table_head import TABS

OFFERED = 8
_PROPERTIES = (
    "isolationLevel", "enableDeletionVectors", "enableRowTracking", "enableChangeDataFeed",
    "appendOnly", "columnMapping.mode", "logRetentionDuration", "deletedFileRetentionDuration",
    "targetFileSize", "checkpointInterval", "autoOptimize.optimizeWrite", "autoOptimize.autoCompact",
)  # fmt: skip
_ON_ISOLATION = frozenset({"isolationLevel", "enableDeletionVectors", "enableRowTracking"})
_ACTIONS = (
    ("optimize", "Optimize"),
    ("vacuum", "Vacuum"),
    ("append", "Insert into"),
    ("delete", "Delete rows of"),
    ("update", "Update rows of"),
    ("merge", "Merge into"),
)


@dataclass(frozen=True, slots=True)
class PaletteEntry:
    """A line of the palette. With `press` it presses that button of the page instead."""

    kind: str
    label: str
    address: str
    press: str = ""


def list_matching_entries(request: HttpRequest, text: str) -> list[PaletteEntry]:
    """List entries whose label contains every word of the text; those of the open table first."""
    words = text.casefold().split()
    table = _open_table(request)
    entries = [*(_iter_table_entries(request, table) if table else ()), *_everywhere(request)]
    matching = (entry for entry in entries if all(w in entry.label.casefold() for w in words))
    return list(matching)[:OFFERED]


def _open_table(request: HttpRequest) -> Table | None:
    """Return the table whose page is open behind the palette, if the person may see it."""
    text = request.GET.get("table", "")
    if not (text.isascii() and text.isdigit() and len(text) <= MAX_ID_DIGITS):
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
    for kind, label in _ACTIONS:
        if maintains or may(request.user, action_for_kind(kind, {}), table):
            address = _link("job-new", table=table.pk, kind=kind)
            yield PaletteEntry("Action", f"{label} {table.name}", address)
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
