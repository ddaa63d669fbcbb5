"""One's own tokens for the REST API: made and shown once, listed, revoked."""

from datetime import timedelta
from typing import Any
from uuid import UUID

from django import forms
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_variables
from django.views.decorators.http import require_POST
from knox.models import get_token_model

from lakeui.catalog.access import highest_role
from lakeui.catalog.roles import Role
from lakeui.sign_on.tokens import revocable_tokens, tokens_of

MAX_DAYS = 365
SOON_DAYS = 7
MAY_DO = (
    (Role.REPORTER, "Reports transactions of programs to their tables' pages, and opens nothing."),
    (Role.VIEWER, "Reads tables, jobs and conflicts, and has errors explained."),
    (Role.OPERATOR, "Writes rows by jobs, cancels and repeats them, reports conflicts."),
    (
        Role.MAINTAINER,
        "Creates, registers, alters, compacts and cleans tables, reads the audit log.",
    ),
    (Role.ADMIN, "Restores tables, shortens what is kept of them, gives roles."),
)


class TokenForm(forms.Form):
    name = forms.CharField(
        label="Name", max_length=100, help_text="What will use it: nightly-pipeline."
    )
    role = forms.TypedChoiceField(
        label="Role",
        coerce=int,
        help_text="The most it may do; never more than you may yourself at the time.",
    )
    expires_in_days = forms.IntegerField(
        label="Expires after days", min_value=1, max_value=MAX_DAYS, initial=30
    )

    def __init__(self, data: Any, own: Role) -> None:  # noqa: ANN401 - a form's data
        super().__init__(data)
        self.fields["role"].choices = [  # type: ignore[attr-defined]
            (role.value, role.label) for role in Role if role <= own
        ]


@never_cache
@login_required
@sensitive_variables("secret")
def token_list(request: HttpRequest) -> HttpResponse:
    """Show the page; a POST creates a token, and only its answer shows the secret."""
    own = highest_role(request.user)
    form = TokenForm(request.POST or None, own) if own is not None else None
    secret = ""
    if request.method == "POST":
        if form is None:
            msg = "A token needs a role, on all tables or on one."
            raise PermissionDenied(msg)
        if form.is_valid():
            secret = _create_token(request, form.cleaned_data)
            form = TokenForm(None, own)  # type: ignore[arg-type]  # there was a form
    context = {
        "tokens": _tokens_of(request).order_by("-created"),
        "form": form,
        "secret": secret,
        "to_revoke": _find_token(request),
        "now": timezone.now(),
        "soon": timezone.now() + timedelta(days=SOON_DAYS),
        "may_do": MAY_DO,
        "twin": "/api/v1/tokens/",
    }
    status = 400 if form is not None and form.errors else 200
    return render(request, "access/tokens.html", context, status=status)


@require_POST
@login_required
def token_revoke(request: HttpRequest, public_id: UUID) -> HttpResponse:
    user: User = request.user  # type: ignore[assignment]  # signed in
    token = get_object_or_404(revocable_tokens(user), public_id=public_id)
    token.delete()
    messages.success(request, f"{token.name} is revoked: the next request with it is refused.")
    return redirect("token-list" if token.user_id == user.pk else "session-list")


def _create_token(request: HttpRequest, values: dict[str, Any]) -> str:
    """Create a token and return its secret; delete expired tokens."""
    _tokens_of(request).filter(expiry__lt=timezone.now()).delete()
    _, secret = get_token_model().objects.create(
        user=request.user,
        expiry=timedelta(days=values["expires_in_days"]),
        name=values["name"],
        role=values["role"],
    )
    return str(secret)


def _find_token(request: HttpRequest) -> Any:  # noqa: ANN401 - knox leaves its model open
    """Return the token to revoke in the address, None if it names none of one's own."""
    try:
        public_id = UUID(request.GET.get("revoke", ""))
    except ValueError:
        return None
    return _tokens_of(request).filter(public_id=public_id).first()


def _tokens_of(request: HttpRequest) -> QuerySet[Any]:
    return tokens_of(request.user)  # type: ignore[arg-type]  # signed in
