"""The commits of a managed table as its catalog saw them: the ratified ones, and the refused attempts."""

from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from django.contrib.auth.decorators import login_required
from django.core.paginator import Page, Paginator
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render

from engine.catalog.catalog import CatalogTableName
from engine.catalog.unity_messages import BASE_PATH
from lakeui.conflicts.models import Conflict
from lakeui.managed.models import CommitAttempt, ManagedTable, RatifiedVersion
from lakeui.pages.table_head import table_head, visible_table

_ROWS_A_PAGE = 50
RATIFIED, REFUSED = "ratified", "refused"


@dataclass(frozen=True, slots=True)
class CommitListing:
    """One page of ratified or refused commits, as `frame/_pager.html` shows it."""

    page: Page[Any]

    @property
    def total(self) -> int:
        return self.page.paginator.count


@dataclass(frozen=True, slots=True)
class AttemptLine:
    """A refused commit, and the conflict recorded for it."""

    attempt: CommitAttempt
    conflict: int | None


@login_required
def commits(request: HttpRequest, pk: int) -> HttpResponse:
    table = visible_table(request, pk)
    managed = ManagedTable.objects.filter(mirror=table).first()
    shown = request.GET.get("show", RATIFIED)
    if managed is None or shown not in (RATIFIED, REFUSED):
        msg = (
            "No catalog decides the commits of this table." if managed is None else "No such list."
        )
        raise Http404(msg)
    rows: QuerySet[Any] = (
        RatifiedVersion.objects.filter(table=managed).order_by("-version")
        if shown == RATIFIED
        else CommitAttempt.objects.filter(table=managed)
    )
    page = Paginator(rows.select_related("user"), _ROWS_A_PAGE).get_page(request.GET.get("page"))
    context = {
        "table": table,
        "head": table_head(request, table, "commits"),
        "managed": managed,
        "shown": shown,
        "unpublished": managed.latest_version - managed.published_version,
        "listing": CommitListing(page),
        "lines": _list_lines(list(page)) if shown == REFUSED else (),
        "act": {"address": _api_address(managed)},
    }
    return render(request, "tables/commits.html", context)


def _api_address(managed: ManagedTable) -> str:
    """Return the address of the table and its last commits in the catalog's own API."""
    name = CatalogTableName.parse(str(managed))
    place = f"catalogs/{name.catalog}/schemas/{name.schema}/tables/{name.table}"
    return f"{BASE_PATH}/delta/v1/{quote(place)}"


def _list_lines(attempts: list[CommitAttempt]) -> list[AttemptLine]:
    """Return the attempts with their last conflicts: one query."""
    transactions = [one.transaction_id for one in attempts if one.transaction_id is not None]
    recorded = Conflict.objects.filter(transaction__in=transactions).order_by("pk")
    conflicts = dict(recorded.values_list("transaction", "pk"))
    return [
        AttemptLine(attempt, conflicts.get(attempt.transaction_id or 0)) for attempt in attempts
    ]
