"""`manage.py unregister TABLE`: take a table off the list; its files stay."""

import json
from dataclasses import asdict

from django.core.management.base import BaseCommand, CommandError, CommandParser

from engine.errors import EngineError
from lakeui.catalog.command_tables import table_called
from lakeui.catalog.models import Table
from lakeui.conflicts.unregistration import RecordCounts, unregister_table


class Command(BaseCommand):
    help = "Unregister a table and delete its records here. Its files and its log stay unchanged."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("table", help="its name, or its directory or URL as registered")
        parser.add_argument("--reason", default="", help="for the audit log")
        parser.add_argument("-o", "--output", choices=("table", "json"), default="table")

    def handle(self, *args: object, **options: object) -> None:
        del args
        table = _get_table(str(options["table"]))
        try:
            kept = unregister_table(table, None, str(options["reason"]))
        except EngineError as error:
            raise CommandError(str(error)) from error
        if options["output"] == "json":
            self.stdout.write(
                json.dumps({"name": table.name, "uri": table.uri, "forgotten": asdict(kept)})
            )
            return
        self.stdout.write(f"{table.name} is no longer registered.")
        self.stdout.write(f"Forgotten: {_describe_counts(kept)}.")
        self.stdout.write(f"Its files are unchanged at {table.uri}.")


def _get_table(text: str) -> Table:
    table = table_called(text)
    if table is None:
        msg = f"No table is called {text}. The Tables page lists all names."
        raise CommandError(msg)
    return table


def _describe_counts(kept: RecordCounts) -> str:
    counts = asdict(kept).items()
    said = (f"{count:,} {what[:-1] if count == 1 else what}" for what, count in counts if count)
    return ", ".join(said) or "only its name"
