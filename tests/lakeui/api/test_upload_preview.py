"""The preview of an uploaded file over REST, and a table with the previewed types."""

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile

from lakeui.jobs.models import Job
from tests.lakeui.api.problem import problem


@pytest.fixture
def preview(client_for):
    def request_preview(query="", who="maintainer", content=b"id,code\n1,007\n2,x\n"):
        file = {"file": SimpleUploadedFile("rows.csv", content)}
        sent = client_for("maintainer").post("/api/v1/uploads/", file, format="multipart").json()
        return client_for(who).get(f"/api/v1/uploads/{sent['id']}/preview/{query}")

    return request_preview


def test_a_table_has_the_types_that_the_preview_showed(client_for, preview):
    said = preview("?type=code%3DINT&bad_rows=null").json()
    assert [column["type"] for column in said["columns"]] == ["BIGINT", "INT"]
    assert [(row["values"], row["fate"]) for row in said["rows"]] == [
        (["1", "7"], ""),
        (["2", "x"], "nulled"),
    ]
    body = {"name": "new.one", "create": said["parameters"]}
    assert client_for("maintainer").post("/api/v1/tables/", body, format="json").status_code == 202
    assert Job.objects.get().parameters["schema"]["fields"][1]["type"] == "integer"


def test_a_type_that_cannot_be_is_a_problem_of_its_column(preview):
    said = preview("?type=code%3Dnonsense").json()
    assert said["parameters"] is None
    assert "is not a type" in said["columns"][1]["problem"]


@pytest.mark.parametrize("query", ["?type=code", "?delimiter=", "?quote=ab", "?bad_rows=pray"])
def test_a_question_that_means_nothing_is_refused(preview, query):
    problem(preview(query), 422)


def test_a_file_that_is_no_text_is_refused(preview):
    problem(preview(content=b"a\n\xff\n"), 422)


def test_another_persons_file_is_not_there(preview):
    problem(preview(who="operator"), 404)
