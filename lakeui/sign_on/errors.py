"""Refused sign-ins: the reason and the remedy of each, its page, and its record."""

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
            "Sign in again. If the provider refuses again, ask its administrator whether you "
            "may use this installation, and whether its client id and secret are correct.",
        )


class NotBegunError(SignOnError):
    """The provider's answer belongs to no sign-in of this browser."""

    code = "LAKE_SIGN_ON_NOT_BEGUN"
    status = 400
    title = "This sign-in was not started here"

    def __init__(self) -> None:
        super().__init__(
            "The provider's answer does not belong to a sign-in that this browser started "
            "here. It was already used, has expired, or came from another site.",
            "Sign in again from this installation's sign-in page, and allow its cookies.",
        )


class TokenRefusedError(SignOnError):
    """The issuer did not make the ID token for this sign-in."""

    code = "LAKE_SIGN_ON_TOKEN"
    title = "The provider's token is not valid"

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"The ID token was refused: {reason[:300]}.",
            "Sign in again. If it is refused again, ask an administrator to compare "
            "OIDC_ISSUER and OIDC_CLIENT_ID with the provider's settings, and the clocks of "
            "both machines.",
        )


class ProviderUnavailableError(SignOnError):
    """The OpenID provider is unreachable, or its answers are not those of one."""

    code = "LAKE_SIGN_ON_UNAVAILABLE"
    status = 503
    title = "The provider is unavailable"

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"The provider is unreachable or does not conform to OpenID Connect: {reason[:300]}.",
            "Sign in again later. An administrator can run manage.py doctor to check "
            "OIDC_ISSUER and the connection to it.",
        )


class ProxyHeaderError(SignOnError):
    """A header of the proxy came twice: one of them may be the client's own."""

    code = "LAKE_SIGN_ON_HEADER_TWICE"
    status = 400
    title = "The proxy's header appears twice"

    def __init__(self, header: str) -> None:
        super().__init__(
            f"The request has the header {header} more than once.",
            "Ask an administrator to configure the proxy so that it removes this header from "
            "client requests before it sets its own.",
        )


class NoGroupError(SignOnError):
    """None of the person's groups may sign in."""

    code = "LAKE_SIGN_ON_NO_GROUP"
    title = "None of your groups may sign in"

    def __init__(self, name: str, claim: str, *, is_said: bool) -> None:
        shown = name[:_MAX_NAME]
        if is_said:
            text = f"You are {shown}, but none of your groups has a role here."
            remedy = (
                "Ask an administrator to add you to a group listed in SIGN_ON_ROLES. Then "
                "sign in again."
            )
        else:
            text = f"You are {shown}, but the provider did not send your groups."
            remedy = (
                f"Ask an administrator to configure the provider to send {claim}, or to set "
                "another claim."
            )
        super().__init__(text, remedy, name)


class EmailChangedError(SignOnError):
    """The provider reports another e-mail address of a known subject."""

    code = "LAKE_SIGN_ON_EMAIL_CHANGED"
    title = "Your e-mail address has changed"

    def __init__(self, name: str, email: str) -> None:
        super().__init__(
            f"The provider sends the address {email} for {name}, but the address here is "
            "different.",
            "If the new address is correct, ask an administrator to enter it at your linked "
            "identity in the admin. With OIDC_FOLLOW_EMAIL=true, addresses follow the "
            "provider.",
            name,
        )


class AccountDisabledError(SignOnError):
    """The person's account is not active."""

    code = "LAKE_SIGN_ON_DISABLED"
    title = "Your account is disabled"

    def __init__(self, name: str) -> None:
        super().__init__(
            f"The account {name} is not active here.",
            "Ask an administrator to activate it in the admin, under Users.",
            name,
        )


class AccountNameTakenError(SignOnError):
    """A new subject claims the name of another account."""

    code = "LAKE_SIGN_ON_NAME_TAKEN"
    title = "The name belongs to another account"

    def __init__(self, name: str, issuer: str, subject: str) -> None:
        super().__init__(
            f"The account {name} already exists and is not linked to you.",
            "If it is yours, ask an administrator to link it: manage.py link_identity "
            f"{name} --issuer '{issuer}' --subject '{subject}', or Linked identities in the admin.",
            name,
        )


class InvalidNameError(SignOnError):
    """An invalid account name."""

    code = "LAKE_SIGN_ON_NAME"
    title = "The name cannot be an account name"

    def __init__(self, name: str) -> None:
        super().__init__(
            f"{name[:_MAX_NAME]!r} cannot be an account name. Account names have up to 150 "
            "letters, digits and @.+-_.",
            "Ask an administrator to set another claim in OIDC_USERNAME_CLAIM.",
        )


def render_refusal(request: HttpRequest, error: SignOnError) -> HttpResponse:
    """Render the reason and the remedy."""
    record_refused_sign_on(error.name, error.code, client_address(request))
    return render(request, "access/refused.html", {"error": error}, status=error.status)
