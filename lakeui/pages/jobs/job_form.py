"""Requesting a job: a form for each kind, or SQL; the parsed command is shown before it runs."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django.conf import settings
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.db.models import Q
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse

from engine.commands.model import COMMANDS, Command
from engine.commands.names import name_sql, table_sql
from engine.errors import EngineError, OnlyReadsError, RequestError, StatementError
from engine.expressions.cursor import place_in
from engine.expressions.functions import FOLDED, FUNCTIONS
from engine.schema.column_paths import column_path
from engine.vocabulary import OPERATION_OF_COMMAND, Changes
from lakeui.catalog.access import action_for_kind, may, tables_where, visible_tables
from lakeui.catalog.filters import is_row_id
from lakeui.catalog.models import Table
from lakeui.conflicts.isolation.effect import Impact, impact_of_command
from lakeui.jobs.command_rules import check_command, statement_of
from lakeui.jobs.models import Job
from lakeui.jobs.requests import read_request, request_job
from lakeui.jobs.row_impact import asks_name, row_impact
from lakeui.jobs.uploads import store_upload
from lakeui.monitoring.outlook import JobForecast, forecast_of
from lakeui.pages.jobs.command_forms import MORE, CommandForm, form_of, initial_of
from lakeui.pages.jobs.plans import plan_lines
from lakeui.pages.listing import one_table

SQL = "sql"
_SUGGESTED = 200
_OPTIONS = ("reason", "retries", "time_limit", "confirm")
_HIDDEN_KINDS = frozenset({"create", "script", "transaction"})  # made under Tables; written as SQL
GROUPS = ("Rows", "Shape", "Definition")


@dataclass(frozen=True, slots=True)
class _CommandKind:
    group: str
    kind: str
    label: str
    help: str


@dataclass(frozen=True, slots=True)
class ReadCommand:
    """A command as it was read, and all a person needs before they let it run."""

    command: Command
    statement: str
    action: str
    is_permitted: bool
    parameters_json: str
    rehearsal: Job | None
    is_dry: bool
    impact: Impact | None
    row_impact: list[str]
    asks_name: bool
    forecast: JobForecast

    @property
    def plan(self) -> list[tuple[str, str]]:
        return plan_lines(self.rehearsal.plan) if self.rehearsal else []


@login_required
def job_new(request: HttpRequest) -> HttpResponse:
    table = _table(request)
    if table is None:
        choices = tables_where(request.user, "write").order_by("name")[:_SUGGESTED]
        context = {"choices": choices, "twin": "/api/v1/tables/"}
        return render(request, "jobs/choose_table.html", context)
    kind = request.POST.get("kind") or request.GET.get("kind", SQL)
    if kind != SQL and (kind not in COMMANDS or kind in _HIDDEN_KINDS):
        msg = "Unknown kind of job."
        raise Http404(msg)
    if request.method == "POST" and request.POST.get("step") in {"run", "dry_run"}:
        return _ask(request, table, kind)
    return _show(request, table, kind)


def _show(request: HttpRequest, table: Table, kind: str, problem: str = "") -> HttpResponse:
    """Render the form, and beside it the command so far."""
    context: dict[str, Any] = {"sql": request.POST.get("sql", request.GET.get("sql", ""))}
    try:
        command = _command(request, table, kind, context)
    except RequestError as error:
        command = None
        place = place_in(error, context["sql"]) if isinstance(error, StatementError) else None
        context |= {"error": error, "position": place}
        if isinstance(error, OnlyReadsError):
            context["answer_at"] = _answer_at(request, table, error)
        if context.get("form"):
            context["form"].blame(error)
    except EngineError as error:
        command, context["error"] = None, error
    is_dry = context.pop("ends_in_dry_run", False)
    understood = _describe_request(request, table, command, is_dry=is_dry) if command else None
    context |= {
        "table": table,
        "kind": kind,
        "kinds": _kinds(request, table),
        "understood": understood,
        "act": {
            "address": f"/api/v1/tables/{table.pk}/jobs/",
            "body": {"kind": command.kind, "parameters": command.parameters(), "dry_run": True}
            if command
            else {"sql": context["sql"] or f"OPTIMIZE {table.name}", "dry_run": True},
        },
        "problem": problem,
        "examples": examples_for(table),
        "functions": sorted({*FUNCTIONS, *FOLDED}),
        "values": {name: request.POST.get(name, "") for name in _OPTIONS},
        "usual_limit_s": settings.JOB_TIME_LIMIT_SECONDS,
    }
    is_fragment = bool(request.htmx)  # type: ignore[attr-defined]  # by its middleware
    context["is_fragment"] = is_fragment
    template = "jobs/_understood.html" if is_fragment else "jobs/job_form.html"
    return render(request, template, context, status=400 if problem else 200)


_ANSWERS = {
    "data": "table-preview",
    "summary": "table",
    "schema": "table-schema",
    "files": "table-files",
    "history": "table-history",
}


def _answer_at(request: HttpRequest, table: Table, error: OnlyReadsError) -> str:
    """Return the page that answers a reading statement; "" if there is none, or it is hidden."""
    if not error.page:
        return ""
    if error.table:
        same = Q(name=error.table) | Q(uri=error.table)
        named = visible_tables(request.user).filter(same).first()
        if named is None:
            return ""
        table = named
    where = f"?{urlencode({'where': error.condition})}" if error.condition else ""
    return reverse(_ANSWERS[error.page], args=[table.pk]) + where


def _ask(request: HttpRequest, table: Table, kind: str) -> HttpResponse:
    """Queue the parsed command; it is read and checked again."""
    is_dry = request.POST["step"] == "dry_run"
    sql = request.POST.get("sql", "") if kind == SQL else ""
    try:
        parameters = _read_parameters(request)
        command, ends_in_dry_run = read_request(kind=kind, parameters=parameters, sql=sql)
        is_dry = is_dry or ends_in_dry_run
        is_named = request.POST.get("confirm") == table.name
        if not (is_dry or is_named) and asks_name(command, _rehearsal(table, command)):
            return _show(request, table, kind, f"Type {table.name} to confirm. Nothing was queued.")
        job = request_job(
            table=table,
            kind="" if sql else kind,
            parameters=parameters,
            requested_by=request.user,  # type: ignore[arg-type]  # signed in
            dry_run=is_dry,
            retries=_parse_count(request, "retries", "retries"),
            time_limit_s=60 * _parse_count(request, "time_limit", "minutes"),
            sql=sql,
            reason=request.POST.get("reason", "")[:2000],
        )
    except EngineError as error:
        return _show(request, table, kind, str(error))
    messages.success(
        request, "Queued." if not is_dry else "Queued as a dry run. Nothing will change."
    )
    return redirect("job", job.pk)


def _command(
    request: HttpRequest, table: Table, kind: str, context: dict[str, Any]
) -> Command | None:
    """Return the requested command, None without input. The form goes into the context."""
    if kind == SQL:
        if not context["sql"].strip():
            return None
        command, context["ends_in_dry_run"] = read_request(sql=context["sql"])
        return _check_command(command, table)
    if request.method != "POST":
        context["form"] = CommandForm(kind, initial=initial_of(kind, request.GET.dict()))
        return None
    return _read_command(request, table, kind, context)


def _read_command(
    request: HttpRequest, table: Table, kind: str, context: dict[str, Any]
) -> Command | None:
    """Return the command of a submitted form; a confirmed form holds JSON instead."""
    if request.POST.get("parameters"):
        command = _check_command(Command.from_parameters(kind, _read_parameters(request)), table)
        context["form"] = form_of(command)
        return command
    form = context["form"] = CommandForm(kind, request.POST, request.FILES)
    if request.POST.get(MORE):  # a button for more fields; input stays
        form.reopen()
        return None
    if not form.is_valid():
        return None
    kept = {
        name: store_upload(file, request.user)  # type: ignore[arg-type]  # signed in
        for name, file in form.iter_uploads()
    }
    if kept:
        form.data = request.POST.copy()
        for name, uri in kept.items():
            form.data[name.removesuffix("file") + "uri"] = uri
    return _check_command(Command.from_parameters(kind, form.parameters(kept)), table)


def _read_parameters(request: HttpRequest) -> Any:  # noqa: ANN401 - JSON
    try:
        return json.loads(request.POST.get("parameters") or "{}")
    except ValueError as error:
        msg = "The form data was damaged."
        raise RequestError(msg, "Fill in the form again. Nothing was queued.") from error


def _parse_count(request: HttpRequest, name: str, counted: str) -> int:
    text = request.POST.get(name) or "0"
    if not (text.isascii() and text.isdigit() and len(text) < 7):
        msg = f"{text[:20]!r} is not a number of {counted}."
        raise RequestError(msg, "Use a whole number.", field=name)
    return int(text)


def _check_command(command: Command, table: Table) -> Command:
    check_command(command, table)
    return command


def _describe_request(
    request: HttpRequest, table: Table, command: Command, *, is_dry: bool
) -> ReadCommand:
    parameters = command.parameters()
    action = action_for_kind(command.kind, parameters)
    statement = statement_of(command, table)
    rehearsal = _rehearsal(table, command)
    return ReadCommand(
        command=command,
        statement=statement,
        action=action,
        is_permitted=may(request.user, action, table),
        parameters_json=json.dumps(parameters),
        impact=impact_of_command(table, command.kind, parameters),
        row_impact=row_impact(table, command),
        asks_name=asks_name(command, rehearsal),
        forecast=forecast_of(table, command.kind, parameters),
        is_dry=is_dry,
        rehearsal=rehearsal,
    )


def _rehearsal(table: Table, command: Command) -> Job | None:
    """Return the last successful dry run of exactly this command."""
    statement = statement_of(command, table)
    rehearsals = Job.objects.filter(table=table, statement=statement, dry_run=True)
    return rehearsals.filter(state=Job.State.SUCCEEDED).order_by("-finished_at").first()


def _table(request: HttpRequest) -> Table | None:
    """Return the job's table; the person must be allowed to write to it."""
    text = request.POST.get("table") or request.GET.get("table", "")
    if not text:
        return None
    table = one_table(request) if not request.POST.get("table") else _read_table(request)
    if table is None:
        msg = "This table does not exist."
        raise Http404(msg)
    if not may(request.user, "write", table):
        msg = f"You need the role operator on {table.name} to run jobs there."
        raise PermissionDenied(msg)
    return table


def _read_table(request: HttpRequest) -> Table | None:
    text = request.POST["table"]
    is_id = is_row_id(text)
    return visible_tables(request.user).filter(pk=int(text)).first() if is_id else None


def _kinds(request: HttpRequest, table: Table) -> list[_CommandKind]:
    """Return the kinds that the person may request, in groups: rows, shape, definition."""
    offered = [command for command in COMMANDS.values() if _is_offered(request, table, command)]
    kinds = [_CommandKind(_group(c.kind), c.kind, c.label, c.help) for c in offered]
    return sorted(kinds, key=lambda kind: GROUPS.index(kind.group))


def _group(kind: str) -> str:
    rows, shape, definition = GROUPS
    changes = OPERATION_OF_COMMAND[kind].changes
    return rows if Changes.ROWS in changes else definition if changes & Changes.TERMS else shape


def _is_offered(request: HttpRequest, table: Table, command: type[Command]) -> bool:
    return command.kind not in _HIDDEN_KINDS and may(
        request.user, action_for_kind(command.kind, {}), table
    )


_LITERALS = {
    "string": "'…'",
    "boolean": "true",
    "date": "DATE '2026-11-20'",
    "timestamp": "TIMESTAMP '2026-11-20 00:00:00'",
    "byte": "1",
    "short": "1",
    "integer": "1",
    "long": "1",
    "float": "0.5",
    "double": "0.5",
}


def examples_for(table: Table) -> list[str]:
    """Return example statements that are valid for the table; values are to be filled in."""
    return [*_iter_row_examples(table), *_iter_maintenance_examples(table)]


def _iter_row_examples(table: Table) -> Iterator[str]:
    name, columns = table_sql(table.name), list(_columns(table))
    if not columns:
        return
    key, value = columns[0]
    yield f"DELETE FROM {name} WHERE {key} = {value}"  # noqa: S608 - shown
    changed = next(
        (column for column in columns[1:] if column[0] not in _layout_columns(table)), None
    )
    if changed:
        yield f"UPDATE {name} SET {changed[0]} = {changed[1]} WHERE {key} = {value}"  # noqa: S608 - shown
    yield (
        f"MERGE INTO {name} AS t USING staging AS s ON t.{key} = s.{key} "
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )


def _iter_maintenance_examples(table: Table) -> Iterator[str]:
    name = table_sql(table.name)
    first = next((key for key, _ in _columns(table) if key not in _layout_columns(table)), None)
    by_key = f" ZORDER BY ({first})" if first and not table.clustering_columns else ""
    yield f"OPTIMIZE {name}{by_key}"
    if table.deletion_vectors:
        yield f"ALTER TABLE {name} SET TBLPROPERTIES ('delta.targetFileSize' = '128mb')"
    else:
        yield f"ALTER TABLE {name} SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')"
    if table.version:
        yield f"RESTORE TABLE {name} TO VERSION AS OF {table.version - 1}"
    yield f"VACUUM {name} RETAIN 168 HOURS DRY RUN"


def _columns(table: Table) -> Iterator[tuple[str, str]]:
    """Yield top-level columns that can be compared with a literal, each with one of its type."""
    fields: list[dict[str, Any]] = table.schema.get("fields", []) if table.schema else []
    for field in fields:
        kind = field.get("type")
        literal = _LITERALS.get(kind) if isinstance(kind, str) else None
        if isinstance(kind, str) and kind.startswith("decimal"):
            literal = "1"
        if literal:
            yield name_sql(str(field.get("name"))), literal


def _layout_columns(table: Table) -> set[str]:
    clustering = [".".join(column_path(str(column))) for column in table.clustering_columns]
    return {name_sql(str(column)) for column in (*table.partition_columns, *clustering)}
