"""The error of a job as stored in its row: bounded, and without secrets.

The log of the worker has all of it.
"""

import traceback
from collections.abc import Iterator
from typing import Any

from engine.errors import EngineError
from lakeui.catalog.log_values import json_value, text
from lakeui.monitoring.log_lines import redact_text

INTERNAL = "LAKE_INTERNAL"
_MAX_MESSAGE = 4_000
_MAX_FACT = 2_000
_MAX_CAUSES = 20


def error_fields(error: EngineError) -> dict[str, Any]:
    """Return the fields of a job that failed by an engine error: code, message and facts."""
    return {
        "error_code": error.code,
        "error_message": _words(error, _MAX_MESSAGE),
        "error_facts": _shorten_texts(json_value(error.facts())),
    }


def fault_fields(error: Exception) -> dict[str, Any]:
    """Return the fields of a job that failed by a fault of this software, with all causes."""
    lines = "".join(traceback.format_exception_only(error)).strip()
    causes = [_words(cause, _MAX_FACT) for cause in _chain(error)]
    return {
        "error_code": INTERNAL,
        "error_message": _words(f"An internal error ended the job: {lines}", _MAX_MESSAGE),
        "error_facts": {"code": INTERNAL, "causes": causes},
    }


def _chain(error: BaseException | None) -> Iterator[str]:
    for _ in range(_MAX_CAUSES):
        if error is None:
            return
        yield f"{type(error).__name__}: {error}"
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)


def _shorten_texts(value: object) -> Any:  # noqa: ANN401 - JSON
    match value:
        case dict():
            return {key: _shorten_texts(inner) for key, inner in value.items()}
        case list():
            return [_shorten_texts(inner) for inner in value]
        case str():
            return _words(value, _MAX_FACT)
        case _:
            return value


def _words(value: object, limit: int) -> str:
    whole = text(redact_text(text(value)))
    return whole if len(whole) <= limit else f"{whole[:limit]}…"
