"""One line in the log at the begin and the end of each request."""

import structlog
from django.db import DatabaseError, InterfaceError
from django.http import HttpRequest
from django_structlog.middlewares import RequestMiddleware

from lakeui.monitoring.client_address import client_address


class RequestLogMiddleware(RequestMiddleware):
    """Names the client as rates and the audit log do; django-structlog believes any header."""

    @classmethod
    def bind_ip(cls, request: HttpRequest) -> None:
        structlog.contextvars.bind_contextvars(ip=client_address(request))

    @staticmethod
    def bind_user_id(request: HttpRequest) -> None:
        """Bind the user's id from the database; if that is unreachable, the view reports it."""
        try:
            RequestMiddleware.bind_user_id(request)
        except (DatabaseError, InterfaceError):
            structlog.contextvars.bind_contextvars(user_id=None)
