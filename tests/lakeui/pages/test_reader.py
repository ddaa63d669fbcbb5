"""A browser's stored preferences, and signing in."""

import re

import pytest
from django.conf import settings

from lakeui.pages.errors import server_error
from tests.lakeui.factories import make_user
from tests.lakeui.page_client import PageClient as Client


def test_a_theme_is_kept_and_drawn(client_for, lake):
    client = client_for("viewer")
    client.post("/preferences/", {"theme": "dark"})
    assert 'data-theme="dark"' in client.get("/tables/").content.decode()


@pytest.mark.parametrize("sheet", ["tokens.css", "components.css", "pages.css"])
def test_a_theme_chooses_among_colors_alone(sheet):
    """Therefore axe checks structure and size in one theme only."""
    text = (settings.BASE_DIR / "static" / sheet).read_text("utf-8")
    themed = re.findall(r"[^{}]*theme[^{}]*\{([^{}]*)\}", text)
    names = {line.split(":")[0].strip() for body in themed for line in body.split(";")}
    assert names <= {"color-scheme", ""}
    assert "prefers-color-scheme" not in text


def test_a_page_says_its_theme_by_an_attribute_and_shows_it_by_a_switch_alone():
    templates = settings.BASE_DIR / "templates"
    pages = [path for path in templates.rglob("*.html") if path.parent != templates / "admin"]
    lines = [line.strip() for path in pages for line in path.read_text("utf-8").splitlines()]
    themed = {line.rpartition("theme")[0] for line in lines if "theme" in line}
    switch, pressed = '<button type="submit" name="', 'aria-pressed="{% if frame.'
    assert themed == {'<html lang="en" data-theme="{{ frame.', switch, pressed}


def test_a_zone_applies_to_shown_and_to_entered_times(client_for, lake):
    client = client_for("viewer")
    client.post("/preferences/", {"zone": "local", "zone_name": "Asia/Tokyo"})
    body = client.get("/jobs/").content.decode()
    assert "Requested, JST" in body
    client.post("/preferences/", {"zone": "UTC"})
    assert "Requested, UTC" in client.get("/jobs/").content.decode()


@pytest.mark.parametrize("name", ["Mars/Olympus", "../../etc/passwd", "", "A" * 500])
def test_an_unknown_zone_is_not_stored(client_for, lake, name):
    client = client_for("viewer")
    client.post("/preferences/", {"zone": "local", "zone_name": name})
    assert "zone" not in client.cookies
    client.cookies["zone"] = "Mars/Olympus"
    assert "Requested, UTC" in client.get("/jobs/").content.decode()


def test_preferences_lead_back_but_never_away(client_for, lake):
    client = client_for("viewer")
    assert (
        client.post("/preferences/", {"next": "/jobs/?state=failed"})["Location"]
        == "/jobs/?state=failed"
    )
    assert client.post("/preferences/", {"next": "https://evil.example/"})["Location"] == "/"
    assert client.post("/preferences/", {"next": "//evil.example/"})["Location"] == "/"


def test_a_watched_table_is_in_the_sidebar_until_it_is_not(client_for, lake):
    client = client_for("viewer")
    client.post("/preferences/", {"watch": lake.table.pk})
    assert "Watched tables" in client.get("/jobs/").content.decode()
    client.post("/preferences/", {"watch": lake.table.pk})
    assert "Watched tables" not in client.get("/jobs/").content.decode()


@pytest.mark.parametrize("cookie", ["x.y", "9" * 400, "1.1.1", "\x00"])
def test_a_watch_list_that_was_tampered_with_shows_nothing(client_for, lake, cookie):
    client = client_for("stranger")
    client.cookies["watched"] = cookie
    body = client.get("/jobs/").content.decode()
    assert "sales.orders" not in body


def test_a_wrong_password_is_reported_without_saying_which_half_is_wrong(db):
    make_user("ops")
    response = Client().post("/login/", {"username": "ops", "password": "wrong"})
    assert response.status_code == 400
    body = response.content.decode()
    assert "That did not match" in body
    assert 'aria-invalid="true"' in body


def test_a_right_password_leads_to_the_requested_page(db):
    make_user("ops")
    fields = {"username": "ops", "password": "correct horse battery", "next": "/jobs/"}
    assert Client().post("/login/", fields)["Location"] == "/jobs/"


def test_a_form_without_its_token_is_reported_plainly(db):
    response = Client(enforce_csrf_checks=True).post("/login/", {"username": "ops"})
    assert response.status_code == 403
    assert "too old" in response.content.decode()


def test_an_error_on_our_side_is_drawn_without_the_database(rf):
    response = server_error(rf.get("/"))
    assert response.status_code == 500
    assert "has been logged" in response.content.decode()
