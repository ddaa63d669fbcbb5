"""Polls of an open table page: later versions, and the log's first sync."""

from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.cache import never_cache
from django_htmx.http import HttpResponseClientRefresh

from lakeui.catalog.filters import MAX_ID_DIGITS
from lakeui.catalog.row_counts import rows_of
from lakeui.catalog.syncs import sync_of
from lakeui.pages.operations import rows_text
from lakeui.pages.table_head import visible_table

NOTHING_NEW = 204  # htmx leaves the page alone


@never_cache
@login_required
def notify_later_commits(request: HttpRequest, pk: int) -> HttpResponse:
    """Return a notice of versions after the page's; nothing if there are none."""
    table = visible_table(request, pk)
    text = request.GET.get("after", "")
    if not (text.isascii() and text.isdigit() and len(text) <= MAX_ID_DIGITS):
        msg = "Say which version the page showed."
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
