"""`manage.py doctor`: what works here, and what to do about what does not."""

import json
from collections.abc import Callable
from pathlib import Path

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import DatabaseError, connection
from django.db.migrations.executor import MigrationExecutor
from kombu.exceptions import OperationalError

from engine.errors import EngineError
from engine.storage.uri import local_path, open_store
from lakeui.catalog.roots import storage_options
from lakeui.celery import app
from lakeui.local_stack.preflight import disk_problem, java_problem, storage_problem


class Command(BaseCommand):
    help = "Check Java, Spark, broker, workers, database and storage."
    requires_system_checks: list[str] = []
    requires_migrations_checks = False

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("-o", "--output", choices=("table", "json"), default="table")

    def handle(self, *args: object, **options: object) -> None:
        del args
        rows = [{"check": name, "problem": check()} for name, check in CHECKS.items()]
        if options["output"] == "json":
            self.stdout.write(json.dumps(rows))
        else:
            for row in rows:
                self.stdout.write(f"{row['check']:10} {row['problem'] or 'works'}")
        if any(row["problem"] for row in rows):
            msg = "Something needs attention."
            raise CommandError(msg)


def database_problem() -> str:
    """Empty if the database answers and is migrated."""
    try:
        executor = MigrationExecutor(connection)
        waiting = executor.migration_plan(executor.loader.graph.leaf_nodes())
    except DatabaseError as error:
        return f"The database is unreachable ({error}): check DATABASE_URL."
    return f"{len(waiting)} migrations wait: run manage.py migrate." if waiting else ""


def reach_problem() -> str:
    """Empty if the broker answers."""
    try:
        with app.connection_for_write() as broker:
            broker.ensure_connection(max_retries=1, timeout=2)
    except (OSError, OperationalError) as error:
        return f"The broker is unreachable ({error}): run manage.py up, or check BROKER_URL."
    return ""


def worker_problem() -> str:
    """Empty if both kinds of worker answer."""
    if reach_problem():
        return "No worker can be reached without the broker."
    answers = app.control.ping(timeout=1.0)
    names = {name.partition("@")[0] for answer in answers or [] for name in answer}
    missing = sorted({"spark", "light"} - names)
    return f"No {' and no '.join(missing)} worker answers: run manage.py up." if missing else ""


def roots_problem() -> str:
    """Empty if every root of tables can be listed."""
    for root in settings.TABLE_ROOTS:
        path = local_path(root)
        if path is not None and not Path(path).is_dir():
            return f"{root} is no directory: make it, or take it out of TABLE_ROOTS."
        try:
            next(iter(open_store(root, storage_options(root)).list_from("", "")), None)
        except EngineError as error:
            return f"{root}: {error}"
    return ""


CHECKS: dict[str, Callable[[], str]] = {
    "Java": java_problem,
    "database": database_problem,
    "broker": reach_problem,
    "workers": worker_problem,
    "home": storage_problem,
    "disk": disk_problem,
    "storage": roots_problem,
}
