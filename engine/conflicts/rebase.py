"""Current carried over a winner that it does not conflict with.

A check never changes anything. This is what happens once all of them have passed.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import msgspec
from pyroaring import BitMap64

from engine.actions.codec import Action
from engine.actions.files import AddFile
from engine.conflicts.transaction_info import CurrentTransaction, WinningCommit


@dataclass(frozen=True, slots=True)
class Pending:
    """Deletion vectors that staged files are to have, by path: rows decided, bytes not yet written."""

    vectors: Mapping[str, BitMap64] = field(default_factory=dict)


NOTHING_PENDING = Pending()


def refreshed(current: CurrentTransaction, winner: WinningCommit) -> CurrentTransaction:
    """Current with the row ids that the winner gave to files it stages again.

    Row ids and statistics come from the latest `add`: a winner may have filled in either without
    touching a row.
    """
    latest = {add.path: add for add in winner.adds}
    if not any(add.path in latest for add in current.adds):
        return current
    actions = tuple(_refreshed(each, latest) for each in current.actions)
    return replace(current, actions=actions)


def _refreshed(action: Action, latest: Mapping[str, AddFile]) -> Action:
    if not isinstance(action, AddFile) or action.path not in latest:
        return action
    return with_identity_of(action, latest[action.path])


def with_identity_of(add: AddFile, latest: AddFile) -> AddFile:
    """A file staged again, with the row ids and statistics of its latest `add`, where that has any."""
    return msgspec.structs.replace(
        add,
        base_row_id=add.base_row_id if latest.base_row_id is None else latest.base_row_id,
        default_row_commit_version=add.default_row_commit_version
        if latest.default_row_commit_version is None
        else latest.default_row_commit_version,
        stats=latest.stats or add.stats,
    )
