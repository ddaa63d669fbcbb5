"""Rows as texts, for comparison between readers."""

import json
from collections.abc import Iterable, Mapping
from datetime import date, datetime
from typing import Any


def lines_of(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return each row as text, sorted."""
    return sorted(json.dumps([_plain(value) for _, value in sorted(row.items())]) for row in rows)


def _plain(value: Any) -> Any:  # noqa: PLR0911 - one form a type
    match value:
        case bytes():
            return value.decode("utf-8", "replace")
        case datetime():
            return value.replace(tzinfo=None).isoformat()
        case date():
            return value.isoformat()
        case dict():
            return {name: _plain(inner) for name, inner in sorted(value.items())}
        case list() | tuple():
            return [_plain(inner) for inner in value]
        case _:
            return value if value is None or isinstance(value, bool | int | float) else str(value)
