"""Bearer tokens: a token's role is an upper bound; its owner's own role still applies."""

from django.contrib.auth.models import User
from django.utils import timezone
from knox.auth import TokenAuthentication
from rest_framework.exceptions import AuthenticationFailed, Throttled
from rest_framework.request import Request

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
