"""The seven families of operations that a colour stands for, and what a version says it did."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from lakeui.catalog.models import Commit
from lakeui.pages.units import MINUS, format_count

FAMILIES: Mapping[str, tuple[str, ...]] = {
    "delete": ("DELETE", "TRUNCATE"),
    "update": ("UPDATE",),
    "merge": ("MERGE",),
    "optimize": ("OPTIMIZE", "REORG", "COMPACT", "PURGE"),
    "vacuum": ("VACUUM",),
    "write": ("WRITE", "APPEND", "INSERT", "OVERWRITE", "STREAMING", "COPY", "RESTORE", "CLONE"),
    "meta": ("SET", "UNSET", "ALTER", "ADD", "DROP", "RENAME", "CHANGE", "UPGRADE", "CREATE"),
}
_FAMILY_OF_WORD = {word: family for family, words in FAMILIES.items() for word in words}
_HEIGHTS = {"write": 8, "optimize": 12, "vacuum": 12, "meta": 24}
_INSERTED = ("numTargetRowsInserted", "numOutputRows", "num_added_rows", "numInsertedRows")
_UPDATED = ("numTargetRowsUpdated", "numUpdatedRows", "num_updated_rows")
_DELETED = ("numTargetRowsDeleted", "numDeletedRows", "num_deleted_rows")
_NAMED_ROWS = frozenset({"write", "update", "delete", "merge"})


def family_of(operation: str) -> str:
    """The family of an operation's name or a job's kind; "other" where none fits."""
    words = operation.upper().replace("_", " ").split()
    if not words:
        return "other"
    if words[0] in {"CREATE", "REPLACE"} and "SELECT" in words:
        return "write"
    if words[:2] == ["STREAMING", "UPDATE"]:
        return "write"
    return _FAMILY_OF_WORD.get(words[0], "meta" if "TABLE" in words else "other")


def name_of(operation: str) -> str:
    """An operation as the log writes it, whatever case a writer or a job's kind came in."""
    return operation if operation.isupper() else operation.replace("_", " ").upper()


def tick_height(operation: str) -> int:
    """How high a version's tick stands on the ruler: what changes rows stands above appends."""
    return _HEIGHTS.get(family_of(operation), 16)


@dataclass(frozen=True, slots=True)
class RowCounts:
    """Rows as the writer counted them; None: it did not."""

    inserted: int | None
    updated: int | None
    deleted: int | None

    def __str__(self) -> str:
        parts = (
            ("+", self.inserted),
            ("~", self.updated),
            (MINUS, self.deleted),
        )
        return " ".join(f"{sign}{format_count(count)}" for sign, count in parts if count)


def rows_of(commit: Commit) -> RowCounts:
    """What a version's metrics say about rows."""
    metrics = commit.operation_metrics or {}
    family = family_of(commit.operation)
    if family not in _NAMED_ROWS:
        return RowCounts(None, None, None)
    inserted = _first(metrics, _INSERTED if family != "merge" else ("numTargetRowsInserted",))
    return RowCounts(
        inserted if family in {"write", "merge"} else None,
        _first(metrics, _UPDATED),
        _first(metrics, _DELETED),
    )


def what_of(commit: Commit) -> str:
    """One line on what a version was asked to do, from its parameters alone."""
    if commit.predicate:
        return commit.predicate
    parameters = commit.operation_parameters or {}
    if "epochId" in parameters:
        return f"epoch {parameters['epochId']} of {str(parameters.get('queryId', ''))[:8]}"
    names = _names(parameters)
    if names:
        return ", ".join(names)
    mode = str(parameters.get("mode", "")).lower()
    if mode:
        return mode
    return ", ".join(f"{k} {v}" for k, v in parameters.items() if v not in (None, "", "[]", "{}"))


def _names(parameters: Mapping[str, Any]) -> list[str]:
    properties = parameters.get("properties")
    if isinstance(properties, Mapping):
        return [str(name) for name in properties]
    order = parameters.get("zOrderBy") or parameters.get("clusterBy")
    if isinstance(order, Iterable) and not isinstance(order, str):
        columns = ", ".join(map(str, order))
        return [f"order by {columns}"] if columns else []
    return []


def _first(metrics: Mapping[str, Any], names: Iterable[str]) -> int | None:
    for name in names:
        try:
            return int(metrics[name])
        except (KeyError, TypeError, ValueError):
            continue
    return None
