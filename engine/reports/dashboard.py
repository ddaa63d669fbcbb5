"""The dashboard's address for reports: one POST, without following it elsewhere."""

import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from email.message import Message
from enum import StrEnum
from http.client import HTTPException
from typing import IO, Any

ADDRESS = "/api/v1/pipelines/events/"
_UNUSABLE = frozenset({400, 409, 413, 415, 422})
_READ_BYTES = 1_000_000


class BatchReply(StrEnum):
    """The outcome of a batch: DELIVERED, UNUSABLE (never retried), or LATER (to retry)."""

    DELIVERED = "delivered"
    UNUSABLE = "unusable"
    LATER = "later"


@dataclass(frozen=True, slots=True)
class DashboardAnswer:
    """The outcome of a batch with its reason, the time to retry, and the refused events."""

    reply: BatchReply
    reason: str = ""
    retry_after_s: float | None = None
    refused: tuple[Mapping[str, Any], ...] = field(default=())


class _StayHere(urllib.request.HTTPRedirectHandler):
    """Treats redirects as errors, so the token goes to no other host."""

    def redirect_request(
        self,
        req: urllib.request.Request,  # noqa: ARG002
        fp: IO[bytes],  # noqa: ARG002
        code: int,  # noqa: ARG002
        msg: str,  # noqa: ARG002
        headers: Message,  # noqa: ARG002
        newurl: str,  # noqa: ARG002
    ) -> urllib.request.Request | None:
        """Follow none."""
        return None


class Dashboard:
    """A dashboard and the token for it."""

    def __init__(self, url: str, token: str, timeout_s: float) -> None:
        self._address = url.rstrip("/") + ADDRESS
        self._token, self._timeout_s = token, timeout_s
        self._opener = urllib.request.build_opener(_StayHere)

    def post(self, body: bytes) -> DashboardAnswer:
        """Send a batch; errors are returned as outcomes too."""
        headers = {
            "Authorization": f"Bearer {self._token}",
            "Content-Type": "application/json",
            "Accept": "application/json",
        }
        request = urllib.request.Request(self._address, body, headers)  # noqa: S310 - http, by `Settings`
        try:
            with self._opener.open(request, timeout=self._timeout_s) as response:
                return _parse_answer(response.read(_READ_BYTES))
        except urllib.error.HTTPError as error:
            with error:
                return _parse_refusal(error)
        except (OSError, HTTPException, ValueError) as error:
            return DashboardAnswer(BatchReply.LATER, f"{type(error).__name__}: {error}")


def _parse_answer(body: bytes) -> DashboardAnswer:
    """Parse the dashboard's answer; anything else, such as a login page, means LATER."""
    try:
        refused = json.loads(body)["refused"]
        return DashboardAnswer(
            BatchReply.DELIVERED, refused=tuple(item for item in refused if item)
        )
    except (ValueError, KeyError, TypeError):
        return DashboardAnswer(BatchReply.LATER, "The answer did not come from a dashboard.")


def _parse_refusal(error: urllib.error.HTTPError) -> DashboardAnswer:
    try:
        detail = json.loads(error.read(_READ_BYTES))
        reason = f"{error.code} {detail.get('code')}: {detail.get('detail')}"
        faults = tuple(fault for fault in detail.get("errors") or () if isinstance(fault, dict))
    except (ValueError, AttributeError, OSError, HTTPException):
        reason, faults = f"{error.code} {error.reason}", ()
    if faults and all(fault.get("code") == "not_kept" for fault in faults):
        return DashboardAnswer(BatchReply.DELIVERED, refused=faults)
    wait = str(error.headers.get("Retry-After") or "")
    reply = BatchReply.UNUSABLE if error.code in _UNUSABLE else BatchReply.LATER
    return DashboardAnswer(reply, reason, float(wait) if wait.isdecimal() else None, faults)
