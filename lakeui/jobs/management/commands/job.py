"""`manage.py job "OPTIMIZE sales.orders" --wait`: a job without a browser, its outcome as exit code."""

import json
import time

from django.contrib.auth.models import User
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import Error

from engine.clock import SystemClock
from engine.commands.model import Command as LakeCommand
from engine.commands.model import Script
from engine.commands.script import step_table
from engine.commands.sql import parse_request
from engine.errors import EngineError
from lakeui.catalog.command_tables import table_called
from lakeui.catalog.models import Table
from lakeui.jobs.models import Job
from lakeui.jobs.requests import request_job

EXIT_CODES = {
    Job.State.SUCCEEDED: 0,
    Job.State.FAILED: 1,
    Job.State.CONFLICTED: 3,
    Job.State.CANCELLED: 4,
}
STILL_AT_IT = 5
_POLL_S = 0.2


class Command(BaseCommand):
    help = (
        "Request a job for a statement. With --wait, the exit code is 0 if the job "
        "succeeded, 1 if it failed or was refused, 3 if a concurrent commit aborted it, 4 if "
        "it was cancelled, and 5 if it did not end in time or the database became "
        "unreachable."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("statement", help="a SQL statement, or several separated by semicolons")
        parser.add_argument(
            "--table", default="", help="the table, if the statement does not name it"
        )
        parser.add_argument(
            "--as",
            dest="username",
            default="",
            help="the user on whose behalf it runs; the system by default",
        )
        parser.add_argument(
            "--wait",
            nargs="?",
            type=float,
            const=float("inf"),
            metavar="SECONDS",
            help="wait until the job has ended, or up to this many seconds",
        )
        parser.add_argument("--dry-run", action="store_true", help="plan the job without writing")
        parser.add_argument("--retries", type=int, default=0, help="retries after a conflict")
        parser.add_argument("--time-limit", type=int, default=0, help="time limit in seconds")
        parser.add_argument("--reason", default="", help="for the audit log")
        parser.add_argument(
            "--idempotency-key",
            default="",
            help="the same key and user (--as) within a day return the same job",
        )
        parser.add_argument("-o", "--output", choices=("table", "json"), default="table")

    def handle(self, *args: object, **options: object) -> None:
        del args
        statement = str(options["statement"])
        if options["idempotency_key"] and not options["username"]:
            msg = "An idempotency key belongs to a user. Add --as."
            raise CommandError(msg)
        try:
            job = request_job(
                table=_table(str(options["table"]), statement),
                sql=statement,
                requested_by=_person(str(options["username"])),
                dry_run=bool(options["dry_run"]),
                retries=int(str(options["retries"])),
                time_limit_s=int(str(options["time_limit"])),
                reason=str(options["reason"]),
                idempotency_key=str(options["idempotency_key"]),
            )
        except EngineError as error:
            raise CommandError(str(error)) from error
        wait = options["wait"]
        if wait is not None:
            self._wait(job, float(str(wait)))
        self._show(job, as_json=options["output"] == "json")
        if wait is not None:
            code = EXIT_CODES.get(Job.State(job.state), STILL_AT_IT)
            if code:
                raise CommandError(_describe_end(job), returncode=code)

    def _wait(self, job: Job, seconds: float) -> None:
        clock, until = SystemClock(), time.monotonic() + seconds
        try:
            while job.is_active and time.monotonic() < until:
                clock.pause(_POLL_S)
                job.refresh_from_db()
        except KeyboardInterrupt as error:
            msg = f"Job {job.pk} is still running. Only the wait has ended."
            raise CommandError(msg, returncode=130) from error
        except Error as error:
            msg = f"The database is unreachable. Job {job.pk} continues. Only the wait has ended."
            raise CommandError(msg, returncode=STILL_AT_IT) from error

    def _show(self, job: Job, *, as_json: bool) -> None:
        facts = {
            "id": str(job.pk),
            "table": job.table.name,
            "statement": job.statement,
            "state": job.state,
            "committed_version": job.committed_version,
            "error_code": job.error_code,
            "error_message": job.error_message,
            "metrics": job.metrics,
        }
        if as_json:
            self.stdout.write(json.dumps(facts))
            return
        for name, value in facts.items():
            if value not in (None, "", {}):
                self.stdout.write(f"{name:18} {value}")


def _table(name: str, statement: str) -> Table:
    """Return the table of the name, else the first table in the statement.

    Raises:
        CommandError: no table is named, or none has the name.
        EngineError: the statement is not understood.
    """
    text = name or _first_name(parse_request(statement)[0])
    if not text:
        msg = "The statement names no table. Use --table."
        raise CommandError(msg)
    table = table_called(text)
    if table is None:
        msg = f"No table is called {text}. Register it, or choose another with --table."
        raise CommandError(msg)
    return table


def _first_name(command: LakeCommand) -> str:
    steps = command.steps if isinstance(command, Script) else (command,)
    return next((step_table(step) for step in steps if step_table(step)), "")


def _person(username: str) -> User | None:
    if not username:
        return None
    user = User.objects.filter(username=username, is_active=True).first()
    if user is None:
        msg = f"There is no active user {username}."
        raise CommandError(msg)
    return user


def _describe_end(job: Job) -> str:
    if job.is_active:
        return f"Job {job.pk} is still {job.state}. It continues."
    return f"Job {job.pk} {job.state}: {job.error_message or job.error_code or 'by request'}"
