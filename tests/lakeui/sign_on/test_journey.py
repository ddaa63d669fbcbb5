"""A sign-on through a third-party provider, as a separate server."""

import re
import subprocess
import sys

import httpx
import pytest
from django.contrib.auth.models import User

from lakeui.catalog.access import role_of
from lakeui.catalog.roles import Role
from lakeui.sign_on.configuration import check
from tests.ports import port_for_later

pytestmark = [pytest.mark.django_db, pytest.mark.timeout(180)]


@pytest.fixture
def issuer(settings):
    port = port_for_later()
    command = [sys.executable, "-m", "oidc_provider_mock", "-p", str(port), "-n", "true"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:  # noqa: S603 - ours
        try:
            assert any("running on" in line for line in process.stderr)
            settings.OIDC_ISSUER = f"http://127.0.0.1:{port}"
            settings.OIDC_CLIENT_ID, settings.OIDC_CLIENT_SECRET = "lakeui", "secret"
            settings.OIDC_USERNAME_CLAIM = "nickname"
            settings.SIGN_ON_ROLES = {"engineers": "maintainer"}
            check()
            yield settings.OIDC_ISSUER
        finally:
            process.terminate()


def test_sign_in_at_the_provider_leads_to_the_requested_page_and_sign_out_ends_both(client, issuer):
    said = {"sub": "7", "nickname": "grace", "email": "g@example.org", "groups": ["engineers"]}
    httpx.put(f"{issuer}/users/7", json=said).raise_for_status()
    begun = client.get("/audit/", follow=True).content.decode()
    link = re.search(r'href="(/sign-on/[^"]*)"', begun)[1]
    at_provider = client.get(link).headers["Location"]
    assert at_provider.startswith(issuer)
    back = httpx.post(at_provider, data={"sub": "7"}).headers["Location"]
    answered = client.get(back)
    assert answered.status_code == 302, answered.content.decode()[:3000]
    assert answered.headers["Location"] == "/audit/"
    grace = User.objects.get(username="grace")
    assert (role_of(grace), grace.email) == (Role.MAINTAINER, "g@example.org")
    assert "signed in by OpenID Connect" in client.get("/audit/").content.decode()
    there = re.search(r'content="0; url=([^"]*)"', client.post("/logout/").content.decode())[1]
    assert httpx.get(there.replace("&amp;", "&")).status_code == 200
    assert client.get("/audit/").headers["Location"] == "/login/?next=/audit/"
