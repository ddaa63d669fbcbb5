"""Conditions as logs and conflicts record them: facts from their text alone.

Writers record them in their own ways (`(id#12L = 5)`, `t.id = s.id AND t.day = '…'`). A part that
cannot be parsed is left out: the rest then selects more rows than the write did, not fewer.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache

from engine.conflicts.reads import SUBQUERY, row_obstacle, value_obstacle
from engine.errors import EngineError
from engine.expressions.parse import parse_condition, parse_expression
from engine.expressions.scope import Relation, Scope
from engine.expressions.traits import relations_of, split_conjuncts
from engine.expressions.tree import Expression
from engine.schema.types import StructType, parse_schema

MAX_CHARACTERS = 4_000
_NUMBERED = re.compile(r"(?<=\w)#\d{1,12}L?\b")
_DIGIT = re.compile(r"\d")
_SUBQUERY = re.compile(r"\(\s*SELECT\b|\bEXISTS\s*\(|scalar-subquery|\bListQuery\b", re.IGNORECASE)
_TARGETS = ("t", "target", "tgt")
_SOURCE, _SOURCES = "source", ("s", "source", "src", "u", "updates")
Names = tuple[tuple[str, ...], tuple[str, ...]]
"""The names of a statement's target, and of its source."""
_USUAL: Names = (_TARGETS, _SOURCES)


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
