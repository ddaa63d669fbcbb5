"""ETags of settings, and `If-Match` on their changes: nobody overwrites what they did not see."""

import hashlib

from rest_framework.request import Request

from lakeui.api.errors import PreconditionFailed, PreconditionRequired
from lakeui.catalog.models import Table


def etag_of(table: Table) -> str:
    """Changes with the table's version and with what people say about it, not with the mirror's age."""
    settings = f"{table.pk}/{table.version}/{table.description}"
    return f'"{hashlib.sha256(settings.encode()).hexdigest()[:20]}"'


def check_if_match(request: Request, etag: str) -> None:
    """Compare the request's `If-Match` with the present ETag (RFC 9110, section 13.1.1).

    Raises:
        PreconditionRequired: the request has none.
        PreconditionFailed: it names another state.
    """
    given = request.headers.get("If-Match")
    if given is None:
        raise PreconditionRequired
    named = {tag.strip() for tag in given.split(",")}
    if "*" not in named and etag not in named:
        raise PreconditionFailed
