"""ETags, and `If-Match` on changes of settings: nobody overwrites what they did not see.

An ETag has two parts: the state, whose next one a request may wait for and which a change must name,
and a digest of the answer. So 304 is said of an answer that is the same, whoever reads it.
"""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from rest_framework.request import Request

from lakeui.api.errors import PreconditionFailed, PreconditionRequired
from lakeui.catalog.models import Table

_BY_THE_CLOCK = frozenset({"mirrored_at", "mirror_tried_at", "heartbeat_at", "cost"})
"""What moves as long as nothing happens: an answer that differs in these alone is the same."""


def state_of(table: Table) -> str:
    """Changes with the table's version and with what people say about it, not with the mirror's age."""
    return digest_of((table.pk, table.version, table.description))


def digest_of(what: object) -> str:
    """A short text that is another for anything else."""
    return hashlib.sha256(repr(what).encode()).hexdigest()[:20]


def etag_of(state: str, body: Mapping[str, Any]) -> str:
    """The ETag of an answer that shows a state."""
    shown = {name: value for name, value in body.items() if name not in _BY_THE_CLOCK}
    return f'"{state}.{digest_of(json.dumps(shown, default=str, sort_keys=True))}"'


def has_state(request: Request, state: str) -> bool:
    """Whether the caller has an answer that shows a state (RFC 9110, section 13.1.2)."""
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
