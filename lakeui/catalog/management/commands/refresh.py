"""`manage.py refresh [TABLE]`: mirror now, without a worker."""

import json

from django.core.management.base import BaseCommand, CommandError, CommandParser

from lakeui.catalog.hours import recount
from lakeui.catalog.mirror import rebuild_table, refresh_table
from lakeui.catalog.models import Table


class Command(BaseCommand):
    help = "Sync the mirror of one table or of all tables with their logs."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "table", nargs="?", default="", help="the table's name; all tables by default"
        )
        parser.add_argument("--rebuild", action="store_true", help="delete the mirror first")
        parser.add_argument("-o", "--output", choices=("table", "json"), default="table")

    def handle(self, *args: object, **options: object) -> None:
        del args
        mirror = rebuild_table if options["rebuild"] else refresh_table
        rows = [_row(table, mirror(table)) for table in _tables(str(options["table"]))]
        if options["rebuild"]:
            recount()  # rows may have been deleted by hand before
        if options["output"] == "json":
            self.stdout.write(json.dumps(rows))
        else:
            self._write_lines(rows)
        if any(row["problem"] for row in rows):
            msg = "Some tables could not be mirrored."
            raise CommandError(msg)

    def _write_lines(self, rows: list[dict[str, object]]) -> None:
        for row in rows:
            text = row["problem"] or f"version {row['version']}, {row['new']} new"
            self.stdout.write(f"{row['name']}: {text}")


def _tables(name: str) -> list[Table]:
    tables = list(Table.objects.filter(name=name) if name else Table.objects.all())
    if name and not tables:
        msg = f"No table is called {name}."
        raise CommandError(msg)
    return tables


def _row(table: Table, new: int) -> dict[str, object]:
    return {
        "name": table.name,
        "version": table.version,
        "new": new,
        "problem": table.mirror_error,
    }
