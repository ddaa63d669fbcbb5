"""The glossary page: the words of pages, REST and docs, with their meanings."""

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from lakeui.catalog.glossary import TERMS


@login_required
def glossary(request: HttpRequest) -> HttpResponse:
    """Render the page without a query."""
    return render(request, "overview/glossary.html", {"terms": TERMS, "twin": "/api/v1/glossary/"})
