"""`Idempotency-Key`: the same request again gets the first answer again, for 24 hours."""

import hashlib
import json
from collections.abc import Callable
from datetime import timedelta

from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request
from rest_framework.response import Response

from lakeui.api.caller import caller
from lakeui.api.errors import IdempotencyKeyReused
from lakeui.api.models import IdempotentAnswer

HEADER = "Idempotency-Key"
WINDOW = timedelta(hours=24)
MAX_KEY_LENGTH = 255


def key_of(request: Request) -> str:
    """Return the request's key, "" if it has none.

    Raises:
        ValidationError: it is not 1 to 255 printable ASCII characters.
    """
    key = request.headers.get(HEADER)
    if key is None:
        return ""
    if not 0 < len(key) <= MAX_KEY_LENGTH or not (key.isascii() and key.isprintable()):
        raise ValidationError({HEADER: ["Give 1 to 255 printable ASCII characters."]})
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
