"""Errors of Unity Catalog's REST API: each has a code and a status, in the shape of its generation.

The preview answers `{"error_code", "message", "details"}`, v1 `{"error": {"type", "code",
"message"}}`.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.contrib.auth.models import User
from django.db import DataError, InterfaceError, OperationalError
from django.http import Http404
from rest_framework import exceptions
from rest_framework.permissions import SAFE_METHODS
from rest_framework.request import Request
from rest_framework.response import Response

from engine import errors as engine_errors
from engine.catalog.unity_messages import BASE_PATH
from lakeui.catalog.managed_tables import CatalogNameTakenError
from lakeui.monitoring.audit import record_refusal

PREFIX = f"{BASE_PATH}/"
V1 = f"{PREFIX}delta/v1/"
logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class UnityCode:
    """An error code of the API: its name in the preview, its type in v1, and its status."""

    name: str
    type: str
    status: int


INVALID = UnityCode("INVALID_ARGUMENT", "InvalidParameterValueException", 400)
MALFORMED = UnityCode("INVALID_ARGUMENT", "BadRequestException", 400)
REFUSED = UnityCode("FAILED_PRECONDITION", "InvalidParameterValueException", 400)
UNAUTHENTICATED = UnityCode("UNAUTHENTICATED", "NotAuthorizedException", 401)
DENIED = UnityCode("PERMISSION_DENIED", "PermissionDeniedException", 403)
NOT_FOUND = UnityCode("NOT_FOUND", "NotFoundException", 404)
NO_CATALOG = UnityCode("CATALOG_NOT_FOUND", "NoSuchCatalogException", 404)
NO_SCHEMA = UnityCode("SCHEMA_NOT_FOUND", "NoSuchSchemaException", 404)
NO_TABLE = UnityCode("TABLE_NOT_FOUND", "NoSuchTableException", 404)
CATALOG_EXISTS = UnityCode("CATALOG_ALREADY_EXISTS", "AlreadyExistsException", 409)
SCHEMA_EXISTS = UnityCode("SCHEMA_ALREADY_EXISTS", "AlreadyExistsException", 409)
TABLE_EXISTS = UnityCode("TABLE_ALREADY_EXISTS", "AlreadyExistsException", 409)
VERSION_CONFLICT = UnityCode("COMMIT_VERSION_CONFLICT", "CommitVersionConflictException", 409)
REQUIREMENT = UnityCode("UPDATE_REQUIREMENT_CONFLICT", "UpdateRequirementConflictException", 409)
EXHAUSTED = UnityCode("RESOURCE_EXHAUSTED", "ResourceExhaustedException", 429)
THROTTLED = UnityCode("RESOURCE_EXHAUSTED", "TooManyRequestsException", 429)
UNKNOWN_STATE = UnityCode("COMMIT_STATE_UNKNOWN", "CommitStateUnknownException", 500)
INTERNAL = UnityCode("INTERNAL", "InternalServerErrorException", 500)
UNIMPLEMENTED = UnityCode("UNIMPLEMENTED", "NotImplementedException", 501)

_EXISTS = {"catalog": CATALOG_EXISTS, "schema": SCHEMA_EXISTS}
_CODES: tuple[tuple[type[Exception], UnityCode], ...] = (
    (engine_errors.VersionTakenError, VERSION_CONFLICT),
    (engine_errors.UnpublishedLimitError, EXHAUSTED),
    (engine_errors.InvalidCommitError, INVALID),
    (engine_errors.CatalogTableMissingError, NO_TABLE),
    (engine_errors.TableNotFoundError, NO_TABLE),
    (engine_errors.TableExistsError, TABLE_EXISTS),
    (engine_errors.StorageError, INTERNAL),
    (engine_errors.EngineError, INVALID),
    (DataError, INVALID),
    (exceptions.NotAuthenticated, UNAUTHENTICATED),
    (exceptions.AuthenticationFailed, UNAUTHENTICATED),
    (exceptions.PermissionDenied, DENIED),
    (exceptions.Throttled, THROTTLED),
    (exceptions.NotFound, NOT_FOUND),
    (Http404, NOT_FOUND),
    (exceptions.MethodNotAllowed, UNIMPLEMENTED),
    (exceptions.APIException, MALFORMED),
)
"""The first matching class gives the code."""


class UnityError(Exception):
    """A refusal with a code of the API."""

    def __init__(self, code: UnityCode, message: str) -> None:
        super().__init__(message)
        self.code = code


def answer_error(error: Exception, context: Mapping[str, Any]) -> Response:
    """Handle REST framework's exceptions. An unforeseen one is logged and answered by a 500."""
    request: Request = context["request"]
    code = _code_of(error, request)
    if code.status >= INTERNAL.status:
        logger.error("%s %s failed", request.method, request.path, exc_info=error)
    if code is DENIED and request.method not in SAFE_METHODS and isinstance(request.user, User):
        record_refusal(request._request, request.user, code.name)
    message = _describe_error(error, code)
    if request.path.startswith(V1):
        body: Any = {"error": {"message": message, "type": code.type, "code": code.status}}
    else:
        reason = {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": code.name}
        body = {"error_code": code.name, "message": message, "details": [reason]}
    headers = {"WWW-Authenticate": "Bearer"} if code is UNAUTHENTICATED else {}
    if code is THROTTLED:
        headers["Retry-After"] = str(max(1, round(getattr(error, "wait", None) or 1)))
    return Response(body, code.status, headers=headers)


def _code_of(error: Exception, request: Request) -> UnityCode:
    if isinstance(error, UnityError):
        return error.code
    if isinstance(error, CatalogNameTakenError):
        return _EXISTS[error.kind]
    if isinstance(error, OperationalError | InterfaceError):  # it may have been committed
        return INTERNAL if request.method in SAFE_METHODS else UNKNOWN_STATE
    return next((code for kind, code in _CODES if isinstance(error, kind)), INTERNAL)


def _describe_error(error: Exception, code: UnityCode) -> str:
    if isinstance(error, UnityError | engine_errors.EngineError | exceptions.APIException):
        return str(getattr(error, "detail", error))
    if isinstance(error, OperationalError | InterfaceError):
        return "The database of the catalog is unreachable. Ask for the commits before you retry."
    if isinstance(error, DataError):
        return "The database cannot hold a text of the request or its commit, such as one with NUL."
    return "There is no such thing in the catalog." if code is NOT_FOUND else "The catalog failed."
