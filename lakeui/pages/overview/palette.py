"""The command palette's entries beside search results: pages, settings and actions."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from urllib.parse import urlencode

from django.conf import settings
from django.contrib.auth.models import User
from django.http import HttpRequest
from django.urls import reverse

from lakeui.catalog.access import action_for_kind, may, tables_where, visible_tables
from lakeui.catalog.filters import MAX_ID_DIGITS, match_words
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
    ("optimize", "Optimize", "compact small files"),
    ("vacuum", "Vacuum", "clean up remove old files"),
    ("append", "Insert into", "append add write rows"),
    ("delete", "Delete rows of", "remove erase"),
    ("update", "Update rows of", "change set"),
    ("merge", "Merge into", "upsert"),
)
"""The kind of a job, its label, and other words that people look for it by."""
_ACTED_ON = 3  # tables to which an action is offered


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
