"""Signing in: the failed field, the remaining attempts, and the pause after them."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from auditlog.models import LogEntry
from django.contrib.auth.models import User
from django.core.cache import cache
from django.urls import resolve, reverse

from lakeui.monitoring.password_tries import TRIES, TRIES_OF_AN_ADDRESS, PasswordTries
from tests.lakeui.factories import make_user
from tests.lakeui.page_client import PageClient as Client
from tests.lakeui.people import person as make_reader

pytestmark = pytest.mark.django_db
WRONG = {"username": "ops", "password": "wrong"}
RIGHT = {"username": "ops", "password": "correct horse battery"}


@pytest.fixture(autouse=True)
def person():
    return make_user("ops")


def acts():
    entries = LogEntry.objects.filter(content_type__model="user").order_by("pk")
    return [
        (entry.object_repr, said.get("did") or said["refused"], entry.remote_addr)
        for entry in entries
        if (said := entry.additional_data or {})
    ]


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
    assert "Too many attempts." in response.content.decode()
    assert "_auth_user_id" not in client.session


def test_another_name_or_place_is_not_held_up():
    client = Client()
    for _ in range(TRIES):
        client.post("/login/", WRONG)
    make_user("auditor")
    assert client.post("/login/", RIGHT | {"username": "auditor"}).status_code == 302
    elsewhere = Client(REMOTE_ADDR="203.0.113.9")
    assert elsewhere.post("/login/", RIGHT).status_code == 302


def test_one_password_tried_with_many_names_is_paused_by_its_address():
    client = Client()
    statuses = [
        client.post("/login/", WRONG | {"username": f"user{n}"}).status_code for n in range(30)
    ]
    assert statuses == [400] * TRIES_OF_AN_ADDRESS + [429] * (30 - TRIES_OF_AN_ADDRESS)
    assert client.post("/login/", RIGHT).status_code == 429
    assert Client(REMOTE_ADDR="203.0.113.9").post("/login/", RIGHT).status_code == 302


def test_behind_a_proxy_the_address_that_it_vouches_for_is_paused_alone(settings):
    settings.TRUSTED_PROXIES = 1
    client = Client()
    for n in range(TRIES_OF_AN_ADDRESS + 1):
        spray = {"HTTP_X_FORWARDED_FOR": f"198.51.100.{n}, 192.0.2.1"}
        response = client.post("/login/", WRONG | {"username": f"user{n}"}, **spray)
    assert response.status_code == 429
    other = client.post("/login/", RIGHT, HTTP_X_FORWARDED_FOR="192.0.2.1, 192.0.2.2")
    assert other.status_code == 302


def test_successful_sign_ins_from_one_address_use_up_none_of_its_tries():
    for _ in range(TRIES_OF_AN_ADDRESS + 5):
        assert Client().post("/login/", RIGHT).status_code == 302


def test_signing_in_does_not_forget_tries_of_the_address_with_other_names():
    for n in range(TRIES_OF_AN_ADDRESS + 1):
        response = Client().post("/login/", WRONG | {"username": f"user{n}"})
        if response.status_code == 400:
            Client().post("/login/", RIGHT)
    assert response.status_code == 429


def test_tries_that_the_pause_of_a_name_refuses_do_not_pause_its_address():
    client = Client()
    for _ in range(TRIES + TRIES_OF_AN_ADDRESS):
        client.post("/login/", WRONG)
    make_user("auditor")
    assert client.post("/login/", RIGHT | {"username": "auditor"}).status_code == 302


def test_clients_without_an_address_are_not_counted_as_one():
    for n in range(TRIES_OF_AN_ADDRESS + 1):
        Client(REMOTE_ADDR="").post("/login/", WRONG | {"username": f"user{n}"})
    assert Client(REMOTE_ADDR="").post("/login/", RIGHT).status_code == 302


@pytest.mark.parametrize("typed", ["OPS", " ops\t", "\uff4f\uff50\uff53", "\u00a0ops"])
def test_one_name_typed_in_another_way_has_no_tries_of_its_own(typed):
    client = Client()
    for _ in range(TRIES):
        client.post("/login/", WRONG)
    assert client.post("/login/", RIGHT | {"username": typed}).status_code == 429


def test_addresses_of_one_ipv6_network_have_their_tries_together():
    for number in range(TRIES):
        Client(REMOTE_ADDR=f"2001:db8::{number + 1}").post("/login/", WRONG)
    assert Client(REMOTE_ADDR="2001:db8::99").post("/login/", RIGHT).status_code == 429
    assert Client(REMOTE_ADDR="2001:db8:0:1::1").post("/login/", RIGHT).status_code == 302


def test_many_tries_at_once_are_no_more_than_one_after_the_other():
    with ThreadPoolExecutor(8) as pool:
        left = list(pool.map(lambda _: PasswordTries("ops").take(), range(40)))
    assert sum(one >= 0 for one in left) == TRIES


def test_signing_in_forgets_the_tries_before():
    client = Client()
    client.post("/login/", WRONG)
    assert client.post("/login/", RIGHT).status_code == 302
    client.logout()
    assert "4 tries left" in client.post("/login/", WRONG).content.decode()


def test_the_sign_in_page_names_the_installation_and_counts_nothing(settings):
    settings.INSTALLATION_NAME, settings.READ_ONLY = "blue lake", True
    body = Client().get("/login/").content.decode()
    assert "blue lake" in body
    assert ", read-only, up " in body


def test_a_password_sent_to_the_admin_is_not_looked_at():
    User.objects.update(is_staff=True, is_superuser=True)
    client = Client()
    response = client.post("/admin/login/?next=/admin/auth/", RIGHT)
    assert (response.status_code, response.headers["Location"]) == (
        302,
        "/login/?next=/admin/auth/",
    )
    assert "_auth_user_id" not in client.session
    assert client.post("/login/?next=/admin/auth/", RIGHT).headers["Location"] == "/admin/auth/"


@pytest.mark.parametrize("name", ["login", "logout", "password_change"])
def test_the_admin_accepts_passwords_only_through_this_sign_in(name):
    view = resolve(reverse(f"admin:{name}")).func
    assert getattr(view, "view_class", view).__module__ == "lakeui.pages.access.sign_in"


def test_the_admin_tells_people_who_are_not_staff_that_they_may_not_use_it(person):
    client = Client()
    client.force_login(person)
    response = client.get("/admin/", follow=True)
    assert response.status_code == 403
    assert "staff" in response.content.decode()


@pytest.mark.parametrize("target", ["/login/", "/login/?next=/login/", "/admin/login/"])
def test_signing_in_never_leads_round_in_a_circle(person, target):
    User.objects.update(is_staff=True)
    client = Client()
    client.force_login(person)
    response = client.get("/login/", {"next": target}, follow=True)
    assert response.status_code == 200
    assert client.post("/login/", RIGHT | {"next": target}, follow=True).status_code == 200


def test_the_old_password_of_an_open_session_is_not_for_guessing(person):
    User.objects.update(is_staff=True)
    client = Client()
    client.force_login(person)
    new = {"new_password1": "a new horse 77", "new_password2": "a new horse 77"}
    for _ in range(TRIES):
        page = client.post("/admin/password_change/", {"old_password": "wrong", **new})
        assert "old password was entered incorrectly" in page.content.decode()
    right = {"old_password": RIGHT["password"], **new}
    assert "Too many attempts." in client.post("/admin/password_change/", right).content.decode()
    cache.clear()
    assert client.post("/admin/password_change/", right, follow=True).status_code == 200
    person.refresh_from_db()
    assert person.check_password("a new horse 77")
    last = LogEntry.objects.filter(content_type__model="user").first()
    assert (last.actor, last.changes["password"]) == (person, ["…", "…"])


def test_successful_and_failed_sign_ins_are_logged_with_the_address():
    client = Client(REMOTE_ADDR="203.0.113.9")
    client.post("/login/", WRONG)
    client.post("/login/", RIGHT)
    client.post("/logout/")
    assert acts() == [
        ("ops", "SIGN_IN_FAILED", "203.0.113.9"),
        ("ops", "signed in by password", "203.0.113.9"),
        ("ops", "signed out", "203.0.113.9"),
    ]


def test_a_pause_is_on_record_once():
    for _ in range(TRIES + 5):
        Client().post("/login/", WRONG)
    assert [refused for _, refused, _ in acts()] == ["SIGN_IN_FAILED"] * TRIES + ["TOO_MANY_TRIES"]


def test_an_unknown_name_is_not_logged():
    """It may be a password typed into the wrong field."""
    Client().post("/login/", {"username": "hunter22", "password": "ops"})
    assert acts() == []
    assert "hunter22" not in str(list(LogEntry.objects.values()))


def test_the_trail_shows_a_refused_sign_in_to_its_readers(client):
    Client(REMOTE_ADDR="203.0.113.9").post("/login/", WRONG)
    client.force_login(make_reader("ann", "maintainer"))
    page = client.get("/audit/").content.decode()
    assert "SIGN_IN_FAILED" in page
    assert 'title="from 203.0.113.9">not signed in' in page
