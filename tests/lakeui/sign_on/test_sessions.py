"""Sessions and tokens: listed and ended by their user, and by an admin for every user."""

import pytest
from auditlog.models import LogEntry
from django.core.management import call_command
from django.utils import timezone

from lakeui.api.models import ApiToken
from lakeui.catalog.roles import Role
from lakeui.sign_on.models import BrowserSession
from tests.lakeui.page_client import PageClient
from tests.lakeui.people import person

pytestmark = pytest.mark.django_db


def sign_in(name, **more):
    client = PageClient(REMOTE_ADDR="203.0.113.9", headers={"User-Agent": f"Browser of {name}"})
    client.post("/login/", {"username": name, "password": "correct horse"})
    return client


@pytest.fixture
def ada():
    person("ada", "admin")
    return sign_in("ada")


@pytest.fixture
def bob():
    person("bob", "viewer")
    return sign_in("bob")


def test_ones_own_sessions_are_listed_with_method_and_address(bob, ada):
    page = bob.get("/sessions/").content.decode()
    assert all(text in page for text in ("Browser of bob", "203.0.113.9", "password", "this one"))
    assert "Browser of ada" not in page
    [listed] = bob.get("/api/v1/sessions/").json()["items"]
    assert (listed["user"], listed["way"], listed["address"]) == ("bob", "password", "203.0.113.9")
    assert bob.session.session_key not in str(listed)


def test_another_browser_of_the_same_person_is_signed_out(bob):
    other = sign_in("bob")
    row = BrowserSession.objects.get(session_key=other.session.session_key)
    asked = bob.get(f"/sessions/?end={row.public_id}").content.decode()
    assert "End the session of bob from 203.0.113.9?" in asked
    assert bob.post(f"/sessions/{row.public_id}/end/").headers["Location"] == "/sessions/"
    assert other.get("/tables/").status_code == 302
    assert bob.get("/tables/").status_code == 200


def test_an_admin_lists_and_ends_everybodys_and_others_do_not(ada, bob):
    mine = BrowserSession.objects.get(user__username="ada").public_id
    for ended in (
        bob.post(f"/sessions/{mine}/end/"),
        bob.delete(f"/api/v1/sessions/{mine}/"),
    ):
        assert ended.status_code == 404
    assert bob.get("/api/v1/sessions/all/").status_code == 403
    everybody = ada.get("/api/v1/sessions/all/").json()["items"]
    assert {row["user"] for row in everybody} == {"ada", "bob"}
    assert "Browser of bob" in ada.get("/sessions/").content.decode()
    his = BrowserSession.objects.get(user__username="bob").public_id
    assert ada.delete(f"/api/v1/sessions/{his}/").status_code == 204
    assert bob.get("/tables/").status_code == 302
    entry = LogEntry.objects.filter(content_type__model="user").first()
    assert (entry.actor.username, entry.object_repr) == ("ada", "bob")
    assert entry.additional_data == {"did": "session ended"}


def test_an_admin_lists_and_revokes_everybodys_tokens(ada, bob):
    owner = BrowserSession.objects.get(user__username="bob").user
    token, secret = ApiToken.objects.create(user=owner, name="nightly", role=Role.VIEWER)
    assert bob.get("/api/v1/tokens/all/").status_code == 403
    [listed] = ada.get("/api/v1/tokens/all/").json()["items"]
    assert (listed["name"], listed["user"]) == ("nightly", "bob")
    asked = ada.get(f"/sessions/?revoke={token.public_id}").content.decode()
    assert "Revoke nightly of bob?" in asked
    revoked = ada.post(f"/tokens/{token.public_id}/revoke/")
    assert revoked.headers["Location"] == "/sessions/"
    answer = PageClient().get("/api/v1/tables/", headers={"Authorization": f"Bearer {secret}"})
    assert answer.status_code == 401


def test_sessions_that_expired_or_ended_are_not_listed(bob):
    sign_in("bob").post("/logout/")
    bob.get("/")
    assert len(bob.get("/api/v1/sessions/").json()["items"]) == 1
    sign_in("bob")
    assert BrowserSession.objects.count() == 2


def test_a_person_is_signed_out_everywhere_of_sessions_that_are_not_listed_too(ada, bob, capsys):
    unlisted = PageClient()
    owner = BrowserSession.objects.get(user__username="bob").user
    unlisted.force_login(owner)
    call_command("end_sessions", "bob")
    assert capsys.readouterr().out == "2 ended.\n"
    assert (unlisted.get("/tables/").status_code, bob.get("/tables/").status_code) == (302, 302)
    assert ada.get("/tables/").status_code == 200
    assert BrowserSession.objects.get().started_at <= timezone.now()
