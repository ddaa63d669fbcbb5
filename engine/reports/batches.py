"""Events as the dashboard takes them: JSON within its bounds, a batch at a time."""

import json
import logging
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, is_dataclass
from typing import Any

logger = logging.getLogger(__name__)

Event = Mapping[str, Any]
"""An event with the dashboard's names; `conflict` may be the engine's value until it is sent."""

MAX_EVENTS = 200
MAX_BODY_BYTES = 4_000_000
MAX_EVENT_BYTES = 400_000
_PASSWORD = re.compile(r"(://[^/\s:@]{1,256}):[^/\s@]{1,1024}@")
"""The password in a location; without a colon, the part before @ is an Azure container."""
_LIMITS = {"table": 2000, "operation": 100, "statement": 20_000, "text": 20_000}


def encode_events(events: Iterable[Event]) -> list[bytes]:
    """Encode each event as JSON; a long one loses its decision record, then its files.

    Events that cannot be encoded are skipped, to let the others pass.
    """
    encoded = []
    for event in events:
        try:
            encoded.append(_encode_event(event))
        except (TypeError, ValueError, RecursionError):
            logger.exception("A report of a transaction could not be written down")
    return encoded


def batches_of(events: Sequence[bytes]) -> Iterator[list[bytes]]:
    """Split the events in order into batches within the limits of a request."""
    batch: list[bytes] = []
    size = 0
    for event in events:
        if batch and (len(batch) == MAX_EVENTS or size + len(event) > MAX_BODY_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(event)
        size += len(event) + 1
    if batch:
        yield batch


def body_of(writer: Mapping[str, str], events: Sequence[bytes], dropped: int) -> bytes:
    """Build the request's body."""
    head = json.dumps({"writer": _clean(writer), "dropped": dropped})
    return head[:-1].encode() + b', "events": [' + b",".join(events) + b"]}"


def halves_of(body: bytes) -> tuple[bytes, ...]:
    """Split a batch in two; return () for a single event or an invalid batch."""
    try:
        batch = json.loads(body)
        events = list(batch["events"])
    except (ValueError, KeyError, TypeError):  # files may be empty after a power failure
        return ()
    half = len(events) // 2
    parts = [events[:half], events[half:]] if half else []
    return tuple(json.dumps({**batch, "events": part}).encode() for part in parts)


def _encode_event(event: Event) -> bytes:
    if is_dataclass(said := event.get("conflict")) and not isinstance(said, type):
        event = {**event, "conflict": asdict(said)}
    body = _json(event)
    for left_out in (("decision",), ("files", "rows", "partitions")):
        conflict = event.get("conflict")
        if len(body) <= MAX_EVENT_BYTES or not isinstance(conflict, Mapping):
            break
        kept = {name: value for name, value in conflict.items() if name not in left_out}
        if "files" in left_out and "how" in conflict:
            kept["files"] = []  # required for a resolved conflict
        event = {**event, "conflict": kept}
        body = _json(event)
    return body


def _json(event: Event) -> bytes:
    cut = {
        name: value[: _LIMITS[name]] if name in _LIMITS else value for name, value in event.items()
    }
    return json.dumps(_clean(cut), allow_nan=False, default=str).encode()


def _clean(value: Any) -> Any:  # noqa: ANN401 - JSON
    """Remove passwords, and characters databases reject: NUL and lone surrogates."""
    if isinstance(value, str):
        text = _PASSWORD.sub(r"\1:…@", str(value)).replace("\0", "\N{REPLACEMENT CHARACTER}")
        return text.encode("utf-8", "replace").decode()
    if isinstance(value, Mapping):
        return {_clean(name): _clean(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_clean(inner) for inner in value]
    return value
