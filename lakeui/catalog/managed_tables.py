"""The names of the catalog: catalogs, schemas and managed tables, made and dropped.

A managed table has a row of the mirror too, so its roles, history and conflicts are those of any
table. The caller has checked the rights.
"""

import re
import uuid
from collections.abc import Mapping
from typing import Any, TypeVar

from django.conf import settings
from django.contrib.auth.models import User
from django.db import IntegrityError, models, transaction
from django.utils import timezone

from engine.errors import EngineError, InvalidCommitError, RequestError, TableExistsError
from engine.storage.base import Store
from engine.storage.uri import open_store
from lakeui.catalog.models import Table
from lakeui.catalog.roots import check_table_uri, storage_options
from lakeui.managed.models import ManagedCatalog, ManagedSchema, ManagedTable, ReservedTable
from lakeui.managed.ratification import read_first

_NAME = re.compile(r"[^\s./`\\\x00-\x1f\x7f]{1,255}")
_MAX_FULL_NAME = 255
_Named = TypeVar("_Named", bound=models.Model)


class CatalogNameTakenError(EngineError, code="LAKE_CATALOG_NAME_TAKEN", sqlstate="42710"):
    """A catalog or schema has the name already. `kind` says which."""

    def __init__(self, kind: str, name: str) -> None:
        super().__init__(f"There is a {kind} {name[:255]} already.", "Choose another name.")
        self.kind = kind


def create_catalog(name: str, by: User, storage_root: str = "", **fields: Any) -> ManagedCatalog:  # noqa: ANN401 - of the model
    """Create a catalog whose tables lie under a storage root, by default `CATALOG_ROOT`.

    Raises:
        CatalogNameTakenError: there is one of this name.
        PathOutsideRootError: its storage root lies under no allowed root.
        RequestError: the name is invalid.
    """
    root = check_table_uri(storage_root, field="storage_root") if storage_root else ""
    row = ManagedCatalog(name=_check_name(name), storage_root=root, created_by=by, **fields)
    return _insert(row, "catalog", name)


def create_schema(catalog: ManagedCatalog, name: str, by: User, **fields: Any) -> ManagedSchema:  # noqa: ANN401 - of the model
    """Create a schema. Errors as in `create_catalog`."""
    row = ManagedSchema(catalog=catalog, name=_check_name(name), created_by=by, **fields)
    return _insert(row, "schema", f"{catalog.name}.{name}")


def reserve_table(schema: ManagedSchema, name: str, by: User | None) -> ReservedTable:
    """Reserve an id and a location for a new table.

    Raises:
        TableExistsError: the schema has a table of this name.
        RequestError: the name is invalid, or too long with those of catalog and schema.
        PathOutsideRootError: the catalog's storage root is no longer allowed.
    """
    full_name = f"{schema}.{_check_name(name)}"
    if len(full_name) > _MAX_FULL_NAME:
        msg = f"{full_name[:300]} has more than {_MAX_FULL_NAME} characters."
        raise RequestError(msg, "Use a shorter name.", field="name")
    _check_free(schema, name, full_name)
    table_id = uuid.uuid4()
    root = schema.catalog.storage_root or settings.CATALOG_ROOT
    location = check_table_uri(f"{root.rstrip('/')}/{table_id}")
    return ReservedTable.objects.create(
        table_id=table_id, schema=schema, name=name, location=location, reserved_by=by
    )


def register_managed(
    reserved: ReservedTable, declared: Mapping[str, Any], *, is_written: bool
) -> ManagedTable:
    """Give a reserved table its name. `declared` holds its columns until version 0 is in its log.

    Raises:
        TableExistsError: the schema has a table of this name, or another registered table has it.
        InvalidCommitError: version 0 is invalid, or missing although it must be there.
        StorageError: the log could not be read.
    """
    full_name = f"{reserved.schema}.{reserved.name}"
    managed = ManagedTable(
        table_id=reserved.table_id,
        schema=reserved.schema,
        name=reserved.name,
        full_name=full_name,
        location=reserved.location,
        declared=dict(declared),
        created_by=reserved.reserved_by,
    )
    first = read_first(managed, open_location(managed))
    if first is None and is_written:
        what = f"Version 0 of {full_name} is not in its log."
        raise InvalidCommitError(what, "Write it first.")
    for field, value in (first or {}).items():
        setattr(managed, field, value)
    _check_free(reserved.schema, reserved.name, full_name)
    try:
        with transaction.atomic():
            managed.mirror = Table.objects.create(
                name=full_name, uri=reserved.location, registered_by=reserved.reserved_by
            )
            managed.save(force_insert=True)
            reserved.delete()
    except IntegrityError as error:
        raise _table_exists(full_name) from error
    return managed


def drop_table(managed: ManagedTable) -> None:
    """Take a table out of the catalog. Its files, versions and records stay, and free its name."""
    with transaction.atomic():
        row = ManagedTable.objects.select_for_update().get(pk=managed.pk)
        if row.dropped_at is None:
            row.dropped_at = timezone.now()
            row.save(update_fields=["dropped_at"])
            row.mirror.name = f"{row.full_name[:230]} (dropped {str(row.table_id)[:8]})"
            row.mirror.save(update_fields=["name"])


def drop_schema(schema: ManagedSchema, *, with_tables: bool) -> None:
    """Delete a schema; raise `RequestError` if it has tables and `with_tables` is false."""
    with transaction.atomic():
        ManagedSchema.objects.select_for_update().get(pk=schema.pk)
        tables = list(schema.tables.filter(dropped_at=None))
        if tables and not with_tables:
            msg = f"The schema {schema} has tables."
            raise RequestError(msg, "Drop them first.", field="name")
        for managed in tables:
            drop_table(managed)
        schema.delete()


def open_location(managed: ManagedTable | ReservedTable) -> Store:
    """Open the store of a table's files as they are; check its location at this use.

    Raises:
        PathOutsideRootError: it no longer lies under an allowed root.
    """
    place = check_table_uri(managed.location)
    return open_store(place, storage_options(place))


def _insert(row: _Named, kind: str, name: str) -> _Named:
    try:
        with transaction.atomic():
            row.save(force_insert=True)
    except IntegrityError as error:
        raise CatalogNameTakenError(kind, name) from error
    return row


def _check_name(name: str) -> str:
    if not _NAME.fullmatch(name):
        msg = f"{name[:100]!r} cannot be a name of the catalog."
        remedy = "Use 1 to 255 characters, without spaces, dots, slashes and backticks."
        raise RequestError(msg, remedy, field="name")
    return name


def _check_free(schema: ManagedSchema, name: str, full_name: str) -> None:
    has_one = schema.tables.filter(name=name, dropped_at=None).exists()
    if has_one or Table.objects.filter(name=full_name).exists():
        raise _table_exists(full_name)


def _table_exists(full_name: str) -> TableExistsError:
    return TableExistsError(f"There is a table {full_name} already.", "Choose another name.")
