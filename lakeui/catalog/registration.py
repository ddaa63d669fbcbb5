"""Registration of existing tables. Only their log is read, no data."""

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
from lakeui.catalog.roots import check_table_uri, split_table_uri, storage_options
from lakeui.catalog.syncs import ask_for_sync

LONGEST_PLACE = 2000
_MAX_NAME = 255
NAMING = "{path}"
NAME_PARTS = re.compile(r"\{(path|name|parent)\}")


@dataclass(frozen=True, slots=True)
class FoundTable:
    """An existing table that can be registered."""

    place: str
    name: str


def register_table(uri: str, name: str = "", by: User | None = None) -> Table:
    """Register a table and mirror it before this returns.

    A table with features that this engine cannot read is accepted too: its page names them.

    Args:
        uri: its location, under an allowed root.
        name: its name; its path below the root, with dots, by default.
        by: the person who registers it; the caller has checked their rights.

    Raises:
        PathOutsideRootError: it lies under no allowed root.
        TableNotFoundError: there is no Delta log.
        TableExistsError: the name or the location is registered already.
        RequestError: the name is invalid.
    """
    place, chosen = _check_location(uri, name)
    with suppress(UnsupportedFeatureError):  # its page names the feature
        DeltaTable.open(place, storage_options=storage_options(place))
    table = _create_table_row(place, chosen, by)
    refresh_table(table)
    return table


def request_registration(uri: str, name: str = "", by: User | None = None) -> Table:
    """Register a table, and have a light worker read its log: `table.sync` has the progress.

    Only the existence of a log is checked here. Arguments and errors as `register_table`; the
    table's page reports an unreadable log.
    """
    return register_place(look_for_table(uri, name), by)


def look_for_table(uri: str, name: str = "") -> FoundTable:
    """Return a table's location and name after finding its log. Errors as `register_table`.

    A store may answer slowly, so call this outside of a transaction.
    """
    place, chosen = _check_location(uri, name)
    check_log(open_store(place, storage_options(place)))
    return FoundTable(place, chosen)


def register_place(candidate: FoundTable, by: User | None = None) -> Table:
    """Register a found table, and have a light worker read its log.

    Raises:
        TableExistsError: the name or the location is registered already.
    """
    with transaction.atomic():
        table = _create_table_row(candidate.place, candidate.name, by)
        ask_for_sync(table)
    return table


def _check_location(uri: str, name: str) -> tuple[str, str]:
    if not uri.strip():
        msg = "No location was given."
        raise RequestError(msg, "Enter the table's directory or URL.", field="uri")
    place = check_table_uri(uri.strip(), field="uri")
    if len(place) > LONGEST_PLACE:
        msg = f"The location has more than {LONGEST_PLACE} characters."
        raise RequestError(msg, "Move the table, or mount it elsewhere.", field="uri")
    return place, _check_name(name or name_place(place))


def _create_table_row(place: str, chosen: str, by: User | None) -> Table:
    try:
        with transaction.atomic():
            return Table.objects.create(name=chosen, uri=place, registered_by=by)
    except IntegrityError as error:
        msg = f"The name {chosen} or the location {place} is already registered."
        raise TableExistsError(msg, "Choose another name, or open the existing table.") from error


def name_place(place: str, naming: str = NAMING, root: str = "") -> str:
    """Propose a table's name by its path below a root, by default the one that contains it.

    `{path}` is the path with dots, `{name}` its last part, `{parent}` the part before.
    """
    root, path = (root, place[len(root) :]) if root else split_table_uri(place)
    above, *below = (
        re.sub(r"[^\w.-]+", "_", part)
        for part in (root.rstrip("/").rpartition("/")[2], *path.split("/"))
    )
    below = [part for part in below if part] or [above or "table"]
    parent = below[-2] if len(below) > 1 else above
    values = {"path": ".".join(below), "name": below[-1], "parent": parent}
    return NAME_PARTS.sub(lambda match: values[match[1]], naming)[:_MAX_NAME]


def _check_name(name: str) -> str:
    clean = name.strip()
    if not clean or len(clean) > _MAX_NAME or not clean.isprintable():
        msg = f"{name[:100]!r} cannot be a table's name."
        raise RequestError(msg, f"Use 1 to {_MAX_NAME} printable characters.", field="name")
    return clean
