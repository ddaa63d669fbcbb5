"""Two ways to a new table on the list: one that exists, or a file to load."""

from typing import Any

from django import forms
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render

from engine.errors import EngineError
from lakeui.catalog.access import may
from lakeui.catalog.registration import request_registration
from lakeui.jobs.models import Job
from lakeui.jobs.requests import request_create
from lakeui.jobs.uploads import format_of, store_upload
from lakeui.pages.read_only import refuse_when_read_only

_MONO = {"class": "mono", "spellcheck": "false", "autocomplete": "off"}


class RegisterForm(forms.Form):
    uri = forms.CharField(
        label="Where it lies",
        max_length=2000,
        help_text="The table's directory: a path, or an s3://, gs:// or az:// address, under one "
        "of the roots an administrator allowed.",
        widget=forms.TextInput(attrs=_MONO | {"autofocus": True}),
    )
    name = forms.CharField(
        label="Name",
        max_length=255,
        required=False,
        help_text="What to call it here. Left empty, the last part of its place.",
        widget=forms.TextInput(attrs=_MONO),
    )


class UploadForm(forms.Form):
    name = forms.CharField(
        label="Name of the new table",
        max_length=255,
        help_text="Up to four parts with dots between: sales.orders.",
        widget=forms.TextInput(attrs=_MONO | {"autofocus": True}),
    )
    file = forms.FileField(
        label="File",
        help_text="CSV, JSON lines, Parquet or ORC. Its columns become the table's.",
        widget=forms.FileInput(attrs={"accept": ".csv,.json,.jsonl,.parquet,.orc"}),
    )
    header = forms.BooleanField(
        label="The first line names the columns",
        required=False,
        initial=True,
        help_text="CSV only.",
    )
    delimiter = forms.CharField(
        label="Delimiter",
        max_length=1,
        initial=",",
        required=False,
        strip=False,
        help_text="CSV only: one character.",
        widget=forms.TextInput(attrs=_MONO),
    )
    bad_rows = forms.ChoiceField(
        label="Rows that do not fit",
        choices=[("fail", "fail the job"), ("drop", "leave them out"), ("null", "put null")],
    )
    clustering_columns = forms.CharField(
        label="Cluster by",
        required=False,
        help_text="Columns that conditions will use, commas between.",
        widget=forms.TextInput(attrs=_MONO),
    )
    description = forms.CharField(label="About", required=False, max_length=2000)


@login_required
def register(request: HttpRequest) -> HttpResponse:
    _must_maintain(request)
    form = RegisterForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        refuse_when_read_only()
        try:
            table = request_registration(**form.cleaned_data, by=request.user)  # type: ignore[arg-type]
        except EngineError as error:
            _blame(form, error)
        else:
            messages.success(request, f"{table.name} is registered. A worker reads its log.")
            return redirect("table", table.pk)
    status = 400 if form.errors else 200
    body = {"uri": form["uri"].value() or "s3://lake/sales/orders", "name": form["name"].value()}
    act = {"address": "/api/v1/tables/", "body": body}
    return render(request, "tables/register.html", {"form": form, "act": act}, status=status)


@login_required
def upload(request: HttpRequest) -> HttpResponse:
    _must_maintain(request)
    form = UploadForm(request.POST or None, request.FILES or None)
    if request.method == "POST" and form.is_valid():
        try:
            job = _create(request, form.cleaned_data)
        except EngineError as error:
            _blame(form, error)
        else:
            messages.success(
                request, f"{job.table.name} will be there once this job has committed."
            )
            return redirect("job", job.pk)
    status = 400 if form.errors else 200
    act = {"address": "/api/v1/uploads/", "body": "orders.csv"}
    return render(request, "tables/upload.html", {"form": form, "act": act}, status=status)


def _create(request: HttpRequest, given: dict[str, Any]) -> Job:
    uri = store_upload(given["file"], request.user)  # type: ignore[arg-type]  # signed in
    columns = [part.strip() for part in given["clustering_columns"].split(",") if part.strip()]
    source = {"kind": "files", "uri": uri, "format": format_of(uri), "bad_rows": given["bad_rows"]}
    if source["format"] == "csv":
        source |= {"header": given["header"], "delimiter": given["delimiter"] or ","}
    return request_create(
        name=given["name"].strip(),
        parameters={"source": source, "clustering_columns": columns},
        requested_by=request.user,  # type: ignore[arg-type]  # signed in
        description=given["description"],
    )


def _blame(form: forms.Form, error: EngineError) -> None:
    field = str(getattr(error, "field", "")).removeprefix("source.")
    form.add_error(field if field in form.fields else None, str(error))


def _must_maintain(request: HttpRequest) -> None:
    if not may(request.user, "maintain"):
        msg = "New tables need the role maintainer or admin on every table."
        raise PermissionDenied(msg)
