"""`manage.py doctor`: checks of this installation, with remedies."""

import json
import os
from dataclasses import asdict

from django.core.management.base import BaseCommand, CommandError, CommandParser

from lakeui.local_stack.checkup import findings, place_of


class Command(BaseCommand):
    help = (
        "Check every part of this installation. The exit code is 0 if everything works, and "
        "1 otherwise."
    )
    requires_system_checks: list[str] = []
    requires_migrations_checks = False

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("-o", "--output", choices=("table", "json"), default="table")
        parser.add_argument("--json", action="store_const", const="json", dest="output")

    def handle(self, *args: object, **options: object) -> None:
        del args
        place = place_of(os.environ)
        rows = list(findings(place))
        is_ok = not any(row.problem for row in rows)
        if options["output"] == "json":
            checks = [asdict(row) for row in rows]
            self.stdout.write(json.dumps({"place": place, "ok": is_ok, "checks": checks}))
        else:
            self.stdout.write(f"This installation is {place}.")
            for row in rows:
                state = row.problem or ("works" if row.is_set_up else "not set up")
                self.stdout.write(f"{row.check:10} {state} {row.remedy}".rstrip())
        if not is_ok:
            msg = "Something needs attention."
            raise CommandError(msg)
