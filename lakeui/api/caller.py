"""The caller of a request."""

from django.contrib.auth.models import User
from rest_framework.exceptions import NotAuthenticated
from rest_framework.request import Request


def caller(request: Request) -> User:
    """Return the person behind a request; on public views there may be none: NotAuthenticated."""
    if not isinstance(request.user, User):
        raise NotAuthenticated
    return request.user
