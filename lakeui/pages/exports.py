"""A list as a file: every matching row, streamed, never capped."""

import csv
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from django.db.models import Model, QuerySet
from django.http import Http404, StreamingHttpResponse
from django.utils.http import content_disposition_header

Columns = Mapping[str, Callable[[Any], Any]]
Rows = QuerySet[Model] | Iterable[object]
FORMATS = ("csv", "json")
CHUNK = 500
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")
_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?|-inf")


def export(rows: Rows, columns: Columns, file_format: str, name: str) -> StreamingHttpResponse:
    """Return a download of all rows; 404 for an unknown format."""
    if file_format not in FORMATS:
        msg = "Unknown format."
        raise Http404(msg)
    lines = _csv_lines(rows, columns) if file_format == "csv" else _json_lines(rows, columns)
    kind = "text/csv; charset=utf-8" if file_format == "csv" else "application/json"
    response = StreamingHttpResponse(lines, content_type=kind)
    disposition = content_disposition_header(as_attachment=True, filename=f"{name}.{file_format}")
    response["Content-Disposition"] = disposition
    return response


def spreadsheet_safe(value: object) -> object:
    """Prefix text that a spreadsheet would run as a formula by an apostrophe; numbers are safe."""
    if not isinstance(value, str) or _NUMBER.fullmatch(value):
        return value
    is_formula = value.startswith(_FORMULA) or value.lstrip().startswith(_FORMULA)
    return f"'{value}" if is_formula else value


class _Echo:
    def write(self, line: str) -> str:
        return line


def _csv_lines(rows: Rows, columns: Columns) -> Iterator[str]:
    writer = csv.writer(_Echo())
    yield writer.writerow(map(spreadsheet_safe, columns))  # anybody may name a table's columns
    for row in _iter_rows(rows):
        yield writer.writerow([spreadsheet_safe(_plain(get(row))) for get in columns.values()])


def _json_lines(rows: Rows, columns: Columns) -> Iterator[str]:
    before = "["
    for row in _iter_rows(rows):
        values = {name: _plain(get(row)) for name, get in columns.items()}
        yield before + "\n" + json.dumps(values, ensure_ascii=False, default=str)
        before = ","
    yield "\n]\n" if before == "," else "[]\n"


def _iter_rows(rows: Rows) -> Iterable[object]:
    return rows.iterator(chunk_size=CHUNK) if isinstance(rows, QuerySet) else rows


def _plain(value: object) -> object:
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    if isinstance(value, (dict, list)):
        return json.dumps(value, ensure_ascii=False, sort_keys=True, default=str)
    return value
