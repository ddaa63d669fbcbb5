"""The one table to which a list of jobs or conflicts is filtered, if any."""

from django.http import HttpRequest

from lakeui.catalog.access import visible_tables
from lakeui.catalog.filters import MAX_ID_DIGITS
from lakeui.catalog.models import Table


def one_table(request: HttpRequest) -> Table | None:
    """Return a table by id or name, as in filters; None if it is hidden."""
    text = request.GET.get("table", "").strip()
    if not text:
        return None
    visible = visible_tables(request.user)
    if text.isascii() and text.isdigit() and len(text) <= MAX_ID_DIGITS:
        return visible.filter(pk=int(text)).first()
    return visible.filter(name=text).first()
