"""The page of the six conflict exceptions: meaning, causes, and how to avoid each."""

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from engine.conflicts.exceptions import GUIDES, SUBCLASS_MEANINGS, TRANSACTIONS_ELSEWHERE


@login_required
def exceptions(request: HttpRequest) -> HttpResponse:
    """Render the page without a query."""
    context = {
        "guides": GUIDES,
        "subclasses": SUBCLASS_MEANINGS,
        "transactions_elsewhere": TRANSACTIONS_ELSEWHERE,
        "twin": "/api/v1/conflicts/exceptions/",
    }
    return render(request, "conflicts/exceptions.html", context)
