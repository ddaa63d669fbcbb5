"""Log lines: JSON with context, and without secrets."""

import io
import json
import logging
import logging.config

import pytest
import structlog
from django.conf import settings

from lakeui.monitoring.log_lines import configure, redact_text

SECRETS = [
    ("token lake_1f2e3d4c5b6a", "1f2e3d"),
    ("Authorization: Bearer abcdef.123456", "abcdef"),
    ("GET /login/eyJub25jZSI6MX0:1abc/", "eyJub25j"),
    ("cannot reach postgres://lakeui:hunter22@db:5432/lake", "hunter22"),
    ("redis://:hunter22@redis:6379/0", "hunter22"),
    ("{'aws_secret_access_key': 'hunter22'}", "hunter22"),
    ("azure_storage_account_key=hunter22;x", "hunter22"),
    ("bad fs.s3a.secret.key=hunter22 and fs.azure.account.key.x: hunter22", "hunter22"),
    ("https://b.s3.amazonaws.com/k?X-Amz-Signature=hunter22&X-Amz-Date=1", "hunter22"),
    ("GET /sign-on/callback/?code=hunter22&state=s", "hunter22"),
    ("https://a.blob.core.windows.net/c/k?sv=1&sig=hunter22%3D", "hunter22"),
]


@pytest.fixture
def lines():
    """Yield the lines that a logger of this configuration writes, as JSON."""
    stream = io.StringIO()
    config = configure("INFO", as_json=True)
    config["handlers"]["console"]["stream"] = stream
    logging.config.dictConfig(config)
    yield lambda: [json.loads(line) for line in stream.getvalue().splitlines()]
    logging.config.dictConfig(settings.LOGGING)


def test_a_line_says_when_where_and_of_which_job(lines):
    with structlog.contextvars.bound_contextvars(job_id="j1", attempt=2):
        logging.getLogger("workers.job_run").warning("The lease of %s is gone", "j1")
        structlog.get_logger("lakeui").info("request_finished", code=200)
    old, new = lines()
    assert (old["event"], old["level"], old["logger"]) == (
        "The lease of j1 is gone",
        "warning",
        "workers.job_run",
    )
    assert (old["job_id"], old["attempt"], new["job_id"], new["code"]) == ("j1", 2, "j1", 200)
    assert old["timestamp"].endswith("Z")


def test_an_exception_is_part_of_its_line_and_reveals_no_secret(lines):
    try:
        msg = "no answer from redis://:hunter22@redis:6379/0"
        raise ValueError(msg)
    except ValueError:
        logging.getLogger("lakeui").exception("It failed")
    [line] = lines()
    assert "ValueError: no answer from redis://…@redis:6379/0" in line["exception"]


@pytest.mark.parametrize(("text", "secret"), SECRETS)
def test_no_secret_is_left_in_a_line(text, secret):
    assert secret not in redact_text(text)
    assert redact_text(redact_text(text)) == redact_text(text)


@pytest.mark.parametrize(
    "text",
    ["GET /login/", "s3://lake/sales/orders", "https://host:8000/a@b", "lake_ui", "at 12:30:01"],
)
def test_values_that_are_no_secret_stay_in_a_log_line(text):
    assert redact_text(text) == text


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    "piece", ["a", "://a", "a:", "password", "secret=", "bearer ", "lake_", "/login/", "-", "é"]
)
def test_a_long_line_costs_no_more_than_its_length(piece):
    assert len(redact_text(piece * 200_000)) <= 64 * 1024 + 1


def test_the_calls_between_python_and_java_are_no_news(lines):
    logging.getLogger("py4j.clientserver").info("Received command c on object id p2")
    logging.getLogger("py4j.java_gateway").warning("Callback Connection is gone")
    assert [line["event"] for line in lines()] == ["Callback Connection is gone"]
