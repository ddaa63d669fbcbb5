"""Isolation levels: the table's level and the level one commit needs (SEMANTICS: levels)."""

from collections.abc import Iterable

from engine.actions.codec import Action
from engine.actions.files import AddFile, RemoveFile
from engine.actions.table import DomainMetadata
from engine.protocol.properties import IsolationLevel as IsolationLevel

ROW_TRACKING_DOMAIN = "delta.rowTracking"

DATA_CHANGING_OPERATIONS = frozenset(
    {
        "WRITE",
        "STREAMING UPDATE",
        "DELETE",
        "UPDATE",
        "TRUNCATE",
        "MERGE",
        "RESTORE",
        "CLONE",
        "CONVERT",
        "CREATE TABLE AS SELECT",
        "REPLACE TABLE",
        "REPLACE TABLE AS SELECT",
        "CREATE OR REPLACE TABLE",
        "CREATE OR REPLACE TABLE AS SELECT",
    }
)
TABLE_REPLACING_OPERATIONS = frozenset(
    {
        "CLONE",
        "REPLACE TABLE",
        "REPLACE TABLE AS SELECT",
        "CREATE OR REPLACE TABLE",
        "CREATE OR REPLACE TABLE AS SELECT",
    }
)
"""Operations that put another table in the place of this one: of two, one fails as of two that create it."""
STATE_REPLACING_OPERATIONS = TABLE_REPLACING_OPERATIONS | {"RESTORE"}
"""Operations whose result is a whole state of the table: nothing may land in between."""


def level_used(
    of_table: IsolationLevel, actions: Iterable[Action], operation: str
) -> IsolationLevel:
    """Return the level a commit is checked at and records.

    SnapshotIsolation if nothing is staged, or only file actions without data change and the
    row-tracking domain, by an operation that changes no data.
    """
    staged = tuple(actions)
    if not staged:
        return IsolationLevel.SNAPSHOT
    rearranges = operation not in DATA_CHANGING_OPERATIONS and all(map(_moves_no_data, staged))
    return IsolationLevel.SNAPSHOT if rearranges else of_table


def _moves_no_data(action: Action) -> bool:
    if isinstance(action, AddFile | RemoveFile):
        return not action.data_change
    return isinstance(action, DomainMetadata) and action.domain == ROW_TRACKING_DOMAIN
