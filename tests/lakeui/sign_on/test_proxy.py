"""Users named by a proxy's header: accepted only from a proxy in the settings."""

import pytest
from auditlog.models import LogEntry
from django.contrib.auth.models import AnonymousUser, User
from django.core.exceptions import ImproperlyConfigured
from django.core.handlers.asgi import ASGIRequest
from django.core.management import call_command
from django.http import HttpResponse

from lakeui.catalog.access import role_of
from lakeui.catalog.roles import Role
from lakeui.sign_on.configuration import check
from lakeui.sign_on.models import BrowserSession
from lakeui.sign_on.proxy import ProxyMiddleware
from tests.lakeui.page_client import PageClient
from tests.lakeui.people import person

pytestmark = pytest.mark.django_db
PROXY, STRANGER = "10.1.2.3", "10.9.9.9"


@pytest.fixture
def proxy(settings):
    settings.PROXY_USER_HEADER = "X-Forwarded-User"
    settings.PROXY_GROUPS_HEADER = "X-Forwarded-Groups"
    settings.PROXY_ADDRESSES = ["10.1.0.0/16", "::1"]
    settings.SIGN_ON_ROLES = {"engineers": "operator", "leads": "admin"}
    check()


def ask(client, address="/tables/", user="ada", groups="engineers", peer=PROXY, **more):
    headers = {"X-Forwarded-User": user, "X-Forwarded-Groups": groups} if user else {}
    return client.get(address, REMOTE_ADDR=peer, headers=headers | more)


def test_a_user_named_by_a_trusted_proxy_is_signed_in_with_the_role_of_their_groups(client, proxy):
    assert ask(client).status_code == 200
    ada = User.objects.get()
    assert (ada.username, role_of(ada), ada.has_usable_password()) == ("ada", Role.OPERATOR, False)
    assert ask(client, "/jobs/", peer="::ffff:10.1.2.3").status_code == 200
    assert BrowserSession.objects.get().way == "proxy"
    did = [entry.additional_data for entry in LogEntry.objects.filter(content_type__model="user")]
    assert did.count({"did": "signed in by a proxy"}) == 1


@pytest.mark.parametrize("peer", [STRANGER, "", "testclient", "127.0.0.1"])
def test_the_header_from_any_other_peer_is_ignored(client, proxy, peer):
    response = ask(client, peer=peer)
    assert response.headers["Location"] == "/login/?next=/tables/"
    assert not User.objects.exists()


def test_a_header_that_a_client_forwards_makes_no_peer_a_proxy(client, proxy, settings):
    settings.TRUSTED_PROXIES = 1
    response = ask(client, peer=STRANGER, **{"X-Forwarded-For": PROXY})
    assert response.status_code == 302


def test_the_header_is_off_unless_addresses_are_named(client, proxy, settings):
    settings.PROXY_USER_HEADER, settings.PROXY_ADDRESSES = "", []
    check()
    assert ask(client).status_code == 302
    for header, addresses in (("X-Forwarded-User", []), ("", [PROXY])):
        settings.PROXY_USER_HEADER, settings.PROXY_ADDRESSES = header, addresses
        with pytest.raises(ImproperlyConfigured, match="belong together"):
            check()


def test_a_session_ends_where_the_proxy_names_nobody_or_another_user(client, proxy):
    ask(client)
    assert ask(client, user="").status_code == 302
    ask(client)
    ask(client, user="bob")
    assert client.session["_auth_user_id"] == str(User.objects.get(username="bob").pk)


def test_other_groups_give_another_role_at_once(client, proxy):
    ask(client)
    ask(client, groups="choir, leads")
    assert role_of(User.objects.get()) is Role.ADMIN
    page = ask(client, groups="choir")
    assert (page.status_code, role_of(User.objects.get())) == (403, None)
    assert "LAKE_SIGN_ON_NO_GROUP" in page.content.decode()
    assert "_auth_user_id" not in client.session


def test_a_local_account_is_not_taken_over_by_its_name(client, proxy):
    ada = person("ada", "admin")
    page = ask(client)
    assert page.status_code == 403
    assert "LAKE_SIGN_ON_NAME_TAKEN" in page.content.decode()
    call_command("link_identity", "ada", issuer="proxy", subject="ada")
    ask(client)
    assert client.session["_auth_user_id"] == str(ada.pk)


def test_a_disabled_account_stays_out_from_its_next_request_on(client, proxy):
    ask(client)
    User.objects.update(is_active=False)
    assert ask(client).status_code == 403
    assert "LAKE_SIGN_ON_DISABLED" in ask(client).content.decode()
    assert ask(client, "/api/v1/tables/").status_code == 401


def test_a_program_with_a_token_is_the_tokens_person(proxy):
    client = PageClient()
    answer = ask(client, "/api/v1/tables/", Authorization="Bearer lake_nobodys")
    assert answer.status_code == 401
    assert not User.objects.exists()


def test_a_header_of_authorization_neither_keeps_out_nor_in_on_pages(client, proxy):
    """Some proxies add this header to every request."""
    more = {"Authorization": "Bearer of-the-proxy"}
    assert ask(client, **more).status_code == 200
    assert client.get("/tables/", REMOTE_ADDR=PROXY, headers=more).status_code == 302


def test_a_header_with_underscores_is_not_the_proxys():
    """Proxies remove `X-Forwarded-User` from clients' requests, but some let `X_Forwarded_User` pass."""
    scope = {"type": "http", "method": "GET", "path": "/tables/", "client": (PROXY, 1)}
    for name, is_read in ((b"x-forwarded-user", True), (b"x_forwarded_user", False)):
        request = ASGIRequest(scope | {"headers": [(name, b"ada")]}, None)
        assert ("X-Forwarded-User" in request.headers) is is_read


@pytest.mark.parametrize("name", [b"x-forwarded-user", b"x-forwarded-groups"])
def test_a_repeated_header_admits_nobody(client, proxy, name):
    """A proxy may add its header to the client's, and Django joins both by a comma."""
    headers = [(b"x-forwarded-user", b"ada"), (b"x-forwarded-groups", b"engineers")]
    scope = {"type": "http", "method": "GET", "path": "/tables/", "client": (PROXY, 1)}
    request = ASGIRequest(scope | {"headers": [(name, b"leads"), *headers]}, None)
    request.session, request.user = client.session, AnonymousUser()
    answered = ProxyMiddleware(lambda _: HttpResponse("in"))(request)
    assert answered.status_code == 400
    assert "LAKE_SIGN_ON_HEADER_TWICE" in answered.content.decode()
    assert not User.objects.exists()


def test_groups_in_another_order_begin_no_other_session(client, proxy):
    ask(client, groups="engineers, choir")
    before = client.session.session_key
    ask(client, groups="choir,engineers,")
    assert client.session.session_key == before


def test_a_proxys_address_may_be_written_as_ipv6_has_it(client, proxy, settings):
    settings.PROXY_ADDRESSES = ["::ffff:10.1.2.3"]
    assert ask(client).status_code == 200
    assert ask(PageClient(), peer="10.1.2.4").status_code == 302


@pytest.mark.parametrize("user", ["a\0b", "a" * 256, "ada,root"])
def test_a_name_that_no_account_can_have_is_a_page(client, proxy, user):
    answered = ask(client, user=user)
    assert "LAKE_SIGN_ON_NAME" in answered.content.decode()
    assert not User.objects.exists()


def test_a_refused_person_who_reloads_is_logged_once_an_hour(client, proxy):
    ada = person("ada")
    for address in ("/tables/", "/jobs/", "/tables/") * 3:
        assert ask(client, address).status_code == 403
    refusals = LogEntry.objects.filter(object_pk=str(ada.pk), additional_data__has_key="refused")
    assert [entry.remote_addr for entry in refusals] == [PROXY]
    ask(client, peer="10.1.99.99")
    assert refusals.all().count() == 2


def test_a_header_that_is_no_token_does_not_replace_the_proxys_user(client, proxy):
    basic = {"Authorization": "Basic YWRhOng="}
    ask(client)
    assert ask(client, "/api/v1/tables/", **basic).status_code == 200
    assert ask(client, "/api/v1/tables/", user="", peer=STRANGER, **basic).status_code == 401
    ask(client)
    ask(client, "/api/v1/tables/", user="bob", **basic)
    assert client.session["_auth_user_id"] == str(User.objects.get(username="bob").pk)
