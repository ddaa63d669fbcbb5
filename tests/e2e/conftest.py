import os
import shutil

import pytest
from django.conf import global_settings, settings
from django.contrib.auth.models import User
from django.db import connections
from django.test import Client
from django.test.utils import override_settings, teardown_databases
from playwright.sync_api import expect, sync_playwright

from tests.e2e.server import run_server
from tests.lakeui.factories import Story
from tests.migrated import set_up_databases

CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
PASSWORD = "correct horse battery"
expect.set_options(timeout=20_000)  # a busy machine is no fault


@pytest.fixture(scope="session")
def browser():
    if CHROMIUM is None:
        reason = "Chromium is missing: apt-get install chromium, or name one with CHROMIUM."
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture(scope="session")
def story(browser, django_test_environment, django_db_blocker):
    """Run one lake for all journeys; each journey uses rows that no other one touches."""
    with django_db_blocker.unblock():
        old = set_up_databases()
        with override_settings(PASSWORD_HASHERS=global_settings.PASSWORD_HASHERS):
            lake = Story()  # the server knows the real hashers alone
        yield lake
        connections.close_all()
        teardown_databases(old, verbosity=0)


@pytest.fixture(scope="session")
def address(story, tmp_path_factory):
    with run_server(tmp_path_factory.mktemp("server") / "server.log") as url:
        yield url


@pytest.fixture
def context(browser, address):
    opened = browser.new_context(base_url=address, accept_downloads=True)
    opened.grant_permissions(["clipboard-read", "clipboard-write"], origin=address)
    opened.set_default_timeout(15_000)
    yield opened
    opened.close()


# Console messages of an intact page: a test checks refused requests itself, and leaving
# a page aborts its requests (htmx reports every request without an answer twice, first as
# afterRequest, then by its reason).
EXPECTED_LINES = ("Failed to load resource", "htmx:sendAbort", "htmx:afterRequest")


def is_expected(text):
    return any(line in text for line in EXPECTED_LINES)


@pytest.fixture
def page(context):
    """Yield a page; fail the test if the browser reports an error."""
    faults = []
    opened = context.new_page()
    opened.on("pageerror", lambda error: faults.append(str(error)))
    opened.on(
        "console",
        lambda line: (
            faults.append(line.text)
            if line.type == "error" and not is_expected(line.text)
            else None
        ),
    )
    yield opened
    assert faults == []


@pytest.fixture(scope="session")
def session_key(story):
    """Return the session of a signed-in operator; only the tests of the sign-in form use the form."""
    client = Client()
    client.force_login(User.objects.get(username="ops-oncall"))
    return client.session.session_key


@pytest.fixture
def overview_page(page, context, address, session_key):
    context.add_cookies(
        [{"name": settings.SESSION_COOKIE_NAME, "value": session_key, "url": address}]
    )
    page.goto("/")
    expect(page.get_by_role("heading", name="Overview")).to_be_visible()
    return page
