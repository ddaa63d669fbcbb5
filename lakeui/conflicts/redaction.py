"""Aborted writes without facts about tables hidden from their reader.

A log shows a condition to everybody who sees its table, but an aborted write is in no log: its
condition is for people who may read the statement.
"""

import re
from collections.abc import Iterable, Iterator
from copy import copy

from lakeui.catalog.command_tables import Reader
from lakeui.conflicts.models import Conflict

_HOLDS_QUERY = re.compile(r"\bSELECT\b", re.IGNORECASE)


def redact_conflict(conflict: Conflict, reader: Reader) -> Conflict:
    """Return the conflict, or a copy without its condition if the reader may not read it."""
    if may_read_condition(conflict, reader):
        return conflict
    told = copy(conflict)
    told.current_predicate = ""
    if "facts" not in told.get_deferred_fields() and isinstance(told.facts, dict):
        current = told.facts.get("current")
        if isinstance(current, dict):
            told.facts = told.facts | {"current": current | {"predicate": None}}
    return told


def redact_conflicts(conflicts: Iterable[Conflict], reader: Reader) -> Iterator[Conflict]:
    """Yield each conflict as `redact_conflict` returns it."""
    return (redact_conflict(conflict, reader) for conflict in conflicts)


def may_read_condition(conflict: Conflict, reader: Reader) -> bool:
    """Whether the reader may see every table that the aborted write's condition can name."""
    if reader.sees_all or not conflict.current_predicate:
        return True
    if conflict.current_operation.upper() == "MERGE":
        return conflict.job is None or reader.may_read(conflict.job)
    return may_read_text(conflict.current_predicate, reader)


def may_read_text(predicate: str, reader: Reader) -> bool:
    """Whether the reader may see every table in the subqueries of a condition."""
    if reader.sees_all or not _HOLDS_QUERY.search(predicate):
        return True
    return reader.may_read_statement(f"DELETE FROM t WHERE {predicate}")  # noqa: S608 - parsed, not run
