"""A file becomes a table: uploaded, previewed with its columns' types, and loaded."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django import forms
from django.conf import settings
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django_htmx.http import HttpResponseClientRedirect

from engine.commands.source_sample import SHOWN_COLUMNS, TYPES, FileSample, SampleColumn
from engine.commands.sources import FileSource
from engine.errors import EngineError, RequestError
from lakeui.jobs.errors import UploadNotFoundError
from lakeui.jobs.models import Job, Upload
from lakeui.jobs.requests import request_create
from lakeui.jobs.uploads import (
    FORMATS,
    create_parameters,
    find_upload,
    guess_source,
    keep_upload,
    path_of,
    sample_upload,
)
from lakeui.pages.tables.register import MONO, blame, must_maintain

_DELIMITERS = {",": "comma ,", ";": "semicolon ;", "\t": "tab", "|": "bar |", ":": "colon :"}
_TYPE = "type."
_NO_NAME = re.compile(r"[^A-Za-z0-9_-]+")
_LOAD = "load"
"""The value of the button that requests the job; the others preview again."""


class UploadForm(forms.Form):
    file = forms.FileField(
        label="File",
        help_text="CSV, JSON Lines, Parquet or ORC. Nothing is loaded yet.",
        widget=forms.FileInput(attrs={"accept": ",".join(f".{end}" for end in FORMATS)}),
    )


class LoadForm(forms.Form):
    name = forms.CharField(
        label="Name of the new table",
        max_length=255,
        help_text="Up to four parts separated by dots: sales.orders.",
        widget=forms.TextInput(attrs=MONO),
    )
    delimiter = forms.ChoiceField(label="Delimiter", choices=list(_DELIMITERS.items()))
    quote = forms.CharField(
        label="Quote", max_length=1, initial='"', widget=forms.TextInput(attrs=MONO)
    )
    null_text = forms.CharField(
        label="String that means null",
        max_length=100,
        required=False,
        strip=False,
        help_text="An empty string always means null, unless it is quoted.",
        widget=forms.TextInput(attrs=MONO),
    )
    header = forms.BooleanField(
        label="The first line has the column names", required=False, initial=True
    )
    bad_rows = forms.ChoiceField(
        label="Rows that do not fit",
        choices=[("fail", "fail the job"), ("drop", "leave them out"), ("null", "put null")],
    )
    clustering_columns = forms.CharField(
        label="Cluster by",
        required=False,
        help_text="Columns that conditions will use, separated by commas.",
        widget=forms.TextInput(attrs=MONO),
    )
    description = forms.CharField(label="Description", required=False, max_length=2000)

    def __init__(self, source: FileSource, *args: Any, **more: Any) -> None:  # noqa: ANN401
        super().__init__(*args, **more)
        if source.format != "csv":
            for name in ("delimiter", "quote", "null_text", "header"):
                del self.fields[name]
        if source.format in {"parquet", "orc"}:
            del self.fields["bad_rows"]

    def source(self, guessed: FileSource) -> FileSource:
        """Return how to read the file, by the fields and the guess."""
        said = {name: self.cleaned_data[name] for name in _DIALECT if name in self.cleaned_data}
        return replace(guessed, **said)


_DIALECT = ("delimiter", "quote", "null_text", "header", "bad_rows")


@dataclass(frozen=True, slots=True)
class UploadSample:
    """The page's view of a file: its sample, or why there is none."""

    sample: FileSample | None
    problem: str = ""
    field: str = ""

    @property
    def shown(self) -> list[SampleColumn]:
        """The columns whose types can be changed here."""
        return self.sample.columns[:SHOWN_COLUMNS] if self.sample else []

    @property
    def more_columns(self) -> int:
        return len(self.sample.columns) - len(self.shown) if self.sample else 0

    @property
    def has_problems(self) -> bool:
        """Whether a chosen type is impossible."""
        return self.sample is not None and not self.sample.schema_json

    @property
    def has_misfits(self) -> bool:
        return self.sample is not None and any(row.fate for row in self.sample.rows)


@login_required
def upload(request: HttpRequest) -> HttpResponse:
    must_maintain(request)
    form = UploadForm(request.POST or None, request.FILES or None)
    if request.method == "POST" and form.is_valid():
        try:
            kept = keep_upload(form.cleaned_data["file"], request.user)  # type: ignore[arg-type]
        except EngineError as error:
            blame(form, error)
        else:
            place = reverse("table-upload-preview", args=[kept.pk])
            by_script = request.htmx  # type: ignore[attr-defined]  # by its middleware
            return HttpResponseClientRedirect(place) if by_script else redirect(place)
    act = {"address": "/api/v1/uploads/", "body": "orders.csv"}
    context = {"form": form, "act": act, "most_bytes": settings.MAX_UPLOAD_BYTES}
    return render(request, "tables/upload.html", context, status=400 if form.errors else 200)


@login_required
def upload_preview(request: HttpRequest, pk: UUID) -> HttpResponse:
    """Show the columns and first rows of a stored file; POST previews again, or loads it."""
    must_maintain(request)
    kept = _own_upload(request, pk)
    guessed = guess_source(kept)
    form = LoadForm(guessed, request.POST or None, initial=_first_values(kept, guessed))
    is_valid = request.method == "POST" and form.is_valid()
    if request.method == "POST" and not is_valid and request.POST.get("act") != _LOAD:
        form.errors.pop("name", None)  # not asked for yet
    source = form.source(guessed) if form.is_bound else guessed
    chosen = _read_chosen_types(request.POST)
    look = _sample_kept_upload(request, kept, source, chosen)
    if is_valid and request.POST.get("act") == _LOAD and look.sample and not look.has_problems:
        try:
            return redirect("job", _load(request, form.cleaned_data, source, look.sample).pk)
        except EngineError as error:
            blame(form, error)
    return _render_preview(request, kept, form, source, (look, chosen))


def _render_preview(
    request: HttpRequest,
    kept: Upload,
    form: LoadForm,
    source: FileSource,
    looked: tuple[UploadSample, Mapping[str, str]],
) -> HttpResponse:
    look, chosen = looked
    query = {name: value for name, value in vars(source).items() if name in _DIALECT}
    context = {
        "upload": kept,
        "size_bytes": path_of(kept).stat().st_size,
        "form": form,
        "look": look,
        "source": source,
        "types": TYPES,
        "twin": f"/api/v1/uploads/{kept.pk}/preview/?{_query_text(query, chosen)}",
    }
    if request.htmx:  # type: ignore[attr-defined]  # by its middleware
        return render(request, "tables/_upload_sample.html", context)
    is_faulty = request.POST.get("act") == _LOAD
    return render(request, "tables/upload_preview.html", context, status=400 if is_faulty else 200)


def _query_text(query: Mapping[str, Any], types: Mapping[str, str]) -> str:
    said = {name: str(v).lower() if isinstance(v, bool) else v for name, v in query.items()}
    return urlencode([*said.items(), *(("type", f"{n}={t}") for n, t in types.items())])


def _own_upload(request: HttpRequest, pk: UUID) -> Upload:
    try:
        return find_upload(pk, request.user)  # type: ignore[arg-type]  # signed in
    except UploadNotFoundError as error:
        msg = "You have no uploaded file here. Files are deleted some days after their last job."
        raise Http404(msg) from error


def _first_values(kept: Upload, guessed: FileSource) -> dict[str, Any]:
    stem = _NO_NAME.sub("_", kept.name.rpartition(".")[0]).strip("_-")
    name = stem if stem[:1].isalpha() else f"t_{stem}"
    return {"name": name[:100], "delimiter": guessed.delimiter}


def _read_chosen_types(posted: Mapping[str, str]) -> dict[str, str]:
    """Return types by column that differ from the inferred ones on the page."""
    places = [key.removeprefix(_TYPE) for key in posted if key.startswith(_TYPE)]
    return {
        posted.get(f"column.{place}", ""): text
        for place in places
        if (text := posted[f"{_TYPE}{place}"].strip()) != posted.get(f"inferred.{place}", "")
    }


def _sample_kept_upload(
    request: HttpRequest, kept: Upload, source: FileSource, chosen: Mapping[str, str]
) -> UploadSample:
    try:
        return UploadSample(sample_upload(kept, source, chosen, request.user))  # type: ignore[arg-type]  # signed in
    except RequestError as error:
        return UploadSample(None, str(error), error.field.removeprefix("source."))


def _load(
    request: HttpRequest, given: Mapping[str, Any], source: FileSource, sample: FileSample
) -> Job:
    columns = [part.strip() for part in given["clustering_columns"].split(",") if part.strip()]
    parameters = create_parameters(source, sample) | {"clustering_columns": columns}
    return request_create(
        name=given["name"].strip(),
        parameters=parameters,
        requested_by=request.user,  # type: ignore[arg-type]  # signed in
        description=given["description"],
    )
