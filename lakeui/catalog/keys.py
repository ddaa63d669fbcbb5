"""Keys and constraints of a table: primary and foreign keys, and CHECK constraints.

Logs do not hold keys, so people enter them here, and nobody enforces them: by their parts, or as
SQL from other catalogs: `ALTER TABLE t ADD CONSTRAINT name PRIMARY KEY (a, b) NOT ENFORCED RELY`,
and `… FOREIGN KEY (a) REFERENCES other (b) …`. Their promises about enforcement are ignored. CHECK
constraints are properties of a table, enforced by writers.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.contrib.auth.models import User
from django.db import IntegrityError, transaction

from engine.errors import RequestError
from engine.protocol.properties import constraint_name
from lakeui.catalog.access import Person, may, visible_tables
from lakeui.catalog.models import Table, TableKey
from lakeui.catalog.schema_rows import top_fields

MAX_TEXT = 4_000
_NAME = r"(?:`(?:[^`]|``)+`|[^\W\d]\w*)"
_PATH = rf"{_NAME}(?:\.{_NAME})*"
_LIST = rf"\(\s*({_PATH}(?:\s*,\s*{_PATH})*)\s*(?:TIMESERIES\s*)?\)"
_STATEMENT = re.compile(
    rf"\s*(?:ALTER\s+TABLE\s+(?P<table>{_PATH})\s+ADD\s+)?(?:CONSTRAINT\s+(?P<name>{_NAME})\s+)?"
    rf"(?:PRIMARY\s+KEY\s*{_LIST}|FOREIGN\s+KEY\s*{_LIST}\s*REFERENCES\s+(?P<other>{_PATH})"
    rf"(?:\s*{_LIST})?)"
    r"(?:\s+(?:NOT\s+ENFORCED|DEFERRABLE|INITIALLY\s+DEFERRED|NORELY|RELY|MATCH\s+FULL"
    r"|ON\s+UPDATE\s+NO\s+ACTION|ON\s+DELETE\s+NO\s+ACTION))*\s*;?\s*",
    re.IGNORECASE,
)
_ENFORCED = re.compile(r"(?<!NOT)\s+ENFORCED\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """A key as it was requested: nothing about it is checked yet."""

    kind: str
    columns: tuple[str, ...]
    name: str = ""
    references: str = ""
    referenced_columns: tuple[str, ...] = ()


def parse_key(text: str) -> Key:
    """Return the key declared by a statement, or by its part from CONSTRAINT or PRIMARY KEY on.

    Raises:
        RequestError: it declares none, or claims to be enforced.
    """
    match = _STATEMENT.fullmatch(text[:MAX_TEXT])
    if match is None or len(text) > MAX_TEXT:
        if _ENFORCED.search(text):
            what = "A Delta table does not enforce keys."
            raise RequestError(what, "Write NOT ENFORCED, or leave the option out.", field="sql")
        what = "The text does not declare a primary or foreign key."
        way = "Write ALTER TABLE t ADD CONSTRAINT name PRIMARY KEY (column) NOT ENFORCED."
        raise RequestError(what, way, field="sql")
    primary, foreign, referenced = match[3], match[4], match[6]
    return Key(
        kind=TableKey.Kind.PRIMARY if primary else TableKey.Kind.FOREIGN,
        columns=_names(primary or foreign),
        name=_plain(match["name"] or ""),
        references=".".join(_parts(match["other"] or "")),
        referenced_columns=_names(referenced or ""),
    )


def declare_key(table: Table, key: Key, by: User | None) -> TableKey:
    """Store a key of a table; `by` None is the system itself.

    A table hidden from the person counts as unregistered.

    Raises:
        RequestError: with the field at fault: a missing column, a second primary key, a taken name,
            or mismatched sides of a foreign key.
    """
    checked = build_key(table, key, by)
    checked.declared_by = by
    try:
        with transaction.atomic():
            checked.save()
    except IntegrityError as error:
        raise _key_conflict_error(table, checked) from error
    return checked


def build_key(table: Table, key: Key, by: User | None) -> TableKey:
    """Return the unsaved key, its columns as the schema spells them.

    Raises:
        RequestError: the key is invalid.
    """
    other = _table_seen(key.references, by)
    columns = _columns(table, key.columns, "columns")
    referenced = key.referenced_columns
    if key.kind == TableKey.Kind.FOREIGN:
        if not key.references:
            msg = "The foreign key does not name a table."
            raise RequestError(msg, "Add the table that it references.", field="references")
        referenced = _resolve_referenced_columns(other, referenced)
        if referenced and len(referenced) != len(columns):
            msg = f"{len(columns)} columns reference {len(referenced)}."
            raise RequestError(
                msg, "List the same number of columns on both sides.", field="referenced_columns"
            )
    return TableKey(
        table=table,
        kind=key.kind,
        name=key.name[:255] or _generate_name(table, key.kind, columns),
        columns=list(columns),
        references=key.references[:255],
        referenced_table=other,
        referenced_columns=list(referenced),
    )


def redact_keys(keys: Iterable[TableKey], reader: Person) -> list[TableKey]:
    """Return copies of keys for a reader, without facts about tables hidden from them.

    The rows are for display, not for saving.
    """
    shown = list(keys)
    others = {pk for key in shown if (pk := key.referenced_table_id) is not None}
    seen = visible_tables(reader).filter(pk__in=others) if others else Table.objects.none()
    hidden = others - set(seen.values_list("pk", flat=True))
    for key in shown:
        if key.referenced_table_id in hidden:
            key.referenced_table, key.references, key.referenced_columns = None, "", []
    return shown


def list_missing_columns(
    key: TableKey, columns: Mapping[str, object] | None = None
) -> tuple[str, ...]:
    """Return a key's columns that the mirrored table lacks; `columns` are its columns by name."""
    there = columns_by_name(key.table) if columns is None else columns
    return tuple(name for name in key.columns if name.lower() not in there)


def columns_by_name(table: Table) -> dict[str, dict[str, Any]]:
    """Return the top-level columns of the mirrored schema, by name in lower case."""
    return {str(field.get("name", "")).lower(): field for field in top_fields(table)}


def _columns(table: Table, names: Sequence[str], field: str) -> tuple[str, ...]:
    if not names:
        msg = "A key needs columns."
        raise RequestError(msg, "Enter one or more columns, separated by commas.", field=field)
    columns = columns_by_name(table)
    for name in names:
        if name.lower() not in columns:
            what = f"The mirrored schema of {table.name} has no column {name!r}."
            raise RequestError(what, "Use a top-level column of its schema.", field=field)
    spelt_columns = tuple(str(columns[name.lower()]["name"]) for name in names)
    if len(set(spelt_columns)) < len(spelt_columns):
        msg = "The key lists a column twice."
        raise RequestError(msg, "List each column once.", field=field)
    return spelt_columns


def _table_seen(name: str, by: User | None) -> Table | None:
    named = Table.objects.filter(name=name).first() if name else None
    return named if named is None or by is None or may(by, "view", named) else None


def _resolve_referenced_columns(other: Table | None, named: Sequence[str]) -> tuple[str, ...]:
    """Return the referenced columns, checked if the other table is registered here."""
    if other is None or other.version is None:
        return tuple(named)
    if named:
        return _columns(other, named, "referenced_columns")
    primary = other.keys.filter(kind=TableKey.Kind.PRIMARY).first()
    return tuple(primary.columns) if primary else ()


def _generate_name(table: Table, kind: str, columns: Sequence[str]) -> str:
    last = table.name.rpartition(".")[2]
    suffix = "pk" if kind == TableKey.Kind.PRIMARY else f"{'_'.join(columns)}_fk"
    return f"{last}_{suffix}"[:255]


def _key_conflict_error(table: Table, key: TableKey) -> RequestError:
    if table.keys.filter(name=key.name).exists():
        what = f"{table.name} already has a key called {key.name}."
        return RequestError(what, "Choose another name, or remove the existing key.", field="name")
    what = f"{table.name} already has a primary key."
    return RequestError(
        what, "A table can have only one primary key. Remove it first.", field="kind"
    )


def _names(text: str) -> tuple[str, ...]:
    return tuple(
        ".".join(_parts(path)) for path in re.findall(_PATH, text) if path.upper() != "TIMESERIES"
    )


def _parts(path: str) -> list[str]:
    return [_plain(part) for part in re.findall(_NAME, path)]


def _plain(name: str) -> str:
    return name[1:-1].replace("``", "`") if name.startswith("`") else name


@dataclass(frozen=True, slots=True)
class CheckConstraint:
    name: str
    condition: str


def check_constraints(properties: Mapping[str, object]) -> list[CheckConstraint]:
    """Return the CHECK constraints of a table, by name."""
    constraints = (
        CheckConstraint(name, str(value))
        for key, value in properties.items()
        if (name := constraint_name(key)) is not None
    )
    return sorted(constraints, key=lambda constraint: constraint.name)
