"""ETags, and `If-Match` on changes of settings: nobody overwrites a change they have not seen.

An ETag has two parts: the state, which a request may wait on and a change must name, and a digest
of the answer. A 304 therefore always means an identical answer, for any reader.
"""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from rest_framework.request import Request

from lakeui.api.errors import PreconditionFailed, PreconditionRequired
from lakeui.catalog.models import Table

_BY_THE_CLOCK = frozenset({"mirrored_at", "mirror_tried_at", "heartbeat_at", "cost"})
"""Fields that change without news: an answer that differs only in these is the same."""


def state_of(table: Table) -> str:
    """Return the table's state: its version and description, but not the mirror's age."""
    return digest_of((table.pk, table.version, table.description))


def digest_of(what: object) -> str:
    """Return a short digest of a value."""
    return hashlib.sha256(repr(what).encode()).hexdigest()[:20]


def etag_of(state: str, body: Mapping[str, Any]) -> str:
    """Return the ETag of an answer about a state."""
    shown = {name: value for name, value in body.items() if name not in _BY_THE_CLOCK}
    return f'"{state}.{digest_of(json.dumps(shown, default=str, sort_keys=True))}"'


def has_state(request: Request, state: str) -> bool:
    """Whether the caller already has an answer about a state (RFC 9110, section 13.1.2)."""
    return _names(request.headers.get("If-None-Match", ""), state)


def check_if_match(request: Request, state: str) -> None:
    """Compare the request's `If-Match` with the present state (RFC 9110, section 13.1.1).

    Raises:
        PreconditionRequired: the request has none.
        PreconditionFailed: it names another state.
    """
    given = request.headers.get("If-Match")
    if given is None:
        raise PreconditionRequired
    if not _names(given, state):
        raise PreconditionFailed


def _names(tags: str, state: str) -> bool:
    given = {tag.strip().removeprefix("W/").strip('"').partition(".")[0] for tag in tags.split(",")}
    return not given.isdisjoint({"*", state})
