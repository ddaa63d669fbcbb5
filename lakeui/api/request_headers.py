"""Headers that make requests safe to send again: `If-Match` and `Idempotency-Key`.

With `If-Match` nobody overwrites settings they have not seen. An ETag has two parts: the state,
which a request may wait on and a change must name, and a digest of the answer. A 304 therefore
always means an identical answer, for any reader.

With `Idempotency-Key` the same request again gets the first answer again, for 24 hours.
"""

import hashlib
import json
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request
from rest_framework.response import Response

from lakeui.api.authentication import caller
from lakeui.api.errors import IdempotencyKeyReused, PreconditionFailed, PreconditionRequired
from lakeui.api.models import IdempotentAnswer
from lakeui.catalog.models import Table

HEADER = "Idempotency-Key"
WINDOW = timedelta(hours=24)
MAX_KEY_LENGTH = 255

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


def key_of(request: Request) -> str:
    """Return the request's key, "" if it has none.

    Raises:
        ValidationError: it is not 1 to 255 printable ASCII characters.
    """
    key = request.headers.get(HEADER)
    if key is None:
        return ""
    if not 0 < len(key) <= MAX_KEY_LENGTH or not (key.isascii() and key.isprintable()):
        raise ValidationError({HEADER: ["Use 1 to 255 printable ASCII characters."]})
    return key


def answer_once(
    request: Request,
    answer: Callable[[], Response],
    prepare: Callable[[], object] = lambda: None,
) -> Response:
    """Return the result of `answer`, or the stored answer of the same earlier request.

    The claim of the key and the work share one transaction. A failure stores neither, so the
    request may be repeated with the same key. Of two concurrent requests, the second waits for the
    first and repeats its answer. Slow work belongs in `prepare`, because others wait for the
    transaction.

    Raises:
        IdempotencyKeyReused: the key came with another request.
    """
    key = key_of(request)
    if not key:
        prepare()
        return answer()
    digest = _digest(request)
    if not _answers(request).filter(key=key).exists():
        prepare()
    with transaction.atomic():
        claimed, is_new = _claim(request, key, digest)
        if not is_new:
            return _again(claimed, digest)
        response = answer()
        claimed.status, claimed.body = response.status_code, json.loads(_text(response))
        claimed.location = response.headers.get("Location", "")
        claimed.save(update_fields=["status", "body", "location"])
    return response


def _claim(request: Request, key: str, digest: str) -> tuple[IdempotentAnswer, bool]:
    now = timezone.now()
    user = caller(request)
    IdempotentAnswer.objects.filter(user=user, created_at__lt=now - WINDOW).delete()
    return IdempotentAnswer.objects.get_or_create(
        user=user, key=key, defaults={"digest": digest, "created_at": now}
    )


def _answers(request: Request) -> QuerySet[IdempotentAnswer]:
    """Return the person's answers that have not expired."""
    since = timezone.now() - WINDOW
    return IdempotentAnswer.objects.filter(user=caller(request), created_at__gte=since)


def _again(earlier: IdempotentAnswer, digest: str) -> Response:
    if earlier.digest != digest:
        raise IdempotencyKeyReused
    headers = {"Idempotency-Replayed": "true"}
    if earlier.location:
        headers["Location"] = earlier.location
    return Response(earlier.body, earlier.status, headers=headers)


def _digest(request: Request) -> str:
    body = json.dumps(request.data, sort_keys=True)
    return hashlib.sha256(f"{request.method} {request.path}\n{body}".encode()).hexdigest()


def _text(response: Response) -> str:
    return json.dumps(response.data, default=str)
