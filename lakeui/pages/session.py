"""Signing in by password. The one-time link that a start prints belongs to the local stack."""

from typing import Any

from django.contrib.auth.forms import AuthenticationForm
from django.contrib.auth.views import LoginView


class SignInForm(AuthenticationForm):
    """Django's own, with a mark on the fields that did not match."""

    def full_clean(self) -> None:
        super().full_clean()
        if self.is_bound and self.errors:
            for name in ("username", "password"):
                self.fields[name].widget.attrs["aria-invalid"] = "true"


class SignInView(LoginView):
    template_name = "session/login.html"
    authentication_form = SignInForm
    redirect_authenticated_user = True

    def render_to_response(self, context: dict[str, Any], **kwargs: Any) -> Any:
        status = 400 if context["form"].errors else 200
        return super().render_to_response(context, status=status, **kwargs)
