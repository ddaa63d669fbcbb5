"""The page of the six conflict exceptions: what each means, its causes, and what to do."""

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from engine.conflicts.exceptions import GUIDES, SUBCLASS_MEANINGS, TRANSACTIONS_ELSEWHERE


@login_required
def exceptions(request: HttpRequest) -> HttpResponse:
    """It reads nothing of the database."""
    context = {
        "guides": GUIDES,
        "subclasses": SUBCLASS_MEANINGS,
        "transactions_elsewhere": TRANSACTIONS_ELSEWHERE,
        "twin": "/api/v1/conflicts/exceptions/",
    }
    return render(request, "conflicts/exceptions.html", context)
