"""Sign-on by OpenID Connect: admitted users, their accounts, and refusals."""

import base64
import hmac
import json
import time
from urllib.parse import parse_qs, urlsplit

import pytest
from auditlog.models import LogEntry
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command

from lakeui.catalog.access import role_of
from lakeui.catalog.roles import Role
from lakeui.sign_on.errors import SignOnError
from lakeui.sign_on.models import BrowserSession, LinkedIdentity
from lakeui.sign_on.openid import MAX_BYTES
from tests.lakeui.monitoring.webhook_server import run_hanging_webhook
from tests.lakeui.people import person
from tests.lakeui.sign_on.provider import CLIENT, OTHER_KEY

pytestmark = pytest.mark.django_db


def state_of(address):
    return parse_qs(urlsplit(address).query)["state"][0]


def session_user(client):
    return client.session.get("_auth_user_id")


def check_refusal(client, response, code, words, status=403):
    """Check that a plain page names the remedy and nobody is signed in."""
    page = response.content.decode()
    assert (response.status_code, session_user(client)) == (status, None)
    assert code in page
    assert words in page
    assert "Sign in again</a>" in page
    return page


def test_the_sign_in_page_offers_a_configured_provider(client, provider, settings):
    page = client.get("/login/?next=/jobs/").content.decode()
    assert 'href="/sign-on/?next=%2Fjobs%2F">Sign in with Example' in page
    settings.OIDC_ISSUER = ""
    assert "Sign in with" not in client.get("/login/").content.decode()
    assert client.get("/sign-on/").status_code == 404
    assert client.get("/sign-on/callback/").status_code == 404


def test_a_new_person_is_admitted_with_the_role_of_their_groups(client, come):
    response = come("/sign-on/?next=/jobs/")
    assert response.headers["Location"] == "/jobs/"
    ada = User.objects.get(username="ada")
    assert (session_user(client), ada.email) == (str(ada.pk), "ada@example.org")
    assert role_of(ada) is Role.OPERATOR
    assert not ada.has_usable_password()
    entry = LogEntry.objects.filter(content_type__model="user", actor=ada).first()
    assert entry.additional_data == {"did": "signed in by OpenID Connect"}
    assert BrowserSession.objects.get().way == "openid"
    assert client.session.get_expiry_age() <= 12 * 3600


def test_state_nonce_and_challenge_go_to_the_provider(client, provider):
    address = client.get("/sign-on/").headers["Location"]
    asked = parse_qs(urlsplit(address).query)
    assert asked["code_challenge_method"] == ["S256"]
    assert asked["client_id"] == [CLIENT]
    assert asked["redirect_uri"] == ["http://testserver/sign-on/callback/"]
    assert min(len(asked[name][0]) for name in ("state", "nonce", "code_challenge")) >= 20


def test_a_redirect_never_leads_to_another_site(come):
    assert come("/sign-on/?next=https://evil.example/").headers["Location"] == "/"


def test_the_role_follows_the_groups_at_each_sign_in(client, come, provider):
    come()
    provider.claims["groups"] = ["leads", "engineers"]
    come()
    ada = User.objects.get(username="ada")
    assert role_of(ada) is Role.ADMIN
    assert [group.name for group in ada.groups.all()] == ["admin"]
    provider.claims["groups"] = "guests"
    come()
    assert role_of(User.objects.get(pk=ada.pk)) is None
    assert User.objects.count() == 1


def test_groups_may_be_at_the_userinfo_endpoint_of_the_same_subject_alone(client, come, provider):
    del provider.claims["groups"]
    provider.userinfo = {"groups": ["engineers"], "sub": "s-2"}
    check_refusal(client, come(), "LAKE_SIGN_ON_TOKEN", "another subject")
    provider.userinfo = {"groups": ["engineers"]}
    come()
    assert role_of(User.objects.get(username="ada")) is Role.OPERATOR


def _sign_again(algorithm, sign):
    """Return a provider's token with another header, signed with a key that is not the provider's."""

    def spoil(provider):
        def token(form):
            status, answer = honest(form)
            _, claims, _ = answer["id_token"].split(".")
            said = f"{_base64(json.dumps({'alg': algorithm, 'kid': 'one'}).encode())}.{claims}"
            signature = _base64(sign(provider.key.as_pem(private=False), said.encode()))
            return status, answer | {"id_token": f"{said}.{signature}"}

        honest, provider.token = provider.token, token

    return spoil


def _base64(value):
    return base64.urlsafe_b64encode(value).rstrip(b"=").decode()


_none_signed = _sign_again("none", lambda *_: b"")
_signed_by_the_public_key = _sign_again("HS256", lambda key, text: hmac.digest(key, text, "sha256"))


SPOILED = {
    "wrong issuer": lambda p: p.spoiled.update(iss="https://other.example"),
    "wrong audience": lambda p: p.spoiled.update(aud="other"),
    "another party's among many": lambda p: p.spoiled.update(aud=["other", "more"], azp=CLIENT),
    "expired": lambda p: p.spoiled.update(exp=int(time.time()) - 3600),
    "of the future": lambda p: p.spoiled.update(nbf=int(time.time()) + 3600),
    "another nonce": lambda p: p.spoiled.update(nonce="x"),
    "no nonce": lambda p: p.spoiled.update(nonce=None),
    "no subject": lambda p: p.spoiled.update(sub=None),
    "wrong key": lambda p: setattr(p, "key", OTHER_KEY),
    "unknown key": lambda p: setattr(p, "header", {"alg": "RS256", "kid": "two"}),
    "no signature": _none_signed,
    "signed by the public key": _signed_by_the_public_key,
}


@pytest.mark.parametrize("spoil", SPOILED.values(), ids=SPOILED)
def test_a_token_that_is_not_the_issuers_for_this_sign_in_admits_nobody(
    client, come, provider, spoil
):
    spoil(provider)
    page = check_refusal(client, come(), "LAKE_SIGN_ON_TOKEN", "OIDC_ISSUER")
    assert "Nobody was signed in." in page
    assert not User.objects.exists()


def test_an_answer_that_this_browser_did_not_request_admits_nobody(client, come, provider):
    stranger = "/sign-on/callback/?code=code&state=forged"
    check_refusal(client, client.get(stranger), "LAKE_SIGN_ON_NOT_BEGUN", "cookies", 400)
    check_refusal(
        client, client.get("/sign-on/callback/"), "LAKE_SIGN_ON_NOT_BEGUN", "cookies", 400
    )
    back = provider.authorize(client.get("/sign-on/").headers["Location"])
    assert client.get(back).status_code == 302
    client.logout()
    check_refusal(client, client.get(back), "LAKE_SIGN_ON_NOT_BEGUN", "cookies", 400)


def test_a_code_without_its_verifier_is_refused_by_the_provider(client, provider):
    """With two tabs, the second challenge does not match the first verifier."""
    first = client.get("/sign-on/").headers["Location"]
    back = provider.authorize(first)
    provider.authorize(client.get("/sign-on/").headers["Location"])
    check_refusal(client, client.get(back), "LAKE_SIGN_ON_REFUSED", "no such code")


def test_a_refusal_of_the_provider_is_shown_in_its_words(client, provider):
    state = state_of(client.get("/sign-on/").headers["Location"])
    said = "error=access_denied&error_description=%3Cb%3Enot+you"
    address = f"/sign-on/callback/?{said}&state={state}"
    page = check_refusal(client, client.get(address), "LAKE_SIGN_ON_REFUSED", "&lt;b&gt;not you")
    assert "<b>not you" not in page
    check_refusal(client, client.get(address), "LAKE_SIGN_ON_NOT_BEGUN", "cookies", 400)


@pytest.mark.parametrize("said", ["error=x&error_description=Call+555", "code=c&iss=Call+555"])
@pytest.mark.parametrize("state", ["", "&state=", "&state=made-up"])
def test_a_link_puts_no_words_on_a_page_here(client, provider, said, state):
    client.get("/sign-on/")
    provider.answer = (500, {})  # nor is the provider asked
    answered = client.get(f"/sign-on/callback/?{said}{state}")
    page = check_refusal(client, answered, "LAKE_SIGN_ON_NOT_BEGUN", "cookies", 400)
    assert "555" not in page


def test_a_browser_keeps_the_sign_ins_it_began_last(client, provider):
    asked = [client.get("/sign-on/").headers["Location"] for _ in range(14)]
    kept = [key for key in dict(client.session) if key.startswith("_state_")]
    assert sorted(kept) == sorted(f"_state_openid_{state_of(one)}" for one in asked[-10:])
    assert client.get(provider.authorize(asked[-10])).status_code == 302


def test_an_answer_of_another_issuer_is_refused(client, provider):
    back = provider.authorize(client.get("/sign-on/").headers["Location"])
    check_refusal(
        client, client.get(f"{back}&iss=https://evil.example"), "LAKE_SIGN_ON_TOKEN", "evil"
    )


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda p: p.metadata.update(issuer="https://other.example"), "issuer is https://other"),
        (lambda p: p.metadata.update(jwks_uri=None), "lack jwks_uri"),
        (lambda p: setattr(p, "answer", (500, {})), "HTTPError"),
        (lambda p: setattr(p, "answer", (200, [1])), "cannot be read"),
    ],
    ids=["another name", "no keys", "an error", "another shape"],
)
def test_a_provider_with_invalid_answers_admits_nobody(client, provider, spoil, words):
    spoil(provider)
    page = client.get("/sign-on/")
    check_refusal(client, page, "LAKE_SIGN_ON_UNAVAILABLE", words, 503)


def test_a_provider_that_sends_without_end_fills_no_memory(client, provider):
    provider.answer = (200, {"issuer": "x" * (MAX_BYTES + 1)})
    page = client.get("/sign-on/")
    check_refusal(client, page, "LAKE_SIGN_ON_UNAVAILABLE", "ConnectionError", 503)


@pytest.mark.timeout(20)
@pytest.mark.parametrize("drip", [b"", b"HTTP/1.1 200 OK\r\nX: x", b"H"])
def test_a_provider_that_drips_is_cut_off(client, provider, settings, drip):
    settings.OIDC_TIMEOUT_SECONDS = 0.3
    with run_hanging_webhook(drip) as url:
        settings.OIDC_ISSUER = url
        check_refusal(client, client.get("/sign-on/"), "LAKE_SIGN_ON_UNAVAILABLE", "provider", 503)


@pytest.mark.parametrize("subject", ["x" * 256, "a\0b", ["s-1"], {"a": 1}, True, ""])
def test_a_subject_that_cannot_be_stored_admits_nobody(client, come, provider, subject):
    provider.claims["sub"] = subject
    check_refusal(client, come(), "LAKE_SIGN_ON_TOKEN", "refused")
    assert not LinkedIdentity.objects.exists()


@pytest.mark.parametrize(
    "email", ["a@" + "b" * 300 + ".example", "no address", "a\0@b.example", [1]]
)
def test_an_invalid_address_is_not_stored(client, come, provider, email):
    provider.claims["email"] = email
    assert come().status_code == 302
    assert (User.objects.get().email, LinkedIdentity.objects.get().email) == ("", "")


def test_a_name_without_a_group_may_be_anything(client, come, provider):
    provider.claims |= {"groups": ["choir"], "preferred_username": "a\0" + "b" * 10_000}
    page = check_refusal(client, come(), "LAKE_SIGN_ON_NO_GROUP", "SIGN_ON_ROLES")
    assert "b" * 200 not in page


def test_groups_of_other_shapes_and_in_thousands_are_no_role_by_accident(client, come, provider):
    for groups in ({"engineers": 1}, [["engineers"]], [None], 7, "leads,engineers"):
        provider.claims["groups"] = groups
        check_refusal(client, come(), "LAKE_SIGN_ON_NO_GROUP", "SIGN_ON_ROLES")
    provider.claims["groups"] = [f"group-{number}" for number in range(10_000)] + ["engineers"]
    check_refusal(client, come(), "LAKE_SIGN_ON_TOKEN", "size exceeds")


def test_thousands_of_groups_neither_hide_one_nor_make_the_sign_out_too_long(
    client, come, provider
):
    provider.claims["groups"] = [f"group-{number}" for number in range(3_000)] + ["engineers"]
    assert come().status_code == 302
    assert role_of(User.objects.get()) is Role.OPERATOR
    page = client.post("/logout/").content.decode()
    assert f"{provider.issuer}/end?client_id=lakeui" in page
    assert "id_token_hint" not in page


def test_a_person_in_no_mapped_group_is_not_admitted(client, come, provider):
    provider.claims["groups"] = ["choir"]
    check_refusal(client, come(), "LAKE_SIGN_ON_NO_GROUP", "SIGN_ON_ROLES")
    provider.claims["groups"] = None
    check_refusal(client, come(), "LAKE_SIGN_ON_NO_GROUP", "configure the provider to send groups")
    assert not User.objects.exists()


def test_a_person_who_left_every_group_loses_the_role_for_tokens_too(client, come, provider):
    come()
    client.logout()
    provider.claims["groups"] = ["choir"]
    check_refusal(client, come(), "LAKE_SIGN_ON_NO_GROUP", "SIGN_ON_ROLES")
    assert role_of(User.objects.get(username="ada")) is None


def test_an_existing_local_name_is_not_taken_over(client, come, provider, capsys):
    ada = person("Ada", "admin")
    check_refusal(client, come(), "LAKE_SIGN_ON_NAME_TAKEN", "link_identity ada")
    assert not LinkedIdentity.objects.exists()
    entry = LogEntry.objects.filter(content_type__model="user", object_pk=str(ada.pk)).first()
    assert entry.additional_data == {"refused": "LAKE_SIGN_ON_NAME_TAKEN"}
    call_command("link_identity", "Ada", subject="s-1")
    assert "s-1" in capsys.readouterr().out
    come()
    assert session_user(client) == str(ada.pk)
    assert role_of(User.objects.get(pk=ada.pk)) is Role.OPERATOR


def test_a_name_that_differs_in_case_or_unicode_form_exists_too(client, come, provider):
    person("ada", "admin")
    provider.claims["preferred_username"] = "\uff21\uff24\uff21"  # normalized: ADA
    check_refusal(client, come(), "LAKE_SIGN_ON_NAME_TAKEN", "link_identity ADA")
    assert User.objects.count() == 1


def test_a_subject_is_linked_to_one_account(provider):
    person("ada")
    person("bob")
    call_command("link_identity", "ada", subject="s-1")
    with pytest.raises(CommandError, match="already exists"):
        call_command("link_identity", "bob", subject="s-1")
    call_command("link_identity", "ada", subject="s-1", remove=True)
    call_command("link_identity", "bob", subject="s-1")
    assert LinkedIdentity.objects.get().user.username == "bob"


def test_another_subject_with_the_same_name_and_address_is_another_person(client, come, provider):
    come()
    client.logout()
    provider.claims["sub"] = "s-2"
    check_refusal(client, come(), "LAKE_SIGN_ON_NAME_TAKEN", "s-2")


def test_a_changed_address_waits_for_an_administrator_or_follows(client, come, provider, settings):
    come()
    client.logout()
    provider.claims["email"] = "eve@example.org"
    check_refusal(client, come(), "LAKE_SIGN_ON_EMAIL_CHANGED", "OIDC_FOLLOW_EMAIL")
    assert User.objects.get().email == "ada@example.org"
    settings.OIDC_FOLLOW_EMAIL = True
    come()
    assert (User.objects.get().email, bool(session_user(client))) == ("eve@example.org", True)


def test_an_unverified_address_identifies_nobody(come, provider):
    provider.claims["email_verified"] = False
    come()
    assert User.objects.get().email == ""


def test_a_disabled_account_stays_out(client, come):
    come()
    client.logout()
    User.objects.update(is_active=False)
    check_refusal(client, come(), "LAKE_SIGN_ON_DISABLED", "activate it")


def test_a_name_that_no_account_can_have_is_refused(client, come, provider):
    provider.claims["preferred_username"] = "a da<script>"
    page = check_refusal(client, come(), "LAKE_SIGN_ON_NAME", "OIDC_USERNAME_CLAIM")
    assert "<script>" not in page.replace("</script>", "").split("<body>")[1]


def test_signing_out_here_leads_to_signing_out_at_the_provider(client, come, provider):
    come()
    page = client.post("/logout/").content.decode()
    assert session_user(client) is None
    assert f'content="0; url={provider.issuer}/end?client_id={CLIENT}&amp;id_token_hint=' in page
    assert "post_logout_redirect_uri=http%3A%2F%2Ftestserver%2Flogin%2F" in page
    person("local")
    client.post("/login/", {"username": "local", "password": "correct horse"})
    assert client.post("/logout/").headers["Location"] == "/login/"


def test_a_refusal_names_the_remedy():
    kinds = SignOnError.__subclasses__()
    assert len({kind.code for kind in kinds} | {SignOnError.code}) == len(kinds)
    assert all(kind.title != SignOnError.title and kind.__doc__ for kind in kinds)
