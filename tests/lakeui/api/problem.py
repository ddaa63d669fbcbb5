"""The required form of every answer that is not a success."""

FIELDS = {"type", "title", "status", "code", "detail", "instance", "request_id"}


def problem(response, status, code=None):
    """Return the problem document of a response, after checking its form."""
    assert response.status_code == status, response.content[:500]
    assert response.headers["Content-Type"] == "application/problem+json"
    body = response.json()
    assert body.keys() >= FIELDS
    assert body["status"] == status
    assert body["request_id"] == response.headers["X-Request-ID"] != ""
    assert "Traceback" not in response.text
    if code is not None:
        assert body["code"] == code
    return body
