"""Rows for tables that jobs are to make: they lie under `LAKE_HOME`, and say that nothing is there yet."""

import re

from django.conf import settings
from django.contrib.auth.models import User
from django.db.models import Q

from engine.commands.model import Command, Script
from engine.commands.script import makes_table, named
from engine.errors import RequestError, TableExistsError
from lakeui.catalog.access import may
from lakeui.catalog.models import Table
from lakeui.catalog.roots import allowed_table_uri
from lakeui.jobs.errors import NotPermittedError

_NAME = re.compile(r"^[A-Za-z_][A-Za-z0-9_-]{0,99}(\.[A-Za-z_][A-Za-z0-9_-]{0,99}){0,3}$")


def new_table(name: str, description: str, by: User | None) -> Table:
    """The row of a table that is to be made.

    Raises:
        RequestError: that cannot be a name.
        TableExistsError: the name or the place is taken.
    """
    if not _NAME.match(name):
        msg = f"{name[:200]!r} cannot be a table's name."
        raise RequestError(
            msg, "Use letters, digits, _ and -, in up to four parts with dots.", field="name"
        )
    uri = allowed_table_uri("/".join((str(settings.LAKE_HOME).rstrip("/"), *name.split("."))))
    inside = Q(uri__startswith=f"{uri}/")
    parts = uri.split("/")
    around = Q(uri__in=["/".join(parts[:end]) for end in range(1, len(parts))])
    if Table.objects.filter(Q(name=name) | Q(uri=uri) | inside | around).exists():
        msg = f"There is a table {name} already, or one that its place would overlap."
        raise TableExistsError(msg, "Choose another name.")
    return Table.objects.create(name=name, uri=uri, description=description, registered_by=by)


def tables_to_make(command: Command, table: Table, by: User | None) -> list[Table]:
    """Rows for the tables that steps of a script create or clone and that nobody knows yet.

    Raises:
        NotPermittedError: the person may not make tables.
        RequestError, TableExistsError: see `new_table`.
    """
    if not isinstance(command, Script):
        return []
    names = dict.fromkeys(named(step) for step in command.steps if makes_table(step))
    given = [name for name in names if name not in ("", table.name, table.uri)]
    pairs = Table.objects.filter(Q(name__in=given) | Q(uri__in=given)).values_list("name", "uri")
    there = {text for pair in pairs for text in pair}
    missing = [name for name in given if name not in there]
    if missing and by is not None and not may(by, "maintain"):
        what = "create"
        raise NotPermittedError(what, "maintain", "new tables")
    return [new_table(name, "", by) for name in missing]
