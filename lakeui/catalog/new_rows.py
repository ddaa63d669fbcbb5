"""Rows written by the thousand: in SQLite by one statement that is prepared once.

`bulk_create` prepares every value of every row as a form of SQL of its own, which takes longer than
reading a log. Here a value is prepared only where the database has another type for it.
"""

from collections.abc import Callable, Iterator, Sequence
from operator import attrgetter
from typing import Any

from django.db import connection
from django.db.models import DateTimeField, Field, JSONField, Model

_BATCH = 1000


def insert_rows(rows: Sequence[Model]) -> None:
    """Insert unsaved rows of one model. Their values are of their fields' types; do not rely on keys."""
    if not rows:
        return
    if connection.vendor != "sqlite":
        type(rows[0])._default_manager.bulk_create(rows, batch_size=_BATCH)
        return
    meta = type(rows[0])._meta
    fields = [field for field in meta.concrete_fields if not field.primary_key]
    table = connection.ops.quote_name(meta.db_table)
    columns = ", ".join(connection.ops.quote_name(str(field.column)) for field in fields)
    with connection.cursor() as cursor:
        places = ", ".join(["%s"] * len(fields))
        statement = f"INSERT INTO {table} ({columns}) VALUES ({places})"  # noqa: S608 - names of ours
        cursor.executemany(statement, list(_prepared(rows, fields)))


def _prepared(rows: Sequence[Model], fields: Sequence["Field[Any, Any]"]) -> Iterator[list[Any]]:
    values_of = attrgetter(*(field.attname for field in fields))
    special = [(place, prepare) for place, field in enumerate(fields) if (prepare := _by(field))]
    for row in rows:
        values = list(values_of(row))
        for place, prepare in special:
            values[place] = prepare(values[place])
        yield values


def _by(field: "Field[Any, Any]") -> Callable[[object], object] | None:
    """How a field's values are made the database's; None where they are already."""
    if isinstance(field, JSONField | DateTimeField):
        return lambda value: field.get_db_prep_save(value, connection)
    return None
