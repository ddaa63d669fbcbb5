"""A login link signs its user in once, within a short time."""

from datetime import timedelta

import pytest
from auditlog.models import LogEntry
from django.contrib.auth.models import User
from django.core import signing
from django.core.management import call_command
from django.urls import reverse
from django.utils import timezone

from lakeui.local_stack.home import remember_url
from lakeui.local_stack.login_links import make_link_token, redeem

pytestmark = pytest.mark.django_db


@pytest.fixture
def user() -> User:
    return User.objects.create_superuser("admin")


def test_a_link_signs_in_once(client, user):
    address = reverse("login-link", args=[make_link_token(user)])
    assert client.get(address).headers["Location"] == reverse("overview")
    assert client.session["_auth_user_id"] == str(user.pk)
    entry = LogEntry.objects.filter(content_type__model="user").first()
    assert (entry.actor, entry.additional_data) == (user, {"did": "signed in by a link"})
    assert entry.remote_addr == "127.0.0.1"
    client.logout()
    assert client.get(address).headers["Location"] == reverse("login")
    assert "_auth_user_id" not in client.session


@pytest.mark.parametrize(
    "token",
    ["x", "", "a:b:c", signing.dumps("forged", salt="other")],
    ids=["short", "empty", "three parts", "signed for something else"],
)
def test_a_foreign_token_signs_nobody_in(user, token):
    assert redeem(token) is None


def test_an_old_link_signs_nobody_in(user, monkeypatch):
    token = make_link_token(user)
    later = (timezone.now() + timedelta(hours=2)).timestamp()
    monkeypatch.setattr("django.core.signing.time.time", lambda: later)
    assert redeem(token) is None


def test_a_link_of_a_disabled_account_signs_nobody_in(user):
    token = make_link_token(user)
    User.objects.update(is_active=False)
    assert redeem(token) is None


def test_another_link_leads_to_where_the_stack_answers(user, tmp_path, settings, capsys):
    settings.LAKEUI_HOME = tmp_path
    (tmp_path / "run").mkdir()
    call_command("login_link")
    assert capsys.readouterr().out.startswith("http://127.0.0.1:8000/login/")
    remember_url(tmp_path, "http://127.0.0.1:8140")
    call_command("login_link")
    assert capsys.readouterr().out.startswith("http://127.0.0.1:8140/login/")
    call_command("login_link", "--base-url", "https://lake.example/")
    assert capsys.readouterr().out.startswith("https://lake.example/login/")
