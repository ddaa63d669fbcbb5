"""Names and colors of operations, and a version's description."""

import json
from collections.abc import Callable, Mapping
from typing import Any

from engine.vocabulary import Family, operation_named
from engine.words import count_noun
from lakeui.catalog import log_values
from lakeui.catalog.models import Commit
from lakeui.catalog.row_counts import RowCounts
from lakeui.catalog.units import MINUS, format_count

_SHORTEN = 100_000
_SAYS_NOTHING = frozenset({"none", "", "[]", "{}", "false"})
_STREAM = "lake-stream"
_HEIGHTS = {Family.WRITE: 8, Family.OPTIMIZE: 12, Family.VACUUM: 12, Family.META: 24}


def family_of(operation: str) -> Family:
    """Return the family by which an operation, named as in the log or as a job's kind, is drawn."""
    return operation_named(operation).family


def name_of(operation: str) -> str:
    """Return an operation as the log writes it, from any case."""
    return operation if operation.isupper() else operation.replace("_", " ").upper()


def tick_height(operation: str) -> int:
    """Return a tick's height on the ruler: changes of rows are higher than appends."""
    return _HEIGHTS.get(family_of(operation), 16)


def rows_text(rows: RowCounts) -> str:
    """Format +12,204 ~34,861 −7: inserted, changed, deleted; "0" for no change, "" if unknown.

    For an overwrite: 20 rows in, 1,000 rows replaced.
    """
    if not rows.is_overwrite:
        return _rows(rows, format_count)
    came = (
        "rows in not recorded"
        if rows.inserted is None
        else f"{count_noun(rows.inserted, 'row')} in"
    )
    if rows.deleted is None:
        return f"{came}, rows replaced not recorded"
    return f"{came}, {count_noun(rows.deleted, 'row')} replaced"


def short_rows(rows: RowCounts) -> str:
    """Format row counts for a narrow column: +196 k; +20 −? if the replaced rows are unknown."""
    return _rows(
        rows, lambda count: format_count(count) if count < _SHORTEN else f"{count // 1000:,} k"
    )


def _rows(rows: RowCounts, text: Callable[[int], str]) -> str:
    signed = (("+", rows.inserted), ("~", rows.updated), (MINUS, rows.deleted))
    said = " ".join(f"{sign}{text(count)}" for sign, count in signed if count)
    if rows.is_overwrite and rows.is_recorded and rows.deleted is None:
        return f"{said} {MINUS}?".strip()
    return said or ("0" if rows.is_recorded else "")


def what_of(commit: Commit) -> str:
    """Describe a version's request in one line, from its parameters alone."""
    if commit.predicate:
        return commit.predicate
    parameters = commit.operation_parameters or {}
    if "epochId" in parameters:
        return f"epoch {parameters['epochId']} of {_query(str(parameters.get('queryId', '')))}"
    parts = statements_of(commit) or _names(parameters)
    if parts:
        return ", ".join(parts)
    mode = str(parameters.get("mode", "")).lower()
    if mode:
        return mode
    return ", ".join(
        f"{k} {v}" for k, v in parameters.items() if str(v).lower() not in _SAYS_NOTHING
    )


def statements_of(commit: Commit) -> list[str]:
    """Describe each statement of a transaction: its operation and condition."""
    said = _value((commit.operation_parameters or {}).get("statements"))
    statements = said if isinstance(said, list) else []
    return [
        f"{one.get('operation', '')} {log_values.predicate(one)}".strip()
        for one in statements
        if isinstance(one, dict)
    ]


def _query(name: str) -> str:
    """Return the name of our stream, or the beginning of a Spark query's id."""
    ours, _, rest = name.partition(":")
    return rest.rpartition(":")[0] if ours == _STREAM else name[:8]


def _names(parameters: Mapping[str, Any]) -> list[str]:
    properties = _value(parameters.get("properties"))
    if isinstance(properties, Mapping):
        return [str(name) for name in properties]
    columns = _value(parameters.get("columns"))
    if columns and isinstance(columns, list):
        return [_column(column) for column in columns]
    column = _value(parameters.get("column"))
    if isinstance(column, Mapping):
        return [_column({"column": column})]
    for key, word in (("zOrderBy", "order by"), ("clusterBy", "cluster by")):
        columns = _value(parameters.get(key))
        if columns and isinstance(columns, list):
            return [f"{word} {', '.join(map(str, columns))}"]
    return []


def _column(said: object) -> str:
    """Render an added column with its type, or a column's name."""
    if isinstance(said, Mapping) and isinstance(column := said.get("column"), Mapping):
        kind = column.get("type")
        return f"{column.get('name')} {kind}" if isinstance(kind, str) else str(column.get("name"))
    return str(said)


def _value(said: object) -> object:
    """Return a parameter's value: many engines write JSON in a text."""
    if not isinstance(said, str) or said[:1] not in ("{", "["):
        return said
    try:
        return json.loads(said)
    except ValueError:
        return said
