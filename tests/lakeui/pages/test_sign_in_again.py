"""An expired session leads to sign-in and back, never into a fragment of a page."""

from urllib.parse import parse_qs, urlsplit

from django.test import Client

HTMX = {"HX-Request": "true"}
PAGE = "http://testserver/jobs/new/?table=1"


def _next(address):
    return parse_qs(urlsplit(address).query)["next"]


def test_a_fragment_sends_the_whole_page_to_sign_in_and_back(client, db):
    for send in (client.get, client.post):
        answer = send("/jobs/new/", headers={**HTMX, "HX-Current-URL": PAGE})
        assert (answer.status_code, answer.content) == (204, b"")
        assert _next(answer["HX-Redirect"]) == ["/jobs/new/?table=1"]


def test_a_sent_form_returns_to_its_page(client, db):
    answer = client.post("/jobs/new/", headers={"Referer": PAGE})
    assert _next(answer["Location"]) == ["/jobs/new/?table=1"]


def test_a_page_of_another_site_is_no_place_to_come_back_to(client, db):
    for address in ("https://evil.example/x", "//evil.example", "javascript:alert(1)", ""):
        answer = client.get("/jobs/new/", headers={**HTMX, "HX-Current-URL": address})
        assert _next(answer["HX-Redirect"]) == ["/jobs/new/"], address


def test_a_plain_page_is_as_django_answers_it(client, db):
    assert _next(client.get("/jobs/new/?table=1")["Location"]) == ["/jobs/new/?table=1"]


def test_a_form_too_old_leads_back_to_its_page_and_to_no_other_site(db):
    strict = Client(enforce_csrf_checks=True)
    answer = strict.post("/jobs/new/", headers={"Referer": PAGE})
    assert (answer.status_code, b'href="/jobs/new/?table=1"' in answer.content) == (403, True)
    answer = strict.post("/jobs/new/", headers={**HTMX, "HX-Current-URL": PAGE})
    assert (answer.status_code, answer["HX-Redirect"]) == (204, "/jobs/new/?table=1")
    for address in ("https://evil.example/x", "//evil.example", "javascript:alert(1)", ""):
        for headers in ({"Referer": address}, {**HTMX, "HX-Current-URL": address}):
            answer = strict.post("/jobs/new/", headers=headers)
            assert (answer.status_code, b"Back to the form" in answer.content) == (403, False)
