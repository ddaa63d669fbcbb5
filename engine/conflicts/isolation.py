"""Isolation levels: the table's level and the level one commit needs (SEMANTICS: levels)."""

from collections.abc import Iterable

from engine.actions.codec import Action
from engine.actions.files import AddFile, RemoveFile
from engine.actions.table import DomainMetadata
from engine.protocol.properties import IsolationLevel as IsolationLevel
from engine.vocabulary import operation_named

ROW_TRACKING_DOMAIN = "delta.rowTracking"


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
    changes_rows = operation_named(operation).changes_rows
    rearranges = not changes_rows and all(map(_moves_no_data, staged))
    return IsolationLevel.SNAPSHOT if rearranges else of_table


def _moves_no_data(action: Action) -> bool:
    if isinstance(action, AddFile | RemoveFile):
        return not action.data_change
    return isinstance(action, DomainMetadata) and action.domain == ROW_TRACKING_DOMAIN
