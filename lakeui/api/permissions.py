"""Checks for every address, before a view checks tables and roles."""

from django.conf import settings
from django.views import View
from rest_framework.permissions import SAFE_METHODS, BasePermission
from rest_framework.request import Request

from lakeui.api.errors import ReadOnly, TokenOnlyReports, TokenTooWeak
from lakeui.api.models import ApiToken
from lakeui.catalog.roles import Role


class ChangesAllowed(BasePermission):
    """Refuses changes on a read-only installation, and by a token that may only read.

    A view whose POST changes nothing sets `changes_nothing = True`, a view for reports of programs
    sets `takes_reports = True`: a token that may only report grants access to no other.
    """

    def has_permission(self, request: Request, view: View) -> bool:
        if getattr(view, "takes_reports", False):
            _refuse_on_read_only()
            return True
        if _only_reports(request):
            raise TokenOnlyReports
        if request.method in SAFE_METHODS or getattr(view, "changes_nothing", False):
            return True
        refuse_changes(request)
        return True


def refuse_changes(request: Request) -> None:
    """Raise ReadOnly or TokenTooWeak if nothing may be changed."""
    _refuse_on_read_only()
    if isinstance(request.auth, ApiToken) and request.auth.role < Role.OPERATOR:
        raise TokenTooWeak


def _only_reports(request: Request) -> bool:
    return isinstance(request.auth, ApiToken) and request.auth.role == Role.REPORTER


def _refuse_on_read_only() -> None:
    if settings.READ_ONLY:
        raise ReadOnly
