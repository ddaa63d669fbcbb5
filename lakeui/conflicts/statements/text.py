"""A recorded commit or conflict as text: its probable statement, condition and kind.

Parts missing from a log (the assignments of an UPDATE, the source of a MERGE) are an ellipsis.
Writers record conditions in their own ways (`(id#12L = 5)`, `t.id = s.id AND t.day = '…'`). A part
that cannot be parsed is left out: the rest then selects more rows than the write did, not fewer.
The kind is the operation's row of the conflict matrix.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from engine.commands.names import name_sql
from engine.conflicts.reads import SUBQUERY, row_obstacle, value_obstacle
from engine.errors import EngineError
from engine.expressions.parse import parse_condition, parse_expression
from engine.expressions.scope import Relation, Scope
from engine.expressions.traits import relations_of, split_conjuncts
from engine.expressions.tree import Expression
from engine.schema.types import StructType, parse_schema
from engine.vocabulary import operation_named

NOT_KEPT = "…"
_CLAUSES = {
    "matchedPredicates": "MATCHED",
    "notMatchedPredicates": "NOT MATCHED",
    "notMatchedBySourcePredicates": "NOT MATCHED BY SOURCE",
}

INSERT, UPDATE, DELETE, MERGE = "INSERT", "UPDATE", "DELETE", "MERGE"
OPTIMIZE, ZORDER, DEFINITION = "OPTIMIZE", "OPTIMIZE ZORDER BY", "ALTER, SET"
OTHER = "other"
"""Operations that overwrite, restore or clean: they have no row or column of the matrix."""
KINDS = (INSERT, UPDATE, DELETE, MERGE, OPTIMIZE, ZORDER, DEFINITION)
_OF_STATEMENT = {"insert": INSERT, "stream": INSERT, "optimize zorder by": ZORDER, "create": OTHER}
_OF_FAMILY = {row.lower(): row for row in (UPDATE, DELETE, MERGE, OPTIMIZE)} | {"meta": DEFINITION}

MAX_CHARACTERS = 4_000
_NUMBERED = re.compile(r"(?<=\w)#\d{1,12}L?\b")
_DIGIT = re.compile(r"\d")
_SUBQUERY = re.compile(r"\(\s*SELECT\b|\bEXISTS\s*\(|scalar-subquery|\bListQuery\b", re.IGNORECASE)
_TARGETS = ("t", "target", "tgt")
_SOURCE, _SOURCES = "source", ("s", "source", "src", "u", "updates")
Names = tuple[tuple[str, ...], tuple[str, ...]]
"""The names of a statement's target, and of its source."""
_USUAL: Names = (_TARGETS, _SOURCES)

_NOT_TYPED = re.compile(
    r"('(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.)*\")|`([A-Za-z_]\w*)`|(?<=\w)#\d{1,12}L?\b"
)
"""Texts, which stay; backticks around plain names and Spark's column numbers, which are removed."""


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


@dataclass(frozen=True, slots=True)
class RecordedCondition:
    """A recorded condition. `parts` are its parsed parts, joined by AND.

    `obstacle` says why it cannot be decided at row level; `is_whole`: every part was parsed.
    """

    text: str
    parts: tuple[Expression, ...] = ()
    obstacle: str | None = None
    is_whole: bool = False

    @property
    def target_parts(self) -> tuple[Expression, ...]:
        """The parts on the table alone, not on the source of a MERGE."""
        return tuple(part for part in self.parts if _SOURCE not in relations_of(part))


@lru_cache(maxsize=4096)
def parse_recorded_condition(
    text: str, schema_json: str, names: Names = _USUAL
) -> RecordedCondition:
    """Parse a condition on a table of this schema, with the usual names by default."""
    clean = _NUMBERED.sub("", text[:MAX_CHARACTERS])
    if _SUBQUERY.search(clean):
        return RecordedCondition(text, obstacle=SUBQUERY, is_whole=True)
    scopes = _scopes(schema_json, names)
    whole = _parse_in_scopes(clean, scopes) if len(text) <= MAX_CHARACTERS else None
    if whole is not None:
        return RecordedCondition(text, split_conjuncts(whole), row_obstacle(whole), is_whole=True)
    parts = [
        condition
        for part in _conjuncts(clean)
        if (condition := _parse_in_scopes(part, scopes)) is not None
    ]
    obstacle = next((why for part in parts if (why := row_obstacle(part))), None)
    return RecordedCondition(text, tuple(parts), obstacle)


def obstacle_of_value(text: str, schema_json: str, names: Names) -> str | None:
    """Return why an assignment of a MERGE prevents comparing rows; None if nothing is known."""
    if _SUBQUERY.search(text):
        return SUBQUERY
    for scope in _scopes(schema_json, names):
        try:
            return value_obstacle(parse_expression(text, scope))
        except EngineError:
            continue
    return None


def shape_of(text: str) -> str:
    """Return a condition's shape: every digit replaced, so that numbers and days do not matter."""
    return _DIGIT.sub("1", text)


@lru_cache(maxsize=256)
def _scopes(schema_json: str, names: Names) -> tuple[Scope, ...]:
    """Return the scope of the table alone, and as a MERGE target whose source has its columns."""
    try:
        schema = parse_schema(schema_json)
    except EngineError:
        schema = StructType(())
    target, source = names
    table = Relation(schema, names=target)
    return Scope((table,)), Scope((table, Relation(schema, side=_SOURCE, names=source)))


def _parse_in_scopes(text: str, scopes: Iterable[Scope]) -> Expression | None:
    for scope in scopes:
        try:
            return parse_condition(text, scope)
        except EngineError:
            continue
    return None


def _conjuncts(text: str) -> Iterator[str]:
    """Yield the parts joined by top-level ANDs, by the brackets and quotes of the text."""
    depth, quote, start = 0, "", 0
    for match in re.finditer(r"['\"`()]|\bAND\b", text, re.IGNORECASE):
        mark = match[0]
        if mark in "'\"`":
            quote = "" if quote == mark else quote or mark
        elif quote:
            continue
        elif mark in "()":
            depth += 1 if mark == "(" else -1
        elif depth == 0:
            yield text[start : match.start()]
            start = match.end()
    yield text[start:]


def plain_condition(text: str) -> str:
    """Return a condition as people write it, without Spark's backticks and numbers around names.

    Backticks stay around a name that needs them: one of other letters, or a word of SQL.
    """
    return _NOT_TYPED.sub(_restore_name, text)


def _restore_name(match: re.Match[str]) -> str:
    if match[1]:
        return match[1]
    return name_sql(match[2]) if match[2] else ""


def statement_kind(
    operation: str, *, is_blind_append: bool | None = None, z_order: str | None = None
) -> str:
    """Return the operation's row of the matrix; a write that read is no INSERT.

    `z_order` is the commit's `zOrderBy` as text. If blindness is not recorded, a write counts as an
    INSERT.
    """
    named = operation_named(operation, {"zOrderBy": z_order})
    row = _OF_STATEMENT.get(named.statement) or _OF_FAMILY.get(named.family, OTHER)
    return OTHER if row == INSERT and is_blind_append is False else row
