"""Disabled local accounts, and settings that would lock out every user."""

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.urls import reverse

from lakeui.local_stack.login_links import make_link_token
from lakeui.sign_on.configuration import check
from tests.lakeui.people import person

pytestmark = pytest.mark.django_db
RIGHT = {"username": "ada", "password": "correct horse"}


@pytest.fixture
def no_local_accounts(settings, provider):
    settings.LOCAL_ACCOUNTS = False
    settings.AUTHENTICATION_BACKENDS = ["lakeui.sign_on.sessions.WithoutPassword"]
    check()


def test_no_password_signs_in_where_local_accounts_are_off(client, no_local_accounts):
    person("ada", "admin")
    page = client.get("/login/").content.decode()
    assert 'name="password"' not in page
    assert "Sign in with Example" in page
    assert client.post("/login/", RIGHT).status_code == 403
    assert client.login(**RIGHT) is False
    assert "_auth_user_id" not in client.session


def test_a_session_of_a_password_ends_with_local_accounts(client, settings, provider):
    person("ada", "admin")
    client.post("/login/", RIGHT)
    assert client.get("/tables/").status_code == 200
    settings.LOCAL_ACCOUNTS = False
    settings.AUTHENTICATION_BACKENDS = ["lakeui.sign_on.sessions.WithoutPassword"]
    assert client.get("/tables/").status_code == 302


def test_a_person_with_access_to_the_machine_still_has_the_link(client, no_local_accounts):
    ada = person("ada", "admin")
    client.get(reverse("login-link", args=[make_link_token(ada)]))
    assert client.get("/tables/").status_code == 200


def test_a_person_of_the_provider_is_admitted(come, no_local_accounts, client):
    come()
    assert client.get("/tables/").status_code == 200


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"LOCAL_ACCOUNTS": False}, "nobody can sign in"),
        ({"OIDC_ISSUER": "http://id.example.org"}, "https"),
        ({"OIDC_ISSUER": "https://id.example.org"}, "OIDC_CLIENT_ID"),
        (
            {"OIDC_ISSUER": "https://i.example", "OIDC_CLIENT_ID": "x", "OIDC_SCOPES": "email"},
            "openid",
        ),
        ({"SIGN_ON_ROLES": {"a": "boss"}}, "'boss' is not a role"),
        ({"SIGN_ON_ROLES": ["a"]}, "not a JSON object"),
        ({"PROXY_USER_HEADER": "X-User", "PROXY_ADDRESSES": ["here"]}, "PROXY_ADDRESSES"),
        ({"SIGN_ON_SESSION_HOURS": 0}, "SIGN_ON_SESSION_HOURS"),
    ],
)
def test_settings_that_cannot_work_are_refused_at_the_start(settings, values, words):
    for name, value in values.items():
        setattr(settings, name, value)
    with pytest.raises(ImproperlyConfigured, match=words):
        check()
