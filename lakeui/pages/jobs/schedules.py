"""Recurring jobs: their next and last runs; creating, changing and disabling them."""

from datetime import datetime
from typing import Any

from django import forms
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone
from django.views.decorators.http import require_POST

from engine.errors import EngineError, RequestError
from lakeui.catalog.access import action_for_kind, may, tables_where
from lakeui.catalog.command_tables import Reader
from lakeui.catalog.filters import is_row_id
from lakeui.catalog.hours import quiet_hours
from lakeui.catalog.models import Table
from lakeui.jobs.filters import WITHHELD, ScheduleFilter, redact_schedule, visible_schedules
from lakeui.jobs.models import Schedule
from lakeui.jobs.schedules import (
    change_schedule,
    create_schedule,
    latest_runs,
    neighbors,
    next_runs,
    run_now,
    set_enabled,
)
from lakeui.pages.exports import CHUNK, export
from lakeui.pages.listing import ListPage, range_of

COLUMNS = {
    "name": lambda s: s.name,
    "table": lambda s: s.table.name,
    "cron": lambda s: s.cron,
    "statement": lambda s: s.statement,
    "owner": lambda s: s.owner.get_username(),
    "enabled": lambda s: s.enabled,
    "next_due_at": lambda s: s.next_due_at,
    "last_fired_at": lambda s: s.last_fired_at,
    "note": lambda s: s.note,
}
_SUGGESTED = 200
_LONGEST_CRON = 100
_MONO = {"class": "mono", "spellcheck": "false", "autocomplete": "off"}


def _keep_on_one_line(cron: str) -> str:
    """Never broken between two lines."""
    return cron.replace(" ", "\N{NO-BREAK SPACE}")


class ScheduleForm(forms.Form):
    name = forms.CharField(
        label="Name", max_length=200, help_text="A name for people: orders nightly."
    )
    cron = forms.CharField(
        label="When, in UTC",
        max_length=100,
        initial="0 3 * * *",
        help_text="Minute, hour, day of the month, month, day of the week: "
        f"{_keep_on_one_line('0 3 * * *')} is every night at three, "
        f"{_keep_on_one_line('*/15 * * * *')} every quarter of an hour. If both a day of the month and a "
        f"day of the week are set, both must match: {_keep_on_one_line('0 3 1-7 * 1')} is the first "
        "Monday.",
        widget=forms.TextInput(attrs=_MONO),
    )
    sql = forms.CharField(
        label="Statement",
        max_length=65_536,
        help_text="One statement on the table. It is checked now and at each run.",
        widget=forms.Textarea(attrs=_MONO | {"rows": 5}),
    )
    retries = forms.IntegerField(
        label="Retries after a conflict", min_value=0, max_value=10, initial=2
    )
    time_limit = forms.IntegerField(
        label="Time limit, minutes",
        min_value=1,
        required=False,
        help_text="The time limit of its jobs. Leave empty for the limit of all jobs.",
    )


@login_required
def schedule_list(request: HttpRequest) -> HttpResponseBase:
    schedules = visible_schedules(request.user).select_related("table", "owner", "last_job")
    listing = ListPage(
        request, ScheduleFilter(request.GET, schedules.order_by("next_due_at", "name"))
    )
    reader, time_range, now = Reader(request.user), range_of(request, "30d"), timezone.now()
    if "export" in request.GET and listing.is_valid:
        rows = (redact_schedule(row, reader) for row in listing.rows.iterator(chunk_size=CHUNK))
        return export(rows, COLUMNS, request.GET["export"], "schedules")
    context = {
        "listing": listing,
        "schedules": [redact_schedule(schedule, reader) for schedule in listing.page],
        "readable": {schedule.pk: reader.may_read(schedule) for schedule in listing.page},
        "next_runs": {schedule.pk: _next_runs(schedule.cron) for schedule in listing.page},
        "runs": latest_runs(listing.page, time_range.start(now)) if listing.is_valid else {},
        "neighbors": neighbors(listing.page) if listing.is_valid else {},
        "mine": {schedule.pk: _is_theirs(request, schedule) for schedule in listing.page},
        "to_remove": _find_schedule_to_remove(request, listing),
        "may_add": may(request.user, "write"),
        "time_range": time_range,
        "twin": listing.twin("/api/v1/schedules/"),
    }
    return render(request, "jobs/schedules.html", context, status=listing.status)


@login_required
def schedule_new(request: HttpRequest) -> HttpResponse:
    tables = _writable(request)
    if request.htmx:  # type: ignore[attr-defined]  # by its middleware
        return _preview_schedule(request)
    table = _find_chosen_table(request, tables)
    initial = {"sql": f"OPTIMIZE {table.name}"} if table else {}
    if offered := _cron_of(request):
        initial["cron"] = offered
    form = ScheduleForm(request.POST or None, initial=initial)
    if request.method == "POST" and table is not None and form.is_valid():
        made = _try_create_schedule(request, table, form)
        if made is not None:
            when = f"{made.next_due_at:%d %b %H:%M} UTC"
            messages.success(request, f"{made.name} runs next at {when}.")
            return redirect("schedule-list")
    if request.method == "POST" and table is None:
        form.add_error(None, "This table does not exist, or you may not write to it.")
    sql = form["sql"].value() or "OPTIMIZE sales.orders"
    body = {"name": form["name"].value() or "nightly", "cron": form["cron"].value(), "sql": sql}
    number = table.pk if table else 1
    context = {
        "form": form,
        "tables": tables[:_SUGGESTED],
        "chosen": table,
        "wanted": request.POST.get("table", ""),
        "cron": body["cron"],
        "next_runs": _next_runs(body["cron"]),
        "quiet": quiet_hours(table, timezone.now()) if table else None,
        "act": {"address": f"/api/v1/tables/{number}/schedules/", "body": body},
    }
    return render(request, "jobs/schedule_form.html", context, status=400 if form.errors else 200)


@login_required
def schedule_edit(request: HttpRequest, pk: int) -> HttpResponse:
    """Show a schedule's form, for people who may change it."""
    schedule = _changeable(request, pk)
    if not Reader(request.user).may_read(schedule):
        raise PermissionDenied(WITHHELD)
    initial = {
        "name": schedule.name,
        "cron": schedule.cron,
        "sql": schedule.statement,
        "retries": schedule.max_retries,
        "time_limit": -(-schedule.time_limit_s // 60) or None,
    }
    if offered := _cron_of(request):
        initial["cron"] = offered
    form = ScheduleForm(request.POST or None, initial=initial)
    if request.method == "POST" and form.is_valid():
        try:
            change_schedule(schedule, request.user, **_changes(form))  # type: ignore[arg-type]
        except EngineError as error:
            _blame(form, error)
        else:
            messages.success(request, f"{schedule.name} is changed.")
            return redirect("schedule-list")
    cron = str(form["cron"].value() or "")
    context = {
        "form": form,
        "schedule": schedule,
        "cron": cron,
        "next_runs": _next_runs(cron),
        "quiet": quiet_hours(schedule.table, timezone.now()),
        "twin": f"/api/v1/schedules/{pk}/",
    }
    return render(request, "jobs/schedule_form.html", context, status=400 if form.errors else 200)


@require_POST
@login_required
def schedule_change(request: HttpRequest, pk: int) -> HttpResponse:
    """Rest it, let it fire, run it once now, or remove it."""
    schedule = _changeable(request, pk)
    act = request.POST.get("act", "")
    if act == "run":
        return _run(request, schedule)
    if act == "remove":
        schedule.delete()
        messages.success(request, f"{schedule.name} was removed. Its jobs stay.")
    elif act in {"rest", "fire"}:
        set_enabled(schedule, enabled=act == "fire")
        messages.success(
            request, f"{schedule.name} {'is paused' if act == 'rest' else 'runs again'}."
        )
    return redirect("schedule-list")


def _preview_schedule(request: HttpRequest) -> HttpResponse:
    """Render the words and the next runs of a cron text while it is typed."""
    cron = _cron_of(request)
    context = {"cron": cron, "next_runs": _next_runs(cron)}
    return render(request, "jobs/_when.html", context)


def _cron_of(request: HttpRequest) -> str:
    """Return the cron text in an address: typed, or chosen from the offers."""
    return request.GET.get("cron", "")[:_LONGEST_CRON]


def _next_runs(cron: str) -> list[datetime]:
    """Return the next runs; none for an invalid text."""
    try:
        return next_runs(cron, timezone.now())
    except RequestError:
        return []


def _run(request: HttpRequest, schedule: Schedule) -> HttpResponse:
    try:
        job = run_now(schedule, request.user)  # type: ignore[arg-type]  # signed in
    except EngineError as error:
        messages.error(request, str(error))
        return redirect("schedule-list")
    messages.success(request, f"Queued. {schedule.name} still runs when it is due.")
    return redirect("job", job.pk)


def _changeable(request: HttpRequest, pk: int) -> Schedule:
    schedules = visible_schedules(request.user).select_related("table", "owner")
    schedule = get_object_or_404(schedules, pk=pk)
    if not _is_theirs(request, schedule):
        msg = "Only its owner and people who may request such a job can change it."
        raise PermissionDenied(msg)
    return schedule


def _changes(form: ScheduleForm) -> dict[str, Any]:
    """Return changed fields; an unchanged statement is not parsed again: it may exceed the limit.

    The same holds for a time limit, which may be in seconds.
    """
    words = _words(form)
    if "sql" not in form.changed_data:
        words.pop("sql")
    if "time_limit" not in form.changed_data:
        words.pop("time_limit_s")
    return words


def _words(form: ScheduleForm) -> dict[str, Any]:
    minutes: int | None = form.cleaned_data["time_limit"]
    others = {name: value for name, value in form.cleaned_data.items() if name != "time_limit"}
    return others | {"time_limit_s": 60 * (minutes or 0)}


def _blame(form: ScheduleForm, error: EngineError) -> None:
    field = str(getattr(error, "field", ""))
    form.add_error(field if field in form.fields else None, str(error))


def _writable(request: HttpRequest) -> QuerySet[Table]:
    tables = tables_where(request.user, "write").order_by("name")
    if not tables.exists():
        msg = "You need the role operator on a table or on all tables to use schedules."
        raise PermissionDenied(msg)
    return tables


def _find_chosen_table(request: HttpRequest, tables: QuerySet[Table]) -> Table | None:
    """Return the requested table, by id or by name."""
    text = (request.POST.get("table") or request.GET.get("table", "")).strip()
    if not text:
        return None
    is_id = is_row_id(text)
    table = tables.filter(pk=int(text)).first() if is_id else tables.filter(name=text).first()
    if table is None and request.method != "POST":
        msg = "This table does not exist."
        raise Http404(msg)
    return table


def _try_create_schedule(request: HttpRequest, table: Table, form: ScheduleForm) -> Schedule | None:
    """Return the schedule; None if the form now shows an error."""
    try:
        return create_schedule(table=table, owner=request.user, **_words(form))  # type: ignore[arg-type]
    except EngineError as error:
        _blame(form, error)
        return None


def _find_schedule_to_remove(request: HttpRequest, listing: ListPage) -> Schedule | None:
    """Return the schedule of this page to be confirmed before its removal."""
    pk = request.GET.get("remove")
    named = (schedule for schedule in listing.page if str(schedule.pk) == pk)
    return next((schedule for schedule in named if _is_theirs(request, schedule)), None)


def _is_theirs(request: HttpRequest, schedule: Schedule) -> bool:
    action = action_for_kind(schedule.kind, schedule.parameters)
    return schedule.owner_id == request.user.pk or may(request.user, action, schedule.table)
