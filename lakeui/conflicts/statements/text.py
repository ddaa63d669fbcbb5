"""A commit as its probable statement, from its log entry.

Parts missing from a log (the assignments of an UPDATE, the source of a MERGE) are an ellipsis.
"""

import json
from collections.abc import Mapping
from typing import Any

NOT_KEPT = "…"
_CLAUSES = {
    "matchedPredicates": "MATCHED",
    "notMatchedPredicates": "NOT MATCHED",
    "notMatchedBySourcePredicates": "NOT MATCHED BY SOURCE",
}


def statement_text(table: str, operation: str, parameters: Mapping[str, Any], where: str) -> str:
    """Return the statement; "" if an operation has none. `where` is the recorded condition."""
    name = operation.upper()
    unsaid = "" if "predicate" in parameters else NOT_KEPT
    condition = f"\nWHERE {where or unsaid}" if where or unsaid else ""
    bins = f"\nWHERE {where}" if where else ""
    simple = {
        "DELETE": f"DELETE FROM {table}{condition}",  # noqa: S608 - to be read, never run
        "UPDATE": f"UPDATE {table}\nSET {NOT_KEPT}{condition}",
        "STREAMING UPDATE": f"INSERT INTO {table}\n{NOT_KEPT}{_epoch(parameters)}",
        "OPTIMIZE": f"OPTIMIZE {table}{bins}{_order(parameters)}",
        "TRUNCATE": f"TRUNCATE TABLE {table}",
        "RESTORE": f"RESTORE TABLE {table}{_render_restore_version(parameters)}",
    }
    if name in simple:
        return simple[name]
    if name == "MERGE":
        return _merge(table, parameters, where)
    if name == "WRITE":
        return _write(table, parameters, where)
    if name in ("SET TBLPROPERTIES", "UNSET TBLPROPERTIES"):
        return f"ALTER TABLE {table}\n{name}{_properties(parameters)}"
    return ""


def _merge(table: str, parameters: Mapping[str, Any], on: str) -> str:
    clauses = [
        _clause(when, clause)
        for name, when in _CLAUSES.items()
        for clause in _decode_list(parameters.get(name))
        if isinstance(clause, dict)
    ]
    return "\n".join([f"MERGE INTO {table}", f"USING {NOT_KEPT}", f"ON {on or NOT_KEPT}", *clauses])


def _clause(when: str, clause: Mapping[str, Any]) -> str:
    condition = clause.get("predicate")
    also = f" AND {condition}" if condition else ""
    action = str(clause.get("actionType", NOT_KEPT)).upper()
    return f"WHEN {when}{also} THEN {action}"


def _write(table: str, parameters: Mapping[str, Any], where: str) -> str:
    if str(parameters.get("mode", "")).lower() != "overwrite":
        return f"INSERT INTO {table}\n{NOT_KEPT}"
    if where:
        return f"INSERT INTO {table}\nREPLACE WHERE {where}\n{NOT_KEPT}"
    return f"INSERT OVERWRITE {table}\n{NOT_KEPT}"


def _epoch(parameters: Mapping[str, Any]) -> str:
    epoch = parameters.get("epochId")
    return f"  -- epoch {epoch} of a stream" if epoch is not None else "  -- a stream"


def _order(parameters: Mapping[str, Any]) -> str:
    columns = ", ".join(str(column) for column in _decode_list(parameters.get("zOrderBy")))
    return f"\nZORDER BY ({columns})" if columns else ""


def _render_restore_version(parameters: Mapping[str, Any]) -> str:
    version = parameters.get("version")
    return f" TO VERSION AS OF {version}" if version is not None else ""


def _properties(parameters: Mapping[str, Any]) -> str:
    properties = _decode_json(parameters.get("properties"))
    if isinstance(properties, dict):
        return " (" + ", ".join(f"'{key}' = '{value}'" for key, value in properties.items()) + ")"
    return (
        " (" + ", ".join(f"'{key}'" for key in _decode_list(properties)) + ")" if properties else ""
    )


def _decode_list(value: object) -> list[Any]:
    items = _decode_json(value)
    return items if isinstance(items, list) else []


def _decode_json(value: object) -> object:
    try:
        return json.loads(value) if isinstance(value, str) else value
    except (ValueError, RecursionError):
        return value
