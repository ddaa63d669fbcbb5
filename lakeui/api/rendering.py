"""JSON that JavaScript reads without loss, and JSON bodies read within bounds."""

import json
import math
from collections.abc import Mapping
from typing import Any

from django.conf import settings
from rest_framework.exceptions import ParseError
from rest_framework.parsers import BaseParser
from rest_framework.renderers import JSONRenderer

from lakeui.api.errors import RequestTooLarge

MAX_SAFE_INTEGER = 2**53 - 1
MAX_DEPTH = 50


class SafeJSONRenderer(JSONRenderer):
    """Sends numbers that a JavaScript double would round, or that JSON lacks, as strings."""

    def render(
        self,
        data: Any,
        accepted_media_type: str | None = None,
        renderer_context: Mapping[str, Any] | None = None,
    ) -> bytes:
        return bytes(super().render(json_safe(data), accepted_media_type, renderer_context))


class BoundedJSONParser(BaseParser):
    """JSON of bounded size and depth, without text that databases refuse (NUL, lone surrogates).

    A duplicate name in an object is refused, because it is ambiguous.
    """

    media_type = "application/json"

    def parse(
        self,
        stream: Any,
        media_type: str | None = None,  # noqa: ARG002 - the framework's signature
        parser_context: Mapping[str, Any] | None = None,  # noqa: ARG002
    ) -> Any:
        limit: int = settings.DATA_UPLOAD_MAX_MEMORY_SIZE
        data = stream.read(limit + 1)
        if len(data) > limit:
            raise RequestTooLarge
        try:
            value = json.loads(
                data.decode("utf-8"),
                parse_constant=_refuse,
                parse_float=_finite,
                object_pairs_hook=_refuse_duplicates,
            )
            _check(value, MAX_DEPTH)
        except (ValueError, RecursionError) as error:
            detail = f"The body is not acceptable JSON: {error}"
            raise ParseError(detail) from error
        return value


def json_safe(value: Any) -> Any:
    """Convert integers of 2⁵³ and over, and non-finite floats, to strings at every level."""
    if isinstance(value, Mapping):
        return {str(key): json_safe(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [json_safe(inner) for inner in value]
    return str(value) if _would_be_lost(value) else value


def _would_be_lost(value: Any) -> bool:
    if isinstance(value, float):
        return not math.isfinite(value)
    return isinstance(value, int) and abs(value) > MAX_SAFE_INTEGER


def _check(value: Any, depth: int) -> None:
    if depth == 0:
        msg = "it is nested too deeply"
        raise ValueError(msg)
    if isinstance(value, str):
        if "\0" in value:
            msg = "it contains a NUL character"
            raise ValueError(msg)
        value.encode("utf-8")
    elif isinstance(value, dict):
        for key, inner in value.items():
            _check(key, depth)
            _check(inner, depth - 1)
    elif isinstance(value, list):
        for inner in value:
            _check(inner, depth - 1)


def _refuse_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        msg = "an object contains a name twice"
        raise ValueError(msg)
    return members


def _refuse(name: str) -> float:
    msg = f"{name} is not a JSON number"
    raise ValueError(msg)


def _finite(text: str) -> float:
    number = float(text)
    return number if math.isfinite(number) else _refuse(text[:40])
