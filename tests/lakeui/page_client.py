"""Django's test client for pages, with white space collapsed as in a browser."""

from typing import Any

from django.http import HttpResponse
from django.test import Client


class PageClient(Client):
    """A client whose HTML has no line breaks, so that line breaks in templates do not matter to tests."""

    def request(self, **request: Any) -> HttpResponse:
        response = super().request(**request)
        if not response.streaming and response.get("Content-Type", "").startswith("text/html"):
            response.content = b" ".join(response.content.split())
        return response
