"""One line in the log at the begin and the end of each request."""

import structlog
from django.http import HttpRequest
from django_structlog.middlewares import RequestMiddleware

from lakeui.monitoring.client_address import client_address


class RequestLogMiddleware(RequestMiddleware):
    """Names the client as rates and the audit log do; django-structlog believes any header."""

    @classmethod
    def bind_ip(cls, request: HttpRequest) -> None:
        structlog.contextvars.bind_contextvars(ip=client_address(request))
