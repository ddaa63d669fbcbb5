"""The OpenAPI document beyond the views: problems, headers, authentication."""

from typing import Any

from drf_spectacular.extensions import OpenApiAuthenticationExtension
from drf_spectacular.utils import OpenApiParameter

from lakeui.api.problems import CONTENT_TYPE

IDEMPOTENCY_KEY = OpenApiParameter(
    "Idempotency-Key",
    str,
    OpenApiParameter.HEADER,
    description="The same request with the same key gets the first answer again, for 24 hours.",
)
IF_MATCH = OpenApiParameter(
    "If-Match",
    str,
    OpenApiParameter.HEADER,
    required=True,
    description="The ETag of what you read. 428 without it, 412 if it changed since.",
)

PROBLEM_SCHEMA: dict[str, Any] = {
    "type": "object",
    "description": "RFC 9457 problem details. Check `code`; `detail` is for people.",
    "required": ["type", "title", "status", "code", "detail", "instance", "request_id"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "code": {"type": "string", "description": "Stable."},
        "detail": {"type": "string"},
        "instance": {"type": "string"},
        "request_id": {"type": "string"},
        "sqlstate": {"type": "string"},
        "remedy": {"type": "string"},
        "exception": {"type": "string", "description": "Delta's class name, of a conflict."},
        "conflict": {"type": "object", "description": "Both sides of a conflict."},
        "facts": {"type": "object"},
        "errors": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["field", "code", "message"],
                "properties": {
                    "field": {"type": "string"},
                    "code": {"type": "string"},
                    "message": {"type": "string"},
                    "remedy": {"type": "string"},
                },
            },
        },
    },
}


NOT_MODIFIED = {"description": "What the ETag in `If-None-Match` marks is still so. No body."}


class BearerScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    """Tokens of `tokens/`."""

    target_class = "lakeui.api.authentication.BearerAuthentication"
    name = "bearer"

    def get_security_definition(self, auto_schema: Any) -> dict[str, str]:  # noqa: ARG002
        return {"type": "http", "scheme": "bearer"}


def describe_problems(
    result: dict[str, Any],
    generator: Any,  # noqa: ARG001 - the hook's signature
    request: Any,  # noqa: ARG001
    public: bool,  # noqa: ARG001
) -> dict[str, Any]:
    """Add a problem answer to every operation, and forbid unknown fields in bodies."""
    schemas = result["components"].setdefault("schemas", {})
    for name, schema in schemas.items():
        if name.endswith("Request") and schema.get("type") == "object":
            schema["additionalProperties"] = False
    schemas["Problem"] = PROBLEM_SCHEMA
    answer = {
        "description": "A problem",
        "content": {CONTENT_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
    }
    for operations in result["paths"].values():
        for method, operation in operations.items():
            operation["responses"]["default"] = answer
            if method == "get" and not _is_stream(operation):
                operation["responses"]["304"] = NOT_MODIFIED
    return result


def _is_stream(operation: dict[str, Any]) -> bool:
    return "text/event-stream" in operation["responses"].get("200", {}).get("content", {})
