"""Tables that exist already, made known. Only their log is read, no data."""

import re
from contextlib import suppress
from dataclasses import dataclass

from django.contrib.auth.models import User
from django.db import IntegrityError, transaction

from engine.errors import RequestError, TableExistsError, UnsupportedFeatureError
from engine.log.segment import check_log
from engine.storage.uri import open_store
from engine.table import DeltaTable
from lakeui.catalog.mirror import refresh_table
from lakeui.catalog.models import Table
from lakeui.catalog.roots import check_table_uri, storage_options
from lakeui.catalog.syncs import ask_for_sync

LONGEST_PLACE = 2000
_MAX_NAME = 255


@dataclass(frozen=True, slots=True)
class FoundTable:
    """A table that is there and can be registered."""

    place: str
    name: str


def register_table(uri: str, name: str = "", by: User | None = None) -> Table:
    """Make a table known and mirror it before this returns.

    A table whose features this engine cannot read is taken too: its page names them.

    Args:
        uri: where it lies, under an allowed root.
        name: what to call it; the last part of its place by default.
        by: who registers it; the caller has checked that they may.

    Raises:
        PathOutsideRootError: it lies under no allowed root.
        TableNotFoundError: there is no Delta log.
        TableExistsError: the name or the place is registered already.
        RequestError: the name is not one.
    """
    place, chosen = _check_location(uri, name)
    with suppress(UnsupportedFeatureError):  # its page will name the feature
        DeltaTable.open(place, storage_options=storage_options(place))
    table = _create_table_row(place, chosen, by)
    refresh_table(table)
    return table


def request_registration(uri: str, name: str = "", by: User | None = None) -> Table:
    """Make a table known, and have a light worker read its log: `table.sync` says how far it is.

    Only whether there is a log is looked up here. Arguments and errors as `register_table`; a log
    that cannot be read is told by the table's page.
    """
    return register_place(look_for_table(uri, name), by)


def look_for_table(uri: str, name: str = "") -> FoundTable:
    """Where a table lies and what to call it, once its log was seen. Errors as `register_table`.

    A store may take its time to answer, so nobody looks while a transaction is open.
    """
    place, chosen = _check_location(uri, name)
    check_log(open_store(place, storage_options(place)))
    return FoundTable(place, chosen)


def register_place(candidate: FoundTable, by: User | None = None) -> Table:
    """Make a table known that was looked for, and have a light worker read its log.

    Raises:
        TableExistsError: the name or the place is registered already.
    """
    with transaction.atomic():
        table = _create_table_row(candidate.place, candidate.name, by)
        ask_for_sync(table)
    return table


def _check_location(uri: str, name: str) -> tuple[str, str]:
    if not uri.strip():
        msg = "No location was given."
        raise RequestError(msg, "Name the table's directory or URL.", field="uri")
    place = check_table_uri(uri.strip(), field="uri")
    if len(place) > LONGEST_PLACE:
        msg = f"The location has more than {LONGEST_PLACE} characters."
        raise RequestError(msg, "Move the table, or mount it elsewhere.", field="uri")
    return place, _check_name(name or _name_of(place))


def _create_table_row(place: str, chosen: str, by: User | None) -> Table:
    try:
        with transaction.atomic():
            return Table.objects.create(name=chosen, uri=place, registered_by=by)
    except IntegrityError as error:
        msg = f"The name {chosen} or the place {place} is registered already."
        raise TableExistsError(
            msg, "Choose another name, or open the table that is there."
        ) from error


def _name_of(place: str) -> str:
    return re.sub(r"[^\w.-]+", "_", place.rstrip("/").rpartition("/")[2]) or "table"


def _check_name(name: str) -> str:
    clean = name.strip()
    if not clean or len(clean) > _MAX_NAME or not clean.isprintable():
        msg = f"{name[:100]!r} cannot be a table's name."
        raise RequestError(msg, f"Use 1 to {_MAX_NAME} printable characters.", field="name")
    return clean
