"""The audit trail beyond what models record of themselves: who acted, and what was refused.

Entries are django-auditlog's: created with each change, shown in the admin, never edited there.
"""

import logging

from auditlog.context import auditlog_value
from auditlog.middleware import AuditlogMiddleware
from auditlog.models import LogEntry
from django.conf import settings
from django.contrib.auth.models import User
from django.contrib.contenttypes.models import ContentType
from django.db import DatabaseError
from django.http import HttpRequest

from lakeui.catalog.models import Table

logger = logging.getLogger(__name__)


class AuditMiddleware(AuditlogMiddleware):
    """Names the caller by address; what a header claims counts only behind trusted proxies."""

    @staticmethod
    def _get_remote_addr(request: HttpRequest) -> str | None:
        address: str | None = request.META.get("REMOTE_ADDR")
        trusted: int = settings.REST_FRAMEWORK["NUM_PROXIES"]
        hops = [hop.strip() for hop in request.headers.get("X-Forwarded-For", "").split(",")]
        claimed = hops[-trusted] if 0 < trusted <= len(hops) else ""
        return claimed or address or None

    @staticmethod
    def _get_remote_port(_request: HttpRequest) -> int | None:
        return None


def name_actor(user: User) -> None:
    """Say who acts, where that is learnt only after the request's middleware."""
    try:
        auditlog_value.get()["actor"] = user
    except LookupError:
        logger.debug("Outside a request there is no trail to name %s in", user.pk)


def record_refusal(request: HttpRequest, user: User, code: str) -> None:
    """Keep that somebody asked for what they may not do. The trail failing fails nothing else."""
    try:
        LogEntry.objects.create(
            content_type=ContentType.objects.get_for_model(Table),
            object_pk="",
            object_repr=request.path[:500],
            action=LogEntry.Action.ACCESS,
            changes={},
            actor=user,
            additional_data={"refused": code, "method": request.method, "path": request.path[:500]},
        )
    except DatabaseError:
        logger.exception("A refusal could not be written to the audit trail")
