"""`manage.py register URI`: make a table known."""

import json

from django.core.management.base import BaseCommand, CommandError, CommandParser

from engine.errors import EngineError
from lakeui.catalog.registration import register_table


class Command(BaseCommand):
    help = "Register a Delta table under TABLE_ROOTS, and mirror its log."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("uri", help="its directory or URL")
        parser.add_argument("--name", default="", help="its name here")
        parser.add_argument("-o", "--output", choices=("table", "json"), default="table")

    def handle(self, *args: object, **options: object) -> None:
        del args
        try:
            table = register_table(str(options["uri"]), str(options["name"]))
        except EngineError as error:
            raise CommandError(str(error)) from error
        facts = {
            "id": table.pk,
            "name": table.name,
            "uri": table.uri,
            "version": table.version,
            "files": table.file_count,
            "problem": table.mirror_error,
        }
        if options["output"] == "json":
            self.stdout.write(json.dumps(facts))
            return
        for name, value in facts.items():
            if value not in (None, ""):
                self.stdout.write(f"{name:8} {value}")
