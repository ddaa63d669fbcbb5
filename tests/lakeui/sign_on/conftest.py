import pytest

from lakeui.sign_on.configuration import check
from tests.lakeui.sign_on.provider import CLIENT, run_provider


@pytest.fixture
def provider(settings):
    """Yield a provider that this installation trusts, whose groups give roles."""
    with run_provider() as running:
        settings.OIDC_ISSUER = running.issuer
        settings.OIDC_CLIENT_ID = CLIENT
        settings.OIDC_CLIENT_SECRET = "secret"
        settings.OIDC_LABEL = "Example"
        settings.SIGN_ON_ROLES = {"engineers": "operator", "leads": "admin", "guests": "none"}
        running.claims["groups"] = ["engineers", "choir"]
        check()
        yield running


@pytest.fixture
def come(client, provider):
    """Sign in: from here to the provider and back."""

    def come(address="/sign-on/"):
        begun = client.get(address)
        assert begun.status_code == 302, begun.content.decode()
        return client.get(provider.authorize(begun.headers["Location"]))

    return come
