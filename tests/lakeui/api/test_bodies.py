"""Bodies that are too large: refused before they are stored, for every client."""

import asyncio
import json

import pytest

from lakeui.api.bodies import limit_of
from lakeui.asgi import application

FOREVER = 10**6


@pytest.fixture(autouse=True)
def _small(settings):
    settings.DATA_UPLOAD_MAX_MEMORY_SIZE = 1000
    settings.MAX_UPLOAD_BYTES = 5000


def post(path, pieces, **headers):
    """Post a body; return the application's answer and how many pieces of the body it read."""
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "root_path": "",
        "headers": [(b"host", b"localhost"), (b"content-type", b"application/json")]
        + [(name.encode(), value.encode()) for name, value in headers.items()],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 80),
    }
    taken, sent = 0, []

    async def receive():
        nonlocal taken
        if taken >= len(pieces):
            await asyncio.Event().wait()
        taken += 1
        more = taken < len(pieces)
        return {"type": "http.request", "body": pieces[taken - 1], "more_body": more}

    async def send(message):
        sent.append(message)

    asyncio.run(application(scope, receive, send))
    return sent[0], b"".join(part.get("body", b"") for part in sent[1:]), taken


def test_a_declared_length_over_the_limit_is_refused_without_reading():
    start, body, taken = post("/api/v1/tables/", [b"x"], **{"content-length": "1001"})
    assert (start["status"], taken) == (413, 0)
    headers = {name.decode(): value.decode() for name, value in start["headers"]}
    answer = json.loads(body)
    assert headers["content-type"] == "application/problem+json"
    assert (answer["code"], answer["request_id"]) == ("REQUEST_TOO_LARGE", headers["x-request-id"])


def test_a_body_without_a_length_is_refused_while_it_arrives():
    start, _, taken = post("/api/v1/tables/", [b"x" * 100] * FOREVER)
    assert (start["status"], taken) == (413, 11)


def test_a_page_says_it_in_plain_text():
    start, body, _ = post("/login/", [b"x"], **{"content-length": "99999999"})
    assert (start["status"], body) == (413, b"The body is larger than 1000 bytes.\n")


def test_a_body_within_the_limit_reaches_the_application(db):
    start, body, taken = post("/api/v1/nowhere/", [b"x" * 500, b"x" * 500])
    assert (start["status"], json.loads(body)["code"], taken) == (404, "NOT_FOUND", 2)


@pytest.mark.parametrize(
    ("path", "takes_files"),
    [
        ("/api/v1/uploads/", True),
        ("/tables/upload/", True),
        ("/jobs/new/", True),
        ("/api/v1/tables/", False),
        ("/api/v1/uploads/x/", False),
        ("/x/jobs/new/", False),
    ],
)
def test_only_addresses_for_files_accept_large_bodies(path, takes_files):
    assert (limit_of(path) > 5000) == takes_files
