"""The statement of a recorded operation, for forecasts, and its row of the matrix."""

from collections.abc import Mapping
from typing import Any

from engine.conflicts.statements import StatementKind

INSERT, UPDATE, DELETE, MERGE = "INSERT", "UPDATE", "DELETE", "MERGE"
OPTIMIZE, ZORDER, DEFINITION = "OPTIMIZE", "OPTIMIZE ZORDER BY", "ALTER, SET"
OTHER = "other"
"""Operations that overwrite, restore or clean: they have no row or column of the matrix."""
KINDS = (INSERT, UPDATE, DELETE, MERGE, OPTIMIZE, ZORDER, DEFINITION)

_BY_NAME = {
    "STREAMING UPDATE": StatementKind.STREAM,
    "ROW TRACKING BACKFILL": StatementKind.RESTATE,
    "REORG TABLE UPGRADE UNIFORM": StatementKind.UPGRADE,
    "CLUSTER BY": StatementKind.CLUSTER_BY,
    "ADD CONSTRAINT": StatementKind.CHECKED_ALTER,
    "DROP FEATURE": StatementKind.CHECKED_ALTER,
    "DROP COLUMNS": StatementKind.DROP_COLUMNS,
    "UPDATE SCHEMA": StatementKind.ALTER,  # delta-spark's, as the next two are
    "UPDATE COLUMN METADATA": StatementKind.ALTER,
    "REPLACE COLUMNS": StatementKind.ALTER,
    "CREATE TABLE": StatementKind.CREATE,
    "CREATE TABLE AS SELECT": StatementKind.CREATE,
}
_BY_FIRST_WORD = {
    StatementKind.INSERT: ("WRITE", "APPEND", "INSERT", "COPY"),
    StatementKind.UPDATE: ("UPDATE",),
    StatementKind.DELETE: ("DELETE",),
    StatementKind.TRUNCATE: ("TRUNCATE",),
    StatementKind.MERGE: ("MERGE",),
    StatementKind.OPTIMIZE: ("OPTIMIZE", "COMPACT"),
    StatementKind.PURGE: ("REORG", "PURGE"),
    StatementKind.RESTORE: ("RESTORE",),
    StatementKind.REPLACE: ("CLONE", "REPLACE", "CREATE"),
    StatementKind.VACUUM: ("VACUUM",),
    StatementKind.ALTER: ("SET", "UNSET", "ALTER", "ADD", "DROP", "RENAME", "CHANGE", "UPGRADE"),
}
_OF_WORD = {word: kind for kind, words in _BY_FIRST_WORD.items() for word in words}
_ROWS: Mapping[StatementKind, str] = {
    StatementKind.INSERT: INSERT,
    StatementKind.STREAM: INSERT,
    StatementKind.UPDATE: UPDATE,
    StatementKind.DELETE: DELETE,
    StatementKind.TRUNCATE: DELETE,
    StatementKind.MERGE: MERGE,
    StatementKind.OPTIMIZE: OPTIMIZE,
    StatementKind.PURGE: OPTIMIZE,
    StatementKind.ZORDER: ZORDER,
    StatementKind.ALTER: DEFINITION,
    StatementKind.DROP_COLUMNS: DEFINITION,
    StatementKind.UPGRADE: DEFINITION,
    StatementKind.CHECKED_ALTER: DEFINITION,
    StatementKind.CLUSTER_BY: DEFINITION,
}
_NO_ORDER = frozenset({None, "", "[]", "null"})


def kind_of_operation(
    operation: str, parameters: Mapping[str, Any] | None = None
) -> StatementKind | None:
    """Return the statement of an operation's name; None if the name says nothing.

    `blind_kind` gives the kind of blind writes.
    """
    words = operation.upper().replace("_", " ").split()
    if not words:
        return None
    kind = _BY_NAME.get(" ".join(words)) or _OF_WORD.get(words[0])
    orders = any(orders_rows((parameters or {}).get(name)) for name in ("zOrderBy", "clusterBy"))
    if kind is StatementKind.OPTIMIZE and (orders or "ZORDER" in words):
        return StatementKind.ZORDER
    return kind


def orders_rows(columns: object) -> bool:
    """Whether a compaction's `zOrderBy` or `clusterBy`, as text, names a column."""
    return (columns if isinstance(columns, str | None) else str(columns)) not in _NO_ORDER


def statement_kind(
    operation: str, *, is_blind_append: bool | None = None, z_order: str | None = None
) -> str:
    """Return the operation's row of the matrix; a write that read is no INSERT.

    `z_order` is the commit's `zOrderBy` as text. If blindness is not recorded, a write counts as an
    INSERT.
    """
    kind = kind_of_operation(operation, {"zOrderBy": z_order})
    row = _ROWS.get(kind, OTHER) if kind else OTHER
    return OTHER if row == INSERT and is_blind_append is False else row
