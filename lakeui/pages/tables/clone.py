"""A new table over another one's files or copies of them: the form of its job."""

from typing import Any

from django import forms
from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render

from engine.errors import EngineError
from lakeui.catalog.access import may, visible_tables
from lakeui.jobs.models import Job
from lakeui.jobs.requests import request_create

_MONO = {"class": "mono", "spellcheck": "false", "autocomplete": "off"}


class CloneForm(forms.Form):
    name = forms.CharField(
        label="Name of the new table",
        max_length=255,
        help_text="Up to four parts with dots between: sales.orders_test.",
        widget=forms.TextInput(attrs=_MONO | {"autofocus": True}),
    )
    source_table = forms.CharField(
        label="Clone of",
        max_length=2000,
        help_text="The name of a registered table that you may see.",
        widget=forms.TextInput(attrs=_MONO | {"list": "tables-to-clone"}),
    )
    version = forms.IntegerField(
        label="At version", required=False, min_value=0, help_text="Left out, the latest."
    )
    deep = forms.ChoiceField(
        label="Its files",
        choices=[("", "Share them: a shallow clone"), ("yes", "Copy them: a deep clone")],
        required=False,
        help_text="A shallow clone is there at once; a deep one needs nothing of its source any more.",
    )
    description = forms.CharField(label="About", required=False, max_length=2000)


@login_required
def clone(request: HttpRequest) -> HttpResponse:
    if not may(request.user, "maintain"):
        msg = "New tables need the role maintainer or admin on every table."
        raise PermissionDenied(msg)
    form = CloneForm(request.POST or None, initial={"source_table": request.GET.get("of", "")})
    if request.method == "POST" and form.is_valid():
        try:
            job = _request(request, form.cleaned_data)
        except EngineError as error:
            field = str(getattr(error, "field", ""))
            form.add_error(field if field in form.fields else None, str(error))
        else:
            return redirect("job", job.pk)
    names = visible_tables(request.user).order_by("name").values_list("name", flat=True)[:200]
    source = {"source_table": form["source_table"].value() or "sales.orders"}
    body = {"name": form["name"].value() or "sales.orders_clone", "clone": source}
    act = {"address": "/api/v1/tables/", "body": body}
    context = {"form": form, "names": names, "act": act}
    return render(request, "tables/clone.html", context, status=400 if form.errors else 200)


def _request(request: HttpRequest, given: dict[str, Any]) -> Job:
    parameters = {
        "source_table": given["source_table"].strip(),
        "version": given["version"],
        "deep": bool(given["deep"]),
    }
    return request_create(
        name=given["name"].strip(),
        kind="clone",
        parameters=parameters,
        requested_by=request.user,  # type: ignore[arg-type]  # signed in
        description=given["description"],
    )
