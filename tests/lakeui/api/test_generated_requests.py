"""Requests generated from the document: whatever is sent, no 5xx, and answers as documented."""

import pytest
import schemathesis
from django.core.signals import request_finished, request_started
from django.core.wsgi import get_wsgi_application
from django.db import close_old_connections
from hypothesis import HealthCheck, Phase, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
)

from lakeui.api.models import ApiToken
from lakeui.catalog.roles import Role
from tests.lakeui.people import make_conflict, make_job, make_table, person

schema = schemathesis.openapi.from_wsgi("/api/v1/schema/", get_wsgi_application())
CHECKS = [not_a_server_error, content_type_conformance, response_schema_conformance]


@pytest.fixture
def one_connection(db):
    """The test's transaction outlives requests: they must not close its connection."""
    signals = (request_started, request_finished)
    for signal in signals:
        signal.disconnect(close_old_connections)
    yield
    for signal in signals:
        signal.connect(close_old_connections)


@pytest.fixture
def token(one_connection, settings):
    settings.API_RATE_PERSON = "100000/min"
    admin = person("ann", "admin")
    table = make_table()
    make_conflict(table, make_job(table, admin))
    _, secret = ApiToken.objects.create(user=admin, name="x", role=Role.ADMIN)
    return secret


@schema.parametrize()
@settings(
    max_examples=12,
    deadline=None,
    derandomize=True,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
@pytest.mark.timeout(300)
def test_no_generated_request_breaks_the_api(case, token):
    response = case.call(headers={"Authorization": f"Bearer {token}"})
    case.validate_response(response, checks=CHECKS)
    if response.status_code >= 400:
        assert response.headers["content-type"] == ["application/problem+json"]
        assert response.json()["code"]
