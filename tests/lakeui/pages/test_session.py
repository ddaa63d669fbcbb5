"""Signing in: what did not match, how many tries are left, and the pause after them."""

import pytest
from django.core.cache import cache
from django.test import Client

from lakeui.pages.session import TRIES
from tests.lakeui.factories import make_user

pytestmark = pytest.mark.django_db
WRONG = {"username": "ops", "password": "wrong"}
RIGHT = {"username": "ops", "password": "correct horse battery"}


@pytest.fixture(autouse=True)
def person():
    cache.clear()
    yield make_user("ops")
    cache.clear()


def test_a_wrong_password_says_how_many_tries_are_left():
    response = Client().post("/login/", WRONG)
    assert response.status_code == 400
    assert "4 tries left before a pause of 5 min." in response.content.decode()


def test_after_the_last_try_not_even_the_right_password_is_compared():
    client = Client()
    for _ in range(TRIES):
        client.post("/login/", WRONG)
    response = client.post("/login/", RIGHT)
    assert response.status_code == 429
    assert "Too many tries." in response.content.decode()
    assert "_auth_user_id" not in client.session


def test_another_name_or_place_is_not_held_up():
    client = Client()
    for _ in range(TRIES):
        client.post("/login/", WRONG)
    make_user("auditor")
    assert client.post("/login/", RIGHT | {"username": "auditor"}).status_code == 302
    elsewhere = Client(REMOTE_ADDR="203.0.113.9")
    assert elsewhere.post("/login/", RIGHT).status_code == 302


def test_signing_in_forgets_the_tries_before():
    client = Client()
    client.post("/login/", WRONG)
    assert client.post("/login/", RIGHT).status_code == 302
    client.logout()
    assert "4 tries left" in client.post("/login/", WRONG).content.decode()


def test_the_sign_in_page_says_what_runs_here_and_counts_nothing(settings):
    settings.INSTALLATION_NAME, settings.READ_ONLY = "blue lake", True
    body = Client().get("/login/").content.decode()
    assert "blue lake" in body
    assert ", read-only, up " in body
