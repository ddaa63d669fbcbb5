"""Rows written by the thousand: in SQLite by one prepared statement, in PostgreSQL by COPY.

`bulk_create` makes an object of every row, and prepares SQL for each of its values, which takes
longer than reading a log. Here a row is a mapping, and a value is prepared only if the database has
another type for it. Stored sums over such rows are updated in the same transaction.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from operator import itemgetter
from typing import Any

import msgspec
from django.db import IntegrityError, connection, transaction
from django.db.models import DateTimeField, F, Field, JSONField, Model

_encoder = msgspec.json.Encoder()
NewRow = Mapping[str, Any]
"""A row to insert: a value of its type for every field but the key, foreign keys as `name_id`."""


def insert_rows(model: type[Model], rows: Sequence[NewRow]) -> None:
    """Insert rows of one model."""
    if not rows:
        return
    fields = [field for field in model._meta.concrete_fields if not field.primary_key]
    names = [connection.ops.quote_name(str(field.column)) for field in fields]
    table, columns = connection.ops.quote_name(model._meta.db_table), ", ".join(names)
    if connection.vendor == "postgresql":
        _copy(f"COPY {table} ({columns}) FROM STDIN", _prepare_values(rows, fields))
        return
    places = ", ".join(["%s"] * len(fields))
    statement = f"INSERT INTO {table} ({columns}) VALUES ({places})"  # noqa: S608 - names of ours
    with connection.cursor() as cursor:
        cursor.executemany(statement, _prepare_values(rows, fields))


def _copy(statement: str, rows: Iterable[list[Any]]) -> None:
    with (
        connection.cursor() as cursor,
        connection.wrap_database_errors,
        cursor.copy(statement) as copy,
    ):
        for row in rows:
            copy.write_row(row)


def _prepare_values(rows: Iterable[NewRow], fields: Sequence["Field[Any, Any]"]) -> list[list[Any]]:
    values_of = itemgetter(*(field.attname for field in fields))
    prepared = [list(values_of(row)) for row in rows]
    for place, field in enumerate(fields):
        if prepare := _preparation(field):
            for values in prepared:
                values[place] = prepare(values[place])
    return prepared


def _preparation(field: "Field[Any, Any]") -> Callable[[Any], object] | None:
    """Return the conversion of a field's values for the database; None if they need none."""
    if isinstance(field, JSONField):
        return _encode_json
    if isinstance(field, DateTimeField):
        is_utc = connection.vendor == "sqlite" and connection.timezone == UTC
        return _utc_text if is_utc else connection.ops.adapt_datetimefield_value
    return None


def _encode_json(value: object) -> str:
    return "{}" if value == {} else _encoder.encode(value).decode()


def _utc_text(value: datetime | None) -> str | None:
    """Return a time as SQLite stores it."""
    if value is not None and value.tzinfo is UTC:
        return str(value.replace(tzinfo=None))
    return connection.ops.adapt_datetimefield_value(value)


def add_to(model: type[Model], key: Mapping[str, object], sums: Mapping[str, int]) -> None:
    """Add to the row of a key, or create it. Two workers may create the same row at once."""
    rows = model._default_manager.filter(**key)
    more = {name: F(name) + value for name, value in sums.items()}
    if rows.update(**more):
        return
    try:
        with transaction.atomic():
            first = {name: max(value, 0) for name, value in sums.items()}
            model._default_manager.create(**key, **first)
    except IntegrityError:
        rows.update(**more)


def add_sums(sums: Iterable[int], others: Iterable[int]) -> tuple[int, ...]:
    """Add sums of the same things, one by one."""
    return tuple(map(sum, zip(sums, others, strict=True)))
