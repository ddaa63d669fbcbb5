"""Registration of an existing table."""

from django import forms
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render

from engine.errors import EngineError
from lakeui.catalog.access import may
from lakeui.catalog.registration import request_registration
from lakeui.pages.read_only import refuse_when_read_only

MONO = {"class": "mono", "spellcheck": "false", "autocomplete": "off"}


class RegisterForm(forms.Form):
    uri = forms.CharField(
        label="Where it lies",
        max_length=2000,
        help_text="The table's directory: a path, or an s3://, gs:// or az:// address, under one "
        "of the roots an administrator allowed.",
        widget=forms.TextInput(attrs=MONO | {"autofocus": True}),
    )
    name = forms.CharField(
        label="Name",
        max_length=255,
        required=False,
        help_text="What to call it here. Left empty, the last part of its place.",
        widget=forms.TextInput(attrs=MONO),
    )


@login_required
def register(request: HttpRequest) -> HttpResponse:
    must_maintain(request)
    form = RegisterForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        refuse_when_read_only()
        try:
            table = request_registration(**form.cleaned_data, by=request.user)  # type: ignore[arg-type]
        except EngineError as error:
            blame(form, error)
        else:
            messages.success(request, f"{table.name} is registered. A worker reads its log.")
            return redirect("table", table.pk)
    status = 400 if form.errors else 200
    body = {"uri": form["uri"].value() or "s3://lake/sales/orders", "name": form["name"].value()}
    act = {"address": "/api/v1/tables/", "body": body}
    return render(request, "tables/register.html", {"form": form, "act": act}, status=status)


def blame(form: forms.Form, error: EngineError) -> None:
    """Show the error at its field."""
    field = str(getattr(error, "field", "")).removeprefix("source.")
    form.add_error(field if field in form.fields else None, str(error))


def must_maintain(request: HttpRequest) -> None:
    """Require the right to maintain all tables, which new tables need."""
    if not may(request.user, "maintain"):
        msg = "New tables need the role maintainer or admin on every table."
        raise PermissionDenied(msg)
