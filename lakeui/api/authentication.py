"""Bearer tokens, the caller of a request, and checks for every address.

A token's role is an upper bound; its owner's own role still applies. The checks come before a view
checks tables and roles.
"""

from django.conf import settings
from django.contrib.auth.models import User
from django.utils import timezone
from django.views import View
from knox.auth import TokenAuthentication
from rest_framework.exceptions import AuthenticationFailed, NotAuthenticated, Throttled
from rest_framework.permissions import SAFE_METHODS, BasePermission
from rest_framework.request import Request

from lakeui.api.errors import ReadOnly, TokenOnlyReports, TokenTooWeak
from lakeui.api.models import ApiToken
from lakeui.api.throttles import FailedTokenThrottle
from lakeui.catalog.roles import Role
from lakeui.monitoring.audit import name_actor


class BearerAuthentication(TokenAuthentication):
    """Reads only: a token past its time is refused, and removed when its owner next changes tokens."""

    def authenticate(self, request: Request) -> tuple[User, ApiToken] | None:
        try:
            answer: tuple[User, ApiToken] | None = super().authenticate(request)
        except AuthenticationFailed:
            throttle = FailedTokenThrottle()
            if not throttle.allow_request(request, None):
                raise Throttled(throttle.wait()) from None
            raise
        return answer

    def authenticate_credentials(self, token: bytes) -> tuple[User, ApiToken]:
        try:
            token.decode("ascii")
        except UnicodeDecodeError as error:
            detail = "Invalid token."
            raise AuthenticationFailed(detail) from error
        user, api_token = super().authenticate_credentials(token)
        user.role_ceiling = Role(api_token.role)
        name_actor(user)
        return user, api_token

    def _cleanup_token(self, auth_token: ApiToken) -> bool:
        return auth_token.expiry is None or auth_token.expiry < timezone.now()


def caller(request: Request) -> User:
    """Return the person behind a request; on public views there may be none: NotAuthenticated."""
    if not isinstance(request.user, User):
        raise NotAuthenticated
    return request.user


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
