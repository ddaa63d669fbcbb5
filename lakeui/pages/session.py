"""Signing in by password. The one-time link that a start prints belongs to the local stack."""

from django.contrib.auth.forms import AuthenticationForm
from django.contrib.auth.views import LoginView
from django.http import HttpResponse


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

    def form_invalid(self, form: AuthenticationForm) -> HttpResponse:
        return self.render_to_response(self.get_context_data(form=form), status=400)
