"""Refused sign-ins: the reason and the remedy. Each is a page of its own.

The page of a refused sign-in, and its record.
"""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from lakeui.monitoring.audit import record_refused_sign_on
from lakeui.monitoring.client_address import client_address

_MAX_NAME = 150


class SignOnError(Exception):
    """Sign-on was refused."""

    code = "LAKE_SIGN_ON_REFUSED"
    status = 403
    title = "You were not signed in"

    def __init__(self, text: str, remedy: str, name: str = "") -> None:
        super().__init__(f"{text} {remedy}")
        self.text = text
        self.remedy = remedy
        self.name = name
        """The person concerned, if known."""


class ProviderRefusedError(SignOnError):
    """The OpenID provider refused the sign-in."""

    title = "The provider refused"

    def __init__(self, said: str) -> None:
        super().__init__(
            f"The provider answered: {said[:300]}.",
            "Sign in again. If it says the same, ask whoever looks after the provider whether you "
            "may use this installation, and whether its client id and secret are right.",
        )


class NotBegunError(SignOnError):
    """The provider's answer belongs to no sign-in of this browser."""

    code = "LAKE_SIGN_ON_NOT_BEGUN"
    status = 400
    title = "This sign-in was not begun here"

    def __init__(self) -> None:
        super().__init__(
            "The answer of the provider belongs to no sign-in that this browser began here. It "
            "was used before, is too old, or came from elsewhere.",
            "Sign in again from this installation's own page, and allow its cookies.",
        )


class TokenRefusedError(SignOnError):
    """The issuer did not make the ID token for this sign-in."""

    code = "LAKE_SIGN_ON_TOKEN"
    title = "The provider's token is not valid"

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"The ID token was refused: {reason[:300]}.",
            "Sign in again. If it is refused again, an administrator compares OIDC_ISSUER and "
            "OIDC_CLIENT_ID with the provider's settings, and the clocks of both machines.",
        )


class ProviderUnavailableError(SignOnError):
    """The OpenID provider is unreachable, or its answers are not those of one."""

    code = "LAKE_SIGN_ON_UNAVAILABLE"
    status = 503
    title = "The provider is unavailable"

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"The provider is unreachable, or is not as OpenID Connect requires: {reason[:300]}.",
            "Sign in again in a while. An administrator checks OIDC_ISSUER, and that this machine "
            "reaches it: manage.py doctor tells.",
        )


class ProxyHeaderError(SignOnError):
    """A header of the proxy came twice: one of them may be the client's own."""

    code = "LAKE_SIGN_ON_HEADER_TWICE"
    status = 400
    title = "The proxy's header came twice"

    def __init__(self, header: str) -> None:
        super().__init__(
            f"The request has the header {header} more than once.",
            "An administrator has the proxy remove it from what clients send before it sets its own.",
        )


class NoGroupError(SignOnError):
    """None of the person's groups may sign in."""

    code = "LAKE_SIGN_ON_NO_GROUP"
    title = "None of your groups may sign in"

    def __init__(self, name: str, claim: str, *, is_said: bool) -> None:
        shown = name[:_MAX_NAME]
        if is_said:
            text = f"You are {shown}, and none of your groups has a role here."
            remedy = (
                "Ask to be put into one that has; SIGN_ON_ROLES names them. Then sign in again."
            )
        else:
            text = f"You are {shown}, and the provider did not say which groups you are in."
            remedy = f"An administrator has the provider send {claim}, or names another claim."
        super().__init__(text, remedy, name)


class EmailChangedError(SignOnError):
    """The provider reports another e-mail address of a known subject."""

    code = "LAKE_SIGN_ON_EMAIL_CHANGED"
    title = "Your e-mail address has changed"

    def __init__(self, name: str, email: str) -> None:
        super().__init__(
            f"The provider says that {name} has the address {email}. Here it is another one.",
            "If that is right, an administrator enters the new address at your linked identity in "
            "the admin. With OIDC_FOLLOW_EMAIL=true addresses follow the provider.",
            name,
        )


class AccountDisabledError(SignOnError):
    """The person's account is not active."""

    code = "LAKE_SIGN_ON_DISABLED"
    title = "Your account is disabled"

    def __init__(self, name: str) -> None:
        super().__init__(
            f"The account {name} is not active here.",
            "An administrator can make it active again in the admin, under Users.",
            name,
        )


class AccountNameTakenError(SignOnError):
    """A new subject claims the name of another account."""

    code = "LAKE_SIGN_ON_NAME_TAKEN"
    title = "That name is another account's"

    def __init__(self, name: str, issuer: str, subject: str) -> None:
        super().__init__(
            f"There is an account {name} already, and it is not linked to you.",
            "If it is yours, an administrator links it: manage.py link_identity "
            f"{name} --issuer '{issuer}' --subject '{subject}', or Linked identities in the admin.",
            name,
        )


class InvalidNameError(SignOnError):
    """An invalid account name."""

    code = "LAKE_SIGN_ON_NAME"
    title = "That name cannot be an account's"

    def __init__(self, name: str) -> None:
        super().__init__(
            f"{name[:_MAX_NAME]!r} cannot be the name of an account: up to 150 letters, digits and @.+-_.",
            "An administrator names another claim by OIDC_USERNAME_CLAIM.",
        )


def render_refusal(request: HttpRequest, error: SignOnError) -> HttpResponse:
    """Render the reason and the remedy."""
    record_refused_sign_on(error.name, error.code, client_address(request))
    return render(request, "access/refused.html", {"error": error}, status=error.status)
