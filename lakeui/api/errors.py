"""Refusals of the REST interface beyond those of the framework and the engine."""

from rest_framework import status
from rest_framework.exceptions import APIException, PermissionDenied


class ReadOnly(PermissionDenied):
    """`READ_ONLY=1`: nothing may be changed by anybody."""

    default_detail = "This installation is read-only: nothing can be changed."
    default_code = "read_only"


class TokenTooWeak(PermissionDenied):
    """The token's role is below the required one, regardless of its owner's role."""

    default_detail = "This token may only read. Use one with a higher role."
    default_code = "token_too_weak"


class TokenOnlyReports(PermissionDenied):
    """The token belongs to a program that reports its transactions; it grants nothing else."""

    default_detail = (
        "This token may only report transactions, with POST requests to "
        "/api/v1/pipelines/events/. Use a token with the role viewer or a higher role."
    )
    default_code = "token_only_reports"


class TokenMakesNone(PermissionDenied):
    """The finder of a leaked token cannot extend its access beyond its end or revocation."""

    default_detail = "A token cannot create another token. Sign in with a password to create one."
    default_code = "token_makes_none"


class RequestTooLarge(APIException):
    """The body is over the limit."""

    status_code = status.HTTP_413_REQUEST_ENTITY_TOO_LARGE
    default_detail = "The request's body is too large."
    default_code = "request_too_large"


class IdempotencyKeyReused(APIException):
    """The key was used for another request before."""

    status_code = status.HTTP_422_UNPROCESSABLE_ENTITY
    default_detail = (
        "This Idempotency-Key was used for a different request in the last 24 hours. Send "
        "the same request again, or use a new key."
    )
    default_code = "idempotency_key_reused"


class PreconditionFailed(APIException):
    """The state changed since the client read it."""

    status_code = status.HTTP_412_PRECONDITION_FAILED
    default_detail = (
        "The resource has changed since you read it. Read it again, then send its new ETag."
    )
    default_code = "precondition_failed"


class PreconditionRequired(APIException):
    """A change of settings must name the state that it was made for."""

    status_code = status.HTTP_428_PRECONDITION_REQUIRED
    default_detail = "Send If-Match with the ETag of the resource that you read."
    default_code = "precondition_required"
