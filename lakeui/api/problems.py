"""RFC 9457 problem details: the one shape of every unsuccessful answer.

`code` is stable and meant for programs; `detail` is for people. Faults of single fields are in
`errors`; a conflict has its facts in `conflict`.
"""

import errno
import json
import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from typing import Any

from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied, SuspiciousOperation
from django.db import InterfaceError, OperationalError
from django.http import Http404, HttpRequest, HttpResponse
from rest_framework import exceptions
from rest_framework.permissions import SAFE_METHODS

from engine import errors as engine_errors
from lakeui.api.rendering import json_safe
from lakeui.catalog.reads import TooManyReadsError
from lakeui.jobs import errors as job_errors
from lakeui.monitoring.audit import record_refusal

READ_ONLY_CODES = frozenset({"READ_ONLY", "LAKE_READ_ONLY"})
_TOLD = ("sqlstate", "remedy", "conflict")  # facts with their own member
CONTENT_TYPE = "application/problem+json"
logger = logging.getLogger(__name__)

ENGINE_STATUS: tuple[tuple[type[engine_errors.EngineError], int], ...] = (
    (engine_errors.ConflictError, 409),
    (engine_errors.MaxCommitRetriesError, 409),
    (engine_errors.OperationCancelledError, 409),
    (engine_errors.AppendOnlyError, 409),
    (engine_errors.TableExistsError, 409),
    (TooManyReadsError, 429),
    (job_errors.TooManyJobsError, 429),
    (job_errors.TooManyPreviewsError, 429),
    (job_errors.UploadQuotaError, 413),
    (job_errors.JobStateError, 409),
    (job_errors.ReadOnlyError, 403),
    (job_errors.NotPermittedError, 403),
    (engine_errors.TableNotFoundError, 404),
    (engine_errors.VersionNotFoundError, 404),
    (engine_errors.FileMissingError, 404),
    (engine_errors.CommitOutcomeUnknownError, 502),
    (engine_errors.StorageOutcomeUnknownError, 502),
    (engine_errors.StorageError, 503),
    (engine_errors.EngineError, 422),
)
"""The first matching class gives the status; a wrong request is 422."""

CODES_BY_STATUS: Mapping[int, str] = {
    400: "MALFORMED_REQUEST",
    401: "NOT_AUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    405: "METHOD_NOT_ALLOWED",
    413: "REQUEST_TOO_LARGE",
    500: "INTERNAL_ERROR",
    503: "UNAVAILABLE",
}


@dataclass(frozen=True, kw_only=True)
class Problem:
    """An unsuccessful answer, before it has a request."""

    status: int
    code: str
    detail: str
    extra: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)


DATABASE_AWAY = Problem(
    status=HTTPStatus.SERVICE_UNAVAILABLE,
    code="DATABASE_UNAVAILABLE",
    detail="The database is unreachable or accepts no changes now. No part of this request was "
    "stored.",
    headers={"Retry-After": "5"},
)

DISK_FULL = Problem(
    status=HTTPStatus.INSUFFICIENT_STORAGE,
    code="STORAGE_FULL",
    detail="The disk of this installation is full. No part of this request was stored.",
)
_FULL = (errno.ENOSPC, errno.EDQUOT)


def handle_exception(error: Exception, context: Mapping[str, Any]) -> HttpResponse:
    """Handle REST framework's exceptions. An unforeseen one is logged and answered by a 500."""
    request: HttpRequest = context["request"]._request
    problem = problem_of(error)
    if problem.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        logger.error("%s %s failed", request.method, request.path, exc_info=error)
    _keep_refusal(request, problem)
    return problem_response(request, problem)


def _keep_refusal(request: HttpRequest, problem: Problem) -> None:
    refused = problem.status == HTTPStatus.FORBIDDEN and problem.code not in READ_ONLY_CODES
    if refused and request.method not in SAFE_METHODS and isinstance(request.user, User):
        record_refusal(request, request.user, problem.code)


def problem_response(request: HttpRequest, problem: Problem) -> HttpResponse:
    """Return the problem as an answer to this request."""
    body = {
        "type": f"urn:lakeui:problem:{problem.code.lower()}",
        "title": HTTPStatus(problem.status).phrase,
        "status": problem.status,
        "code": problem.code,
        "detail": problem.detail,
        "instance": request.path,
        "request_id": getattr(request, "request_id", ""),
        **json_safe(problem.extra),
    }
    text = json.dumps(body, ensure_ascii=True, default=str)
    return HttpResponse(text, CONTENT_TYPE, problem.status, headers=dict(problem.headers))


def problem_of(error: Exception) -> Problem:
    """Return the problem for an exception."""
    if isinstance(error, engine_errors.EngineError):
        return _engine_problem(error)
    if isinstance(error, Http404):
        error = exceptions.NotFound()
    elif isinstance(error, PermissionDenied):
        error = exceptions.PermissionDenied(*error.args)
    elif isinstance(error, SuspiciousOperation):
        error = exceptions.ParseError()
    if isinstance(error, exceptions.ValidationError):
        return _validation_problem(error)
    if isinstance(error, exceptions.APIException):
        return _framework_problem(error)
    return _environment_problem(error)


def _environment_problem(error: Exception) -> Problem:
    """Return the machine's problem, or else an internal error."""
    if isinstance(error, OperationalError | InterfaceError):
        return DATABASE_AWAY
    if _is_full(error):
        return DISK_FULL
    return status_problem(HTTPStatus.INTERNAL_SERVER_ERROR)


def _is_full(error: BaseException | None) -> bool:
    return isinstance(error, OSError) and error.errno in _FULL


def status_problem(status: int) -> Problem:
    """Return a problem with only a status."""
    status_code = status if status in {s.value for s in HTTPStatus} else 500
    return Problem(
        status=status_code,
        code=CODES_BY_STATUS.get(status_code, HTTPStatus(status_code).name),
        detail=HTTPStatus(status_code).description or HTTPStatus(status_code).phrase,
    )


def _engine_problem(error: engine_errors.EngineError) -> Problem:
    status = next(status for kind, status in ENGINE_STATUS if isinstance(error, kind))
    if isinstance(error, engine_errors.StorageError) and _is_full(error.__cause__):
        return replace(DISK_FULL, detail=str(error))  # not to be retried automatically
    facts = error.facts()
    extra: dict[str, Any] = {name: facts.pop(name) for name in _TOLD if name in facts}
    named = facts.pop("field", "")
    for key in ("code", "message", "exception"):
        facts.pop(key, None)
    if named or isinstance(error, engine_errors.RequestError):
        own = {"field": named, "code": error.code, "message": error.what, "remedy": error.remedy}
        extra["errors"] = [{**own, **{k: v for k, v in facts.items() if v is not None}}]
    elif facts:
        extra["facts"] = facts
    if isinstance(error, engine_errors.ConflictError):
        extra["exception"] = type(error).__name__
    return Problem(status=status, code=error.code, detail=str(error), extra=extra)


def _validation_problem(error: exceptions.ValidationError) -> Problem:
    faults = list(_faults(error.detail, ""))
    where = ", ".join(sorted({fault["field"] for fault in faults if fault["field"]}))
    return Problem(
        status=HTTPStatus.UNPROCESSABLE_ENTITY,
        code="INVALID_REQUEST",
        detail=f"The request has errors in: {where}." if where else faults[0]["message"],
        extra={"errors": faults},
    )


def _framework_problem(error: exceptions.APIException) -> Problem:
    headers = {}
    if challenge := getattr(error, "auth_header", None):
        headers["WWW-Authenticate"] = str(challenge)
    if wait := getattr(error, "wait", None):
        headers["Retry-After"] = str(max(1, round(wait)))
    code = error.default_code if error.default_code != "error" else "internal_error"
    return Problem(
        status=error.status_code,
        code=code.upper(),
        detail=str(error.detail),
        headers=headers,
    )


def _faults(detail: Any, path: str) -> Iterator[dict[str, str]]:
    """Nested validation errors, flat: the field's path with dots, a code and a message."""
    if isinstance(detail, dict):
        for name, inner in detail.items():
            name = "" if name in ("non_field_errors", "__all__") else str(name)
            yield from _faults(inner, ".".join(part for part in (path, name) if part))
    elif isinstance(detail, list):
        for inner in detail:
            yield from _faults(inner, path)
    else:
        code = str(getattr(detail, "code", "invalid"))
        yield {"field": path, "code": code, "message": str(detail)}
