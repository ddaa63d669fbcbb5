"""The OpenAPI document: valid, complete, and served with pages that render it offline."""

import re

import pytest
from drf_spectacular.validation import validate_schema
from rest_framework import serializers

from lakeui.api.urls import urlpatterns


@pytest.fixture
def document(client, db):
    return client.get("/api/v1/schema/", headers={"Accept": "application/json"}).json()


def test_the_document_is_valid_openapi_3_1(document):
    assert document["openapi"].startswith("3.1")
    validate_schema(document)


def test_the_openapi_document_is_made_without_a_warning(capfd, client, db):
    client.get("/api/v1/schema/")
    told = [
        line for line in capfd.readouterr().err.splitlines() if "Warning" in line or "Error" in line
    ]
    assert told == []


def test_every_address_is_in_it(document):
    drawn = {"docs/", "redoc/"}
    shapes = {
        re.sub(r"<\w+:(\w+)>", r"{\1}", str(route.pattern))
        for route in urlpatterns
        if not str(route.pattern).startswith("^")
    }
    assert set(document["paths"]) == {f"/api/v1/{shape}" for shape in shapes - drawn}


def test_every_operation_documents_its_problems_and_itself(document):
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            problem = operation["responses"]["default"]["content"]
            assert "application/problem+json" in problem, (path, method)
            assert operation.get("description"), (path, method)


def _serializers(kind=serializers.Serializer):
    for serializer in kind.__subclasses__():
        if serializer.__module__.startswith("lakeui"):
            yield serializer
        yield from _serializers(serializer)


def test_no_two_fields_of_an_answer_have_one_value():
    faults = [
        f"{serializer.__name__}.{name}"
        for serializer in _serializers()
        for fields in [serializer().fields]
        for name, field in fields.items()
        if field.source != name and field.source in fields
    ]
    assert not faults


def test_bytes_and_rows_are_int64_text_in_it(document):
    size = document["components"]["schemas"]["Table"]["properties"]["size_bytes"]
    assert (size["type"], size["format"]) == ("string", "int64")


def test_the_openapi_document_is_served_as_yaml(client, db):
    response = client.get("/api/v1/schema/", headers={"Accept": "application/vnd.oai.openapi"})
    assert response.text.startswith("openapi: 3.1")


@pytest.mark.parametrize("path", ["docs/", "redoc/"])
def test_the_pages_hold_nothing_inline_and_nothing_from_elsewhere(client, db, path):
    response = client.get(f"/api/v1/{path}")
    assert not re.search(
        r"<script(?![^>]*\bsrc=)|<style|\sstyle=|\son\w+=|https?://", response.text
    )
    policy = response.headers["Content-Security-Policy"]
    assert "unsafe" not in policy
    assert re.search(r"script-src 'self'(;|$)", policy)
    for address in re.findall(r'(?:src|href)="(/static/[^"]+)"', response.text):
        file = client.get(address)
        assert file.status_code == 200
        file.close()
