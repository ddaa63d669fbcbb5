"""The OpenAPI document beyond the views: problems, headers, authentication, and commands.

A command's schema has each kind's parameters; requests differ by `kind`.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from drf_spectacular.extensions import OpenApiAuthenticationExtension
from drf_spectacular.utils import OpenApiParameter

from engine.commands.fields import Parameter, parameters_of
from engine.commands.merge import MergeClause
from engine.commands.model import COMMANDS, SOURCES
from engine.commands.script import fits_a_script
from lakeui.api.problems import CONTENT_TYPE

IDEMPOTENCY_KEY = OpenApiParameter(
    "Idempotency-Key",
    str,
    OpenApiParameter.HEADER,
    description="For 24 hours, the same request with the same key gets the first answer again.",
)
IF_MATCH = OpenApiParameter(
    "If-Match",
    str,
    OpenApiParameter.HEADER,
    required=True,
    description="The ETag of the resource that you read. The answer is 428 without it, and 412 if "
    "the resource has changed.",
)

PROBLEM_SCHEMA: dict[str, Any] = {
    "type": "object",
    "description": "RFC 9457 problem details. Programs should check `code`. People read `detail`.",
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
        "exception": {"type": "string", "description": "Delta's class name of the conflict."},
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


NOT_MODIFIED = {
    "description": "The state with the ETag in `If-None-Match` is still current. The answer has no body."
}

REQUESTS = ("JobRequest", "ScheduleRequest")
"""Bodies with a command."""
_SOURCE, _STEP, _CLAUSE = "CommandSource", "ScriptStep", "MergeClause"
_VALUE: dict[str, Any] = {"type": ["string", "number", "boolean", "null"]}
_INSIDE: Mapping[str, dict[str, Any]] = {
    **{kind: {"items": {"type": "string"}} for kind in ("columns", "texts", "expressions")},
    "clauses": {"items": {"$ref": f"#/components/schemas/{_CLAUSE}"}},
    "steps": {"items": {"$ref": f"#/components/schemas/{_STEP}"}},
    "rows": {"items": {"type": "array", "items": _VALUE}},
    **{kind: {"additionalProperties": {"type": "string"}} for kind in ("mapping", "assignments")},
    "schema": {"additionalProperties": True},
}


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


def describe_commands(
    result: dict[str, Any],
    generator: Any,  # noqa: ARG001 - the hook's signature
    request: Any,  # noqa: ARG001
    public: bool,  # noqa: ARG001
) -> dict[str, Any]:
    """Split each request with a command into one schema per kind, and one for SQL statements."""
    schemas = result["components"].setdefault("schemas", {})
    schemas[_CLAUSE] = _object(parameters_of(MergeClause))
    for kind, source in SOURCES.items():
        schemas[f"{_camel(kind)}Source"] = _add_kind(kind, _object(parameters_of(source)))
    schemas[_SOURCE] = _one_of({kind: f"{_camel(kind)}Source" for kind in SOURCES})
    steps = {}
    for kind, command in COMMANDS.items():
        named = f"{_camel(kind)}Parameters"
        schemas[named] = {"description": command.help, **_object(command.list_parameters())}
        if fits_a_script(command):
            steps[kind] = f"{_camel(kind)}Step"
            schemas[steps[kind]] = _add_kind(kind, _parameters_schema(named, schemas))
    schemas[_STEP] = _one_of(steps)
    for name in REQUESTS:
        for component in (f"{name}Request", name):
            if component in schemas:
                _split(name, component, schemas)
    return result


def _split(name: str, component: str, schemas: dict[str, Any]) -> None:
    whole = schemas[component]
    shared = {
        field: declared
        for field, declared in whole["properties"].items()
        if field not in {"kind", "parameters", "sql"}
    }
    asked = [field for field in whole.get("required", ()) if field in shared]
    kinds = {kind: f"{_camel(kind)}{name}" for kind in COMMANDS}
    for kind, variant in kinds.items():
        own = _parameters_schema(f"{_camel(kind)}Parameters", schemas)
        own["properties"] |= shared
        own["required"] = [*own.get("required", ()), *asked]
        schemas[variant] = _add_kind(kind, own)
    statement = f"Sql{name}"
    schemas[statement] = {
        "type": "object",
        "description": "A command as one SQL statement.",
        "properties": {"sql": whole["properties"]["sql"], **shared},
        "required": ["sql", *asked],
        "additionalProperties": False,
    }
    by_kind = f"Command{name}"
    schemas[by_kind] = _one_of(kinds)
    schemas[component] = {
        "description": whole.get("description", ""),
        "oneOf": [_ref(by_kind), _ref(statement)],
    }


def _parameters_schema(parameters: str, schemas: Mapping[str, Any]) -> dict[str, Any]:
    """Return an object of parameters, optional unless one of them is required."""
    described: dict[str, Any] = {
        "type": "object",
        "properties": {"parameters": _ref(parameters)},
        "additionalProperties": False,
    }
    if schemas[parameters].get("required"):
        described["required"] = ["parameters"]
    return described


def _object(declared: Iterable[Parameter]) -> dict[str, Any]:
    fields = list(declared)
    described: dict[str, Any] = {
        "type": "object",
        "properties": {field.name: _value(field) for field in fields},
        "additionalProperties": False,
    }
    if required := [field.name for field in fields if field.required]:
        described["required"] = required
    return described


def _add_kind(kind: str, described: Mapping[str, Any]) -> dict[str, Any]:
    """Return the object with a constant `kind` before its other fields."""
    return {
        **described,
        "properties": {"kind": {"type": "string", "const": kind}, **described["properties"]},
        "required": ["kind", *described.get("required", ())],
    }


def _value(field: Parameter) -> dict[str, Any]:
    text = ". ".join(part.rstrip(".") for part in (field.label, field.help) if part) + "."
    described: dict[str, Any] = {"description": text}
    optional = not field.required and field.default is None
    if field.kind == "source" and optional:
        return {"oneOf": [_ref(_SOURCE), {"type": "null"}], **described}
    if field.kind == "source":
        return {**_ref(_SOURCE), **described}
    described["type"] = [field.json_type, "null"] if optional else field.json_type
    described |= _INSIDE.get(field.kind, {})
    if field.choices:
        described["enum"] = [*field.choices, *([None] if optional else [])]
    if field.minimum is not None:
        described["minimum"] = field.minimum
    if isinstance(field.default, str | int | float) and field.default != "":
        described["default"] = field.default
    return described


def _one_of(variants: Mapping[str, str]) -> dict[str, Any]:
    """Return a choice of several kinds' schemas, discriminated by `kind`."""
    return {
        "oneOf": [_ref(name) for name in variants.values()],
        "discriminator": {
            "propertyName": "kind",
            "mapping": {kind: f"#/components/schemas/{name}" for kind, name in variants.items()},
        },
    }


def _ref(name: str) -> dict[str, Any]:
    return {"$ref": f"#/components/schemas/{name}"}


def _camel(kind: str) -> str:
    return "".join(part.capitalize() for part in kind.split("_"))
