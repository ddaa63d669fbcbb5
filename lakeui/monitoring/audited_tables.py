"""The tables of an audit entry, stored beside it by id.

Entries hold them inside their changes, where no index reaches; and their object, such as a role or
a key, may be deleted, so that only the entry still names its table.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from auditlog.models import LogEntry
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import CharField, Func, Q
from django.db.models.sql.compiler import SQLCompiler

from lakeui.catalog.filters import MAX_ID_DIGITS
from lakeui.catalog.models import TableGrant, TableKey
from lakeui.jobs.models import Schedule
from lakeui.monitoring.models import AuditedTable, Mute

OF_A_TABLE: Mapping[str, type[TableGrant | TableKey | Schedule | Mute]] = {
    "tablegrant": TableGrant,
    "tablekey": TableKey,
    "schedule": Schedule,
    "mute": Mute,
}
"""Models whose rows name their table."""
_PARTS = ((1, 8), (9, 4), (13, 4), (17, 4), (21, 12))


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
    return {int(text) for text in texts if _is_number(text)}


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= MAX_ID_DIGITS
