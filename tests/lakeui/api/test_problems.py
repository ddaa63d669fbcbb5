"""RFC 9457 for every answer that is not a success."""

import errno
import json

import pytest
from django.test import Client, RequestFactory
from rest_framework import exceptions
from rest_framework.request import Request

from engine import errors as engine_errors
from engine.delta.exceptions import jvm_exceptions
from lakeui.api.problems import handle_exception, problem_of
from lakeui.jobs import errors as job_errors
from tests.lakeui.api.problem import problem

FACTS = engine_errors.ConflictFacts(
    table="sales.orders",
    read_version=5,
    attempted_version=8,
    rule="added_files",
    subclass="WITH_PARTITION_HINT",
    current=engine_errors.ConflictSide("UPDATE", read_version=5),
    winner=engine_errors.ConflictSide("DELETE", version=7),
    what="Version 7 (DELETE) added 3 files.",
)


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (engine_errors.RequestError("No.", field="where"), 422, "LAKE_INVALID_REQUEST"),
        (engine_errors.UnknownColumnError("No x."), 422, "UNRESOLVED_COLUMN"),
        (engine_errors.TableNotFoundError("Gone."), 404, "DELTA_TABLE_NOT_FOUND"),
        (engine_errors.VersionNotFoundError("t", 9, 0, 2), 404, "DELTA_VERSION_NOT_FOUND"),
        (engine_errors.TableExistsError("Twice."), 409, "DELTA_TABLE_ALREADY_EXISTS"),
        (engine_errors.PathOutsideRootError("Out."), 422, "LAKE_PATH_OUTSIDE_ROOT"),
        (engine_errors.AppendOnlyError("No."), 409, "DELTA_CANNOT_MODIFY_APPEND_ONLY"),
        (engine_errors.CommitOutcomeUnknownError("?"), 502, "LAKE_COMMIT_OUTCOME_UNKNOWN"),
        (engine_errors.StorageOutcomeUnknownError("?"), 502, "LAKE_STORAGE_OUTCOME_UNKNOWN"),
        (engine_errors.StorageError("Down."), 503, "LAKE_STORAGE_ERROR"),
        (engine_errors.MaxCommitRetriesError("Lost."), 409, "DELTA_MAX_COMMIT_RETRIES_EXCEEDED"),
        (engine_errors.ConcurrentAppendException(FACTS), 409, "DELTA_CONCURRENT_APPEND"),
        (engine_errors.ProtocolChangedException(FACTS), 409, "DELTA_PROTOCOL_CHANGED"),
        (job_errors.ReadOnlyError(), 403, "LAKE_READ_ONLY"),
        (job_errors.NotPermittedError("restore", "admin", "t"), 403, "LAKE_NOT_PERMITTED"),
        (job_errors.JobStateError("retried", "running"), 409, "LAKE_JOB_STATE"),
        (job_errors.IdempotencyMismatchError("k"), 422, "LAKE_IDEMPOTENCY_KEY_REUSED"),
        (exceptions.ValidationError({"a": {"b": ["bad"]}}), 422, "INVALID_REQUEST"),
        (exceptions.Throttled(wait=3), 429, "THROTTLED"),
        (ZeroDivisionError("secret"), 500, "INTERNAL_ERROR"),
        (OSError(errno.ENOSPC, "secret"), 507, "STORAGE_FULL"),
        (OSError(errno.EIO, "secret"), 500, "INTERNAL_ERROR"),
    ],
)
def test_each_error_has_its_status_and_code(error, status, code):
    shown = problem_of(error)
    assert (shown.status, shown.code) == (status, code)


def test_a_full_disk_is_reported_as_such_by_every_part():
    error = engine_errors.StorageError("The upload could not be kept.", "Free some disk space.")
    error.__cause__ = OSError(errno.ENOSPC, "No space left on device")
    shown = problem_of(error)
    assert (shown.status, shown.code) == (507, "STORAGE_FULL")
    assert shown.detail == "The upload could not be kept. Free some disk space."
    error.__cause__ = OSError(errno.EIO, "Input/output error")
    assert problem_of(error).code == "LAKE_STORAGE_ERROR"


def test_every_engine_error_has_a_status():
    def descendants(kind):
        return {kind}.union(*map(descendants, kind.__subclasses__()))

    converted = set(jvm_exceptions._made.values())  # these exist with an error of Spark's alone
    for kind in descendants(engine_errors.EngineError) - converted:
        bare = kind.__new__(kind)
        bare.what, bare.remedy, bare.conflict = "It failed.", "", FACTS
        assert 400 <= problem_of(bare).status < 600


def test_a_conflict_carries_both_sides():
    extra = problem_of(engine_errors.ConcurrentAppendException(FACTS)).extra
    assert extra["exception"] == "ConcurrentAppendException"
    assert extra["conflict"]["winner"]["version"] == 7
    assert extra["sqlstate"] == "2D521"


def test_an_engine_request_error_names_field_remedy_and_position():
    error = engine_errors.ExpressionError("No.", "Do.", field="where", position=4)
    [fault] = problem_of(error).extra["errors"]
    assert fault.items() >= {"field": "where", "remedy": "Do.", "position": 4}.items()


def test_nested_faults_are_reported_with_their_path():
    [fault] = problem_of(exceptions.ValidationError({"a": {"b": ["bad"]}})).extra["errors"]
    assert fault == {"field": "a.b", "code": "invalid", "message": "bad"}


def test_an_unforeseen_error_reveals_nothing_of_itself(caplog):
    request = Request(RequestFactory().get("/api/v1/tables/"))
    response = handle_exception(ZeroDivisionError("secret"), {"request": request})
    assert response.status_code == 500
    assert b"secret" not in response.content
    [logged] = [record for record in caplog.records if record.exc_info]  # however Spark formats it
    assert repr(logged.exc_info[1]) == "ZeroDivisionError('secret')"


def test_a_throttled_caller_learns_when_to_come_back(client_for, settings):
    settings.API_RATE_PERSON = "1/min"
    caller = client_for("viewer")
    assert caller.get("/api/v1/tables/").status_code == 200
    response = caller.get("/api/v1/tables/")
    problem(response, 429, "THROTTLED")
    assert 0 < int(response.headers["Retry-After"]) <= 60


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("/api/v1/nothing/", "NOT_FOUND"),
        ("/api/v1/tables", "NOT_FOUND"),
        ("/api/v2/tables/", "NOT_FOUND"),
        ("/api/", "NOT_FOUND"),
        ("/api/v1/jobs/not-a-uuid/", "NOT_FOUND"),
    ],
)
def test_an_unknown_address_answers_with_problem_json(client_for, path, code):
    problem(client_for("viewer").get(path), 404, code)


def test_an_unsupported_method_is_named_with_the_supported_ones(client_for):
    response = client_for("admin").delete("/api/v1/tables/")
    problem(response, 405, "METHOD_NOT_ALLOWED")
    assert "GET" in response.headers["Allow"]
    problem(client_for("admin").options("/api/v1/tables/"), 405)


def test_a_body_that_is_not_json_is_refused(client_for):
    problem(client_for("viewer").get("/api/v1/tables/", headers={"Accept": "text/html"}), 406)
    response = client_for("admin").post("/api/v1/tables/", "a=b", content_type="text/csv")
    problem(response, 415, "UNSUPPORTED_MEDIA_TYPE")


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"\xff",
        b'{"uri": NaN}',
        b'{"uri": 1e999}',
        b'{"uri": "\\ud800"}',
        b'{"uri": "a\\u0000b"}',
        b"[" * 100_000,
        b'{"a":' * 60 + b"1" + b"}" * 60,
        b"9" * 5000,
        b'{"uri": "/a", "uri": "/b"}',
    ],
)
def test_abnormal_json_is_refused(client_for, body):
    response = client_for("admin").post("/api/v1/tables/", body, content_type="application/json")
    problem(response, 400, "PARSE_ERROR")


def test_a_body_over_the_limit_is_refused_before_it_is_read(client_for, settings):
    settings.DATA_UPLOAD_MAX_MEMORY_SIZE = 100
    body = json.dumps({"uri": "x" * 100})
    response = client_for("admin").post("/api/v1/tables/", body, content_type="application/json")
    problem(response, 413, "REQUEST_TOO_LARGE")


@pytest.mark.parametrize("body", ["[]", "1", "null", '"text"'])
def test_a_body_that_is_no_object_is_refused_with_the_reason(client_for, body):
    response = client_for("admin").post("/api/v1/tables/", body, content_type="application/json")
    problem(response, 422, "INVALID_REQUEST")


def test_an_unknown_host_gets_a_problem_too(client):
    problem(client.get("/api/v1/tables/", headers={"Host": "evil.example"}), 400)


def test_the_session_needs_its_csrf_token(people):
    caller = Client(enforce_csrf_checks=True)
    caller.force_login(people["admin"])
    response = caller.post("/api/v1/tokens/", {}, content_type="application/json")
    problem(response, 403, "PERMISSION_DENIED")


def test_a_decent_request_id_is_kept_and_another_replaced(client_for):
    kept = client_for("viewer").get("/api/v1/tables/", headers={"X-Request-ID": "abc-12345"})
    assert kept.headers["X-Request-ID"] == "abc-12345"
    drawn = client_for("viewer").get("/api/v1/tables/", headers={"X-Request-ID": "<script>"})
    assert len(drawn.headers["X-Request-ID"]) == 36


def test_no_shared_cache_keeps_an_answer(client_for, table):
    assert (
        client_for("viewer").get("/api/v1/tables/").headers["Cache-Control"] == "private, no-cache"
    )


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("post", "tables/"),
        ("patch", "tables/{table}/"),
        ("post", "tables/{table}/jobs/"),
        ("post", "jobs/{job}:cancel"),
        ("post", "jobs/{job}:retry"),
        ("post", "tokens/"),
        ("delete", "tokens/{job}/"),
    ],
)
def test_a_read_only_installation_changes_nothing(client_for, settings, table, job, method, path):
    settings.READ_ONLY = True
    address = f"/api/v1/{path.format(table=table.pk, job=job.pk)}"
    problem(getattr(client_for("admin"), method)(address, {}, format="json"), 403, "READ_ONLY")


def test_a_read_only_installation_still_shows(client_for, settings, table):
    settings.READ_ONLY = True
    assert client_for("viewer").get(f"/api/v1/tables/{table.pk}/").status_code == 200
