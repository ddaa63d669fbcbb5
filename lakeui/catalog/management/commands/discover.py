"""`manage.py discover`: the Delta tables below a root or of Spark's catalog, and registering them."""

import json
import subprocess
import sys
from itertools import islice

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from engine.errors import EngineError
from engine.storage.uri import open_store
from engine.words import count_noun
from lakeui.catalog.discovery import (
    Directory,
    check_search,
    iter_directories,
    matches,
    place_of,
    register_found,
)
from lakeui.catalog.models import Table
from lakeui.catalog.registration import name_place, register_table
from lakeui.catalog.roots import check_table_uri, storage_options
from lakeui.task_names import CATALOG_TABLES


class Command(BaseCommand):
    help = "List the Delta tables below a root under TABLE_ROOTS; with --register, register them."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("root", nargs="?", default="", help="a directory or URL")
        parser.add_argument(
            "--catalog",
            metavar="NAMES",
            help="search Spark's session catalog (Hive's metastore) instead of a root: 'sales.*'",
        )
        parser.add_argument(
            "--match", default="", help="only paths that match this pattern: 'sales/*'"
        )
        parser.add_argument(
            "--naming",
            default="{path}",
            help="a pattern for names, with {path}, {name} and {parent}",
        )
        parser.add_argument(
            "--register", action="store_true", help="register the tables that are not registered"
        )
        parser.add_argument(
            "--limit",
            type=int,
            default=settings.DISCOVER_MAX_DIRECTORIES,
            help="the maximum number of directories to examine",
        )
        parser.add_argument("--after", default="", help="continue after this directory")
        parser.add_argument("-o", "--output", choices=("table", "json"), default="table")

    def handle(self, *args: object, **options: object) -> None:
        del args
        if options["catalog"] is not None:
            self._list_catalog(options)
            return
        naming, limit = str(options["naming"]), int(str(options["limit"]))
        try:
            root = check_search(str(options["root"]), naming)
            directories = iter_directories(
                open_store(root, storage_options(root)), str(options["after"]).strip("/")
            )
            examined = list(islice(directories, max(1, limit)))
            has_more = len(examined) >= max(1, limit) and next(directories, None) is not None
        except EngineError as error:
            raise CommandError(str(error)) from error
        tables = [
            one for one in examined if one.is_table and matches(one.path, str(options["match"]))
        ]
        rows = _rows(root, tables, naming)
        if options["register"]:
            _register(rows)
        answer = {
            "root": root,
            "examined": len(examined),
            "tables": rows,
            "unreadable": [one.path for one in examined if one.problem],
            "after": examined[-1].path if has_more else None,
        }
        if options["output"] == "json":
            self.stdout.write(json.dumps(answer))
        else:
            self._write_lines(answer, examined)

    def _list_catalog(self, options: dict[str, object]) -> None:
        if options["root"]:
            msg = "Use either a root or --catalog."
            raise CommandError(msg)
        rows = _read_catalog_tables(str(options["catalog"]))
        if options["register"]:
            _register(rows)
        if options["output"] == "json":
            self.stdout.write(json.dumps({"catalog": options["catalog"], "tables": rows}))
            return
        for row in rows:
            self.stdout.write(f"{row['state']:12} {row['name']:40} {row['place']}")
        self.stdout.write(f"{count_noun(len(rows), 'table')} in the catalog.")

    def _write_lines(self, answer: dict[str, object], examined: list[Directory]) -> None:
        rows: list[dict[str, str]] = answer["tables"]  # type: ignore[assignment]
        for row in rows:
            self.stdout.write(f"{row['state']:12} {row['name']:40} {row['place']}")
        for one in examined:
            if one.problem:
                self.stdout.write(f"{'unreadable':12} {one.path}: {one.problem}")
        directories = "1 directory" if len(examined) == 1 else f"{len(examined):,} directories"
        self.stdout.write(f"{count_noun(len(rows), 'table')} in {directories}.")
        if answer["after"] is not None:
            self.stdout.write(f"There are more tables. Continue with --after '{answer['after']}'.")


def _read_catalog_tables(pattern: str) -> list[dict[str, str]]:
    """Return the tables in Spark's catalog, read in a separate process with its own Spark."""
    command = [sys.executable, "-m", CATALOG_TABLES, pattern or "*"]
    done = subprocess.run(  # noqa: S603 - this interpreter, a program of ours
        command, cwd=settings.BASE_DIR, stdout=subprocess.PIPE, text=True, check=False
    )
    answer = (done.stdout.splitlines() or [""])[-1]
    if done.returncode:
        why = (
            json.loads(answer)
            if answer.startswith('"')
            else "Its program ended. See the output above."
        )
        msg = f"Spark's catalog cannot be read. {why} Check SPARK_CONF_DIR/hive-site.xml."
        raise CommandError(msg)
    rows = []
    for table in json.loads(answer):
        try:
            place = check_table_uri(table["place"])
        except EngineError as error:
            rows.append({**table, "state": f"refused: {error}"})
            continue
        rows.append({"place": place, "name": table["name"], "state": _state_of(place)})
    return rows


def _state_of(place: str) -> str:
    return "registered" if Table.objects.filter(uri=place).exists() else "new"


def _rows(root: str, tables: list[Directory], naming: str) -> list[dict[str, str]]:
    rows = []
    for one in tables:
        place = place_of(root, one.path)
        state = _state_of(place)
        rows.append({"place": place, "name": name_place(place, naming, root), "state": state})
    return rows


def _register(rows: list[dict[str, str]]) -> None:
    new = [(row["place"], row["name"]) for row in rows if row["state"] == "new"]
    done = register_found(new, None, register_table)
    made = {table.uri for table in done.tables}
    for row in rows:
        if row["place"] in made:
            row["state"] = "registered"
        elif row["place"] in done.refused:
            row["state"] = f"refused: {done.refused[row['place']]}"
