"""The winning commit's commitInfo inside a message: "Conflicting commit: {…}", whole or cut off.

Delta writes operationParameters as raw text into it, so it is often not JSON (`{"mode":Append}`):
text that cannot be decoded is read field by field.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_START = re.compile(r"conflicting commit:\s*(?=\{)", re.IGNORECASE)
_MAX_CHARS = 100_000


@dataclass(frozen=True, slots=True)
class CommitText:
    """A message's facts of the winning commit. None: not stated. `is_whole`: it was not cut."""

    version: int | None = None
    timestamp_ms: int | None = None
    operation: str | None = None
    user: str | None = None
    read_version: int | None = None
    isolation_level: str | None = None
    is_blind_append: bool | None = None
    engine: str | None = None
    txn_id: str | None = None
    predicate: str | None = None
    is_whole: bool = True


def find_commit(text: str) -> CommitText | None:
    """Return the first commit in a message's conflicts."""
    start = _START.search(text)
    if start is None:
        return None
    body, is_whole = _take_braced_text(text[start.end() : start.end() + _MAX_CHARS])
    parameters = _parameters_of(body)
    rest = body.replace(parameters, "{}", 1) if parameters else body
    fields = _decode_object(body) or _Loose(rest, parameters)
    return CommitText(
        version=_integer(fields.get("version")),
        timestamp_ms=_integer(fields.get("timestamp")),
        operation=_text(fields.get("operation")),
        user=_text(fields.get("userName")),
        read_version=_integer(fields.get("readVersion")),
        isolation_level=_text(fields.get("isolationLevel")),
        is_blind_append=_truth(fields.get("isBlindAppend")),
        engine=_text(fields.get("engineInfo")),
        txn_id=_text(fields.get("txnId")),
        predicate=_predicate(fields, parameters),
        is_whole=is_whole,
    )


class _Loose(dict[str, Any]):
    """Fields of almost-JSON text, found by name, without those of its parameters."""

    def __init__(self, text: str, parameters: str) -> None:
        matches = re.finditer(r'"(\w{1,40})"\s*:\s*("(?:[^"\\]|\\.)*"|[^\s,{}\[\]"]+)', text)
        pairs = [(match[1], match[2]) for match in matches]
        super().__init__({name: value.strip('"') for name, value in reversed(pairs)})
        self.parameters = parameters


def _take_braced_text(text: str) -> tuple[str, bool]:
    """Return the text up to the brace that closes its first one; else all of it, and False."""
    depth, quoted, escaped = 0, False, False
    for place, char in enumerate(text):
        if escaped:
            escaped = False
        elif char == "\\":
            escaped = True
        elif char == '"':
            quoted = not quoted
        elif not quoted and char in "{}":
            depth += 1 if char == "{" else -1
            if depth == 0:
                return text[: place + 1], True
    return text, False


def _parameters_of(body: str) -> str:
    start = re.search(r'"operationParameters"\s*:\s*(?=\{)', body)
    return _take_braced_text(body[start.end() :])[0] if start else ""


def _decode_object(body: str) -> Mapping[str, Any] | None:
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _predicate(fields: Mapping[str, Any], parameters: str) -> str | None:
    recorded = fields.get("operationParameters")
    if isinstance(recorded, dict):
        return _text(recorded.get("predicate"))
    match = re.search(r'"predicate"\s*:\s*(.{1,2000}?)(?=,"\w+"\s*:|\}$|$)', parameters, re.DOTALL)
    return _text(match[1]) if match else None


def _text(value: Any) -> str | None:  # noqa: ANN401 - of JSON
    text = value if isinstance(value, str) else json.dumps(value) if value is not None else ""
    text = text.strip().strip('"')
    return text if text not in ("", "[]", "null") else None


def _integer(value: Any) -> int | None:  # noqa: ANN401
    text = str(value)
    return int(text) if re.fullmatch(r"\d{1,18}", text) else None


def _truth(value: Any) -> bool | None:  # noqa: ANN401
    return {"true": True, "false": False}.get(str(value).lower())
