"""The page of the words: what pages, REST and docs call things, and what each means."""

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from lakeui.catalog.glossary import TERMS


@login_required
def glossary(request: HttpRequest) -> HttpResponse:
    """It reads nothing of the database."""
    return render(request, "overview/glossary.html", {"terms": TERMS, "twin": "/api/v1/glossary/"})
