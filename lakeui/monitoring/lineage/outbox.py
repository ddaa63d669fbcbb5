"""Sends due events to `OPENLINEAGE_URL`: to an address over HTTP, or to the end of a file.

The setting is checked by `manage.py check` and at each start of a process.
"""

import fcntl
import json
import logging
import os
import stat
from collections.abc import Callable
from datetime import datetime, timedelta
from importlib.util import find_spec
from pathlib import Path
from threading import Event
from time import monotonic
from typing import Any
from urllib.parse import unquote, urlsplit

from django.conf import settings
from django.core.checks import CheckMessage, Error
from django.utils import timezone

from engine.errors import RequestError
from lakeui.monitoring import deliveries
from lakeui.monitoring.alerting.webhooks import DeliveryError, post, status_of, webhook_at
from lakeui.monitoring.models import LineageEvent

logger = logging.getLogger(__name__)

AT_ONCE = 200  # events in one task
_LOCK_PAUSE_S = 0.02  # between tries at a lock, which others hold for one line
Clock = Callable[[], datetime]


def deliver(clock: Clock = timezone.now, *, ends: Callable[[], bool] = lambda: False) -> int:
    """Send due events until one fails or `ends` is true; return how many were delivered."""
    for sent in range(AT_ONCE):
        if ends():
            return sent
        due = LineageEvent.objects.filter(next_try_at__lte=clock())
        event = deliveries.claim(
            due.order_by("next_try_at", "at"), clock(), settings.LINEAGE_TIMEOUT_SECONDS
        )
        if event is None or not _deliver(event, clock):
            return sent
    return AT_ONCE


def place_problem(url: str) -> str:
    """Return why nothing can be sent there, in words; "" if it can."""
    try:
        if urlsplit(url).scheme == "file":
            _path_of(url)
        else:
            webhook_at(_address_of(url), of_settings=True)
    except (RequestError, DeliveryError, ValueError) as error:
        return str(error)
    return ""


def reach_problem(url: str, seconds: float) -> str:
    """Return why nothing can be sent there now, in words; "" if it can. Nothing is sent."""
    try:
        if urlsplit(url).scheme == "file":
            _check_writable(Path(_path_of(url)))
            return ""
        webhook = webhook_at(_address_of(url), of_settings=True)
        status = status_of(webhook, _headers(), seconds)
    except (DeliveryError, RequestError, OSError, ValueError) as error:
        return _words_of(error)
    if status in (401, 403):
        return f"{webhook.shown} refuses the key (answered {status})"
    return f"{webhook.shown} answered {status}" if status >= 500 else ""


def _check_writable(path: Path) -> None:
    """Raise DeliveryError or OSError if no line can be appended. A missing file is not created."""
    if path.exists():
        descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            _check_regular(descriptor)
        finally:
            os.close(descriptor)
    elif not path.parent.is_dir():
        msg = f"there is no directory {path.parent}"
        raise DeliveryError(msg)
    elif not os.access(path.parent, os.W_OK | os.X_OK):
        msg = f"no file can be created in {path.parent}"
        raise DeliveryError(msg)


def _check_regular(descriptor: int) -> None:
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        msg = "the file cannot be written: it is not a regular file"
        raise DeliveryError(msg)


def _deliver(event: LineageEvent, clock: Clock) -> bool:
    body = json.dumps(event.content, ensure_ascii=False, separators=(",", ":")).encode()
    url = settings.LINEAGE_URL
    deliveries.release_connection()
    try:
        if urlsplit(url).scheme == "file":
            append(_path_of(url), body + b"\n", settings.LINEAGE_TIMEOUT_SECONDS)
        else:
            _post(url, body)
    except (DeliveryError, RequestError, OSError, ValueError) as error:
        what = _words_of(error)
        logger.warning("Lineage event %s failed: %s", event.pk, what)
        asked = timedelta(seconds=error.retry_after_s if isinstance(error, DeliveryError) else 0)
        deliveries.record_failure(event, what, clock(), settings.LINEAGE_GIVE_UP_HOURS, asked)
        return False
    deliveries.record_delivery(event, clock(), content={})
    return True


def _post(url: str, body: bytes) -> None:
    webhook = webhook_at(_address_of(url), of_settings=True)
    headers = {"Content-Type": "application/json", **_headers()}
    post(webhook, body, headers, settings.LINEAGE_TIMEOUT_SECONDS)


def _headers() -> dict[str, str]:
    headers = {"User-Agent": "lakeui", "Connection": "close"}
    if settings.LINEAGE_API_KEY:
        headers["Authorization"] = f"Bearer {settings.LINEAGE_API_KEY}"
    return headers


def _address_of(url: str) -> str:
    return f"{url.rstrip('/')}/{settings.LINEAGE_ENDPOINT.lstrip('/')}"


def _path_of(url: str) -> str:
    parts = urlsplit(url)
    path = unquote(parts.path)
    if parts.netloc not in ("", "localhost") or not path.strip("/"):
        msg = "does not name a file on this machine"
        raise DeliveryError(msg)
    return path


def append(path: str, line: bytes, seconds: float) -> None:
    """Append a whole line or nothing within `seconds`; undo a line that a full disk cut off.

    Other writers wait meanwhile. An unfinished line of a killed worker is ended.

    Raises:
        DeliveryError, OSError: it was not appended.
    """
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
    descriptor = os.open(path, flags | os.O_NONBLOCK, 0o640)  # a pipe would wait for its reader
    try:
        _check_regular(descriptor)
        _lock(descriptor, monotonic() + seconds)
        before = os.fstat(descriptor).st_size
        if before and os.pread(descriptor, 1, before - 1) != b"\n":
            line = b"\n" + line
        try:
            written = os.write(descriptor, line)
            if written < len(line):
                msg = "only a part of the event was written to the file: its disk may be full"
                raise DeliveryError(msg)
        except (OSError, DeliveryError):
            _cut_back(descriptor, before)
            raise
    finally:
        os.close(descriptor)


def _lock(descriptor: int, until: float) -> None:
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if monotonic() >= until:
                msg = "the file cannot be written: another process has it locked"
                raise DeliveryError(msg) from None
            Event().wait(_LOCK_PAUSE_S)
        else:
            return


def _cut_back(descriptor: int, size: int) -> None:
    try:
        os.ftruncate(descriptor, size)
    except OSError:  # what stays is ended by the next line's writer
        return


def _words_of(error: Exception) -> str:
    if isinstance(error, OSError):
        return f"the file cannot be written: {error.strerror or type(error).__name__}"
    return str(error)[:500]


def check_lineage(**_: Any) -> list[CheckMessage]:  # noqa: ANN401 - Django's
    """Check that events can be made and sent; nothing if lineage is off."""
    if not settings.LINEAGE_URL:
        return []
    if find_spec("openlineage") is None:
        what = "OPENLINEAGE_URL is set, but the package for lineage is missing."
        return [Error(what, hint="Install lakeui[server,lineage].", id="lakeui.E001")]
    if problem := place_problem(settings.LINEAGE_URL):
        hint = "Use http://host:port, https://host or file:///path."
        return [Error(f"OPENLINEAGE_URL cannot be used: {problem}", hint=hint, id="lakeui.E002")]
    return []
