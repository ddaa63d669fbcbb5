"""Sessions begun without a password: they continue if local accounts are disabled."""

from django.contrib.auth.backends import ModelBackend
from django.http import HttpRequest

WITHOUT_PASSWORD = "lakeui.sign_on.backends.WithoutPassword"  # noqa: S105 - a class's name


class WithoutPassword(ModelBackend):
    """Knows people and their permissions, and compares no password."""

    def authenticate(self, request: HttpRequest | None, **credentials: object) -> None:  # type: ignore[override]
        del request, credentials
