"""The audit log beyond models' own records: actors, refusals, and the tables of each entry.

Entries are django-auditlog's: created with each change, shown in the admin, never edited there. The
tables of an entry are stored beside it by id. The entry itself names them inside its changes, where
no index reaches; and its object, such as a role or a key, may be deleted, so that only the entry
still names its table.
"""

import logging
from collections.abc import Iterable, Iterator, Mapping
from datetime import timedelta
from typing import Any

from auditlog.context import auditlog_value
from auditlog.middleware import AuditlogMiddleware
from auditlog.models import LogEntry
from django.contrib.auth.models import User
from django.contrib.contenttypes.models import ContentType
from django.db import DatabaseError, InterfaceError, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import CharField, Func, Q
from django.db.models.sql.compiler import SQLCompiler
from django.http import HttpRequest
from django.utils import timezone

from lakeui.catalog.filters import is_row_id
from lakeui.catalog.models import Table, TableGrant, TableKey
from lakeui.conflicts.models import StatementPair
from lakeui.jobs.models import Schedule
from lakeui.monitoring.client_address import client_address
from lakeui.monitoring.models import AuditedTable, Mute

logger = logging.getLogger(__name__)
_ONE_REFUSAL_IN = timedelta(hours=1)  # of a person, for one reason

OF_A_TABLE: Mapping[str, type[TableGrant | TableKey | Schedule | Mute | StatementPair]] = {
    "tablegrant": TableGrant,
    "tablekey": TableKey,
    "schedule": Schedule,
    "mute": Mute,
    "statementpair": StatementPair,
}
"""Models whose rows name their table."""
_PARTS = ((1, 8), (9, 4), (13, 4), (17, 4), (21, 12))


class AuditMiddleware(AuditlogMiddleware):
    """Names the caller by address."""

    @staticmethod
    def _get_remote_addr(request: HttpRequest) -> str | None:
        return client_address(request)

    @staticmethod
    def _get_actor(request: HttpRequest) -> Any:  # noqa: ANN401 - a person, or nobody
        try:
            return AuditlogMiddleware._get_actor(request)
        except (DatabaseError, InterfaceError):  # which the view tells
            return None

    @staticmethod
    def _get_remote_port(_request: HttpRequest) -> int | None:
        return None


def name_actor(user: User) -> None:
    """Set the actor, if known only after the request's middleware."""
    try:
        auditlog_value.get()["actor"] = user
    except LookupError:
        logger.debug("Outside a request there is no trail to name %s in", user.pk)


def record_refusal(request: HttpRequest, user: User, code: str) -> None:
    """Record a refused request, once an hour for equal ones."""
    path = request.path[:500]
    refused = {"refused": code, "method": request.method, "path": path}
    entry = {
        "content_type": ContentType.objects.get_for_model(Table),
        "object_pk": "",
        "object_repr": path,
        "action": LogEntry.Action.ACCESS,
        "actor": user,
    }
    if not _is_on_record(entry, refused):
        _record(**entry, additional_data=refused)


def record_session(user: User, did: str, by: User | None = None) -> None:
    """Record a person's sign-in or sign-out, or that another person ended their sessions."""
    _record(
        **_person(user),
        action=LogEntry.Action.UPDATE,
        actor=by or user,
        additional_data={"did": did},
    )


def record_failed_sign_in(name: str, code: str) -> None:
    """Record a failed sign-in as this person, with its address.

    Unknown names go to the log without the name: it may be a password in the wrong field.
    """
    user = _find_user(name)
    if user is None:
        logger.warning("A sign-in with an unknown user name was refused: %s", code)
        return
    logger.warning("A sign-in as user %s was refused: %s", user.pk, code)
    _record(**_person(user), action=LogEntry.Action.ACCESS, additional_data={"refused": code})


def record_refused_sign_on(name: str, code: str, address: str | None) -> None:
    """Record that a person named by a provider or a proxy was refused.

    Once an hour: a proxy names a person with every page, and reloading would fill the log.
    """
    user = _find_user(name)
    if user is None:
        logger.warning("A sign-on was refused: %s", code)
        return
    entry = {**_person(user), "action": LogEntry.Action.ACCESS, "remote_addr": address}
    if not _is_on_record(entry, {"refused": code}):
        logger.warning("A sign-on as user %s was refused: %s", user.pk, code)
        _record(**entry, additional_data={"refused": code})


def _is_on_record(entry: Mapping[str, Any], refused: Mapping[str, object]) -> bool:
    """Whether the log has it from the last hour: a program that retries would fill it."""
    since = timezone.now() - _ONE_REFUSAL_IN
    lately = LogEntry.objects.filter(timestamp__gt=since, **entry)
    return refused in lately.values_list("additional_data", flat=True)


def _find_user(name: str) -> User | None:
    if not name.isprintable():  # PostgreSQL takes no NUL
        return None
    return User.objects.filter(username__iexact=name.strip()).first()


def _person(user: User) -> dict[str, Any]:
    return {
        "content_type": ContentType.objects.get_for_model(User),
        "object_pk": str(user.pk),
        "object_id": user.pk,
        "object_repr": user.get_username(),
    }


def _record(**entry: Any) -> None:  # noqa: ANN401 - an entry's fields
    """Write an entry; a failure of the audit log fails nothing else."""
    try:
        with transaction.atomic():
            LogEntry.objects.create(changes={}, **entry)
    except DatabaseError:
        logger.exception("An entry could not be written to the audit log")


class WrittenKey(Func):
    """A UUID as entries write it, with hyphens: SQLite stores UUIDs without."""

    template = "CAST(%(expressions)s AS varchar)"
    output_field = CharField()

    def as_sqlite(
        self,
        compiler: SQLCompiler,
        connection: BaseDatabaseWrapper,  # noqa: ARG002
        **_: Any,  # noqa: ANN401 - Django's
    ) -> tuple[str, tuple[str | int, ...]]:
        text, given = compiler.compile(self.get_source_expressions()[0])
        parts = (f"substr({text}, {start}, {length})" for start, length in _PARTS)
        return " || '-' || ".join(parts), tuple(given) * len(_PARTS)


def keep_tables(instance: LogEntry, *, created: bool, **_: Any) -> None:  # noqa: ANN401 - a signal's
    """Store the tables of a saved entry."""
    if created and instance.content_type.model in OF_A_TABLE:
        AuditedTable.objects.bulk_create(_iter_audited_tables([instance]))


def filter_by_tables(tables: Iterable[int]) -> Q:
    """Return the condition for entries whose changes name one of these tables."""
    return Q(audited_tables__table_pk__in=list(tables))


def _iter_audited_tables(entries: Iterable[LogEntry]) -> Iterator[AuditedTable]:
    for entry in entries:
        for pk in sorted(tables_in(entry.changes)):
            yield AuditedTable(entry=entry, table_pk=pk)


def tables_in(changes: object) -> set[int]:
    """Return the ids of the tables before and after a change; other texts are left out."""
    sides = changes.get("table") if isinstance(changes, dict) else None
    texts = (
        [side for side in sides if isinstance(side, str)] if isinstance(sides, list | tuple) else []
    )
    return {int(text) for text in texts if is_row_id(text)}
