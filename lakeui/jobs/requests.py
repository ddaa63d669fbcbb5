"""Requests for jobs: checked here, stored by `job_rows`, sent once the row is committed."""

import re
from collections.abc import Mapping
from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Q

from engine.commands.model import Clone, Command, Create, Script
from engine.commands.script import makes_table, step_table
from engine.commands.sql import parse_request
from engine.errors import RequestError, TableExistsError
from lakeui.catalog.access import may, visible_tables
from lakeui.catalog.models import Table
from lakeui.catalog.roots import check_table_uri
from lakeui.jobs.command_rules import check_allowed, check_command, check_sources
from lakeui.jobs.errors import NotPermittedError
from lakeui.jobs.job_rows import JobOptions, find_earlier_job, take_job
from lakeui.jobs.models import Job, Schedule

_NAME = re.compile(r"^[A-Za-z_][A-Za-z0-9_-]{0,99}(\.[A-Za-z_][A-Za-z0-9_-]{0,99}){0,3}$")


def request_job(  # noqa: PLR0913 - the words of a request, all by name
    *,
    table: Table,
    kind: str = "",
    parameters: Mapping[str, Any] | None = None,
    requested_by: User | None,
    dry_run: bool = False,
    idempotency_key: str = "",
    retries: int = 0,
    time_limit_s: int = 0,
    sql: str = "",
    reason: str = "",
    commit_after: Job | None = None,
    schedule: Schedule | None = None,
    caused_by: Job | None = None,
) -> Job:
    """Queue a job for a command, given as a kind with parameters or as one SQL statement.

    The same idempotency key with the same request gives the first job again, for a day. A statement
    that ends in DRY RUN is a dry run, whatever `dry_run` says. `requested_by` None is the system
    itself. A `time_limit_s` of 0 is the installation's. `commit_after` rehearses a conflict (see
    `Job`). `schedule` or the job `caused_by` requested it, if no person did at that time.

    Raises:
        ReadOnlyError, NotPermittedError, IdempotencyMismatchError: as they say.
        RequestError: the command is at fault; `field` names the part.
        PathOutsideRootError: the table or a source lies outside the allowed roots.
    """
    command, ends_in_dry_run = read_request(kind=kind, parameters=parameters, sql=sql)
    options = JobOptions(
        dry_run=dry_run or ends_in_dry_run,
        retries=retries,
        time_limit_s=time_limit_s,
        idempotency_key=idempotency_key,
        reason=reason,
        commit_after=commit_after,
        schedule=schedule,
        caused_by=caused_by,
    )
    with transaction.atomic():
        made = _check_request(command, table, requested_by)
        if made and options.dry_run:
            msg = f"{made[0].name} does not exist yet, so a dry run cannot use it."
            raise RequestError(msg, "Remove DRY RUN, or create the table first.", field="steps")
        return take_job(table, command, requested_by, options)


def read_request(
    *, kind: str = "", parameters: Mapping[str, Any] | None = None, sql: str = ""
) -> tuple[Command, bool]:
    """Return the command of a request, and whether its statement ends in DRY RUN.

    Raises:
        RequestError: (`StatementError`) it is not understood.
    """
    if sql:
        return parse_request(sql)
    return Command.from_parameters(kind, dict(parameters or {})), False


def check_request(command: Command, table: Table, by: User | None) -> None:
    """Check that a person may run a command on a table; request nothing.

    Raises:
        ReadOnlyError, NotPermittedError, RequestError, PathOutsideRootError: see `request_job`.
    """
    with transaction.atomic():
        transaction.set_rollback(bool(_check_request(command, table, by)))


def _check_request(command: Command, table: Table, by: User | None) -> list[Table]:
    """Check a request; return the rows made for the tables that its steps create."""
    made = tables_to_make(command, table, by)
    check_allowed(by, command, table)
    check_command(command, table)
    check_sources(command, by)
    return made


def request_create(  # noqa: PLR0913 - the words of a request, all by name
    *,
    name: str,
    parameters: Mapping[str, Any],
    requested_by: User | None,
    kind: str = Create.kind,
    description: str = "",
    idempotency_key: str = "",
    reason: str = "",
) -> Job:
    """Create the row of a new table, and queue the job that creates the table.

    `parameters` are those of the `create` command, its source among them, or of another `kind` that
    creates a table: `clone`. The table will lie in the embedded lake. A failed job leaves the row,
    which says that nothing was created yet.

    Raises:
        TableExistsError: the name is taken.
        RequestError, NotPermittedError, ReadOnlyError, IdempotencyMismatchError: see `request_job`.
    """
    command = Command.from_parameters(kind, dict(parameters))
    if not isinstance(command, Create | Clone):
        msg = f"{command.label} does not create a table."
        raise RequestError(msg, "Use create or clone.", field="kind")
    check_allowed(requested_by, command, None)
    options = JobOptions(idempotency_key=idempotency_key, reason=reason)
    with transaction.atomic():
        replayed = find_earlier_job(name, command, requested_by, options)
        if replayed is not None:
            return replayed
        table = new_table(name, description, requested_by)
        check_command(command, table)
        check_sources(command, requested_by)
        return take_job(table, command, requested_by, options)


def new_table(name: str, description: str, by: User | None) -> Table:
    """Return the unsaved row of a new table.

    Raises:
        RequestError: that cannot be a name.
        TableExistsError: the name or the location is taken.
    """
    if not _NAME.match(name):
        msg = f"{name[:200]!r} cannot be a table's name."
        raise RequestError(
            msg,
            "Use letters, digits, _ and -, in up to four parts separated by dots.",
            field="name",
        )
    uri = check_table_uri("/".join((str(settings.LAKE_HOME).rstrip("/"), *name.split("."))))
    inside = Q(uri__startswith=f"{uri}/")
    parts = uri.split("/")
    around = Q(uri__in=["/".join(parts[:end]) for end in range(1, len(parts))])
    if Table.objects.filter(Q(name=name) | Q(uri=uri) | inside | around).exists():
        msg = f"The table {name} already exists, or its location would overlap with another table."
        raise TableExistsError(msg, "Choose another name.")
    return Table.objects.create(name=name, uri=uri, description=description, registered_by=by)


def tables_to_make(command: Command, table: Table, by: User | None) -> list[Table]:
    """Return rows for unknown tables that steps of a script create or clone.

    People who may not create tables are not told which names hidden tables have.

    Raises:
        NotPermittedError: the person may not create tables.
        RequestError, TableExistsError: see `new_table`.
    """
    if not isinstance(command, Script):
        return []
    names = dict.fromkeys(step_table(step) for step in command.steps if makes_table(step))
    given = [name for name in names if name not in ("", table.name, table.uri)]
    seen = Table.objects.all() if by is None else visible_tables(by)
    pairs = seen.filter(Q(name__in=given) | Q(uri__in=given)).values_list("name", "uri")
    there = {text for pair in pairs for text in pair}
    missing = [name for name in given if name not in there]
    if missing and by is not None and not may(by, "maintain"):
        what = "create"
        raise NotPermittedError(what, "maintain", "new tables")
    return [new_table(name, "", by) for name in missing]
