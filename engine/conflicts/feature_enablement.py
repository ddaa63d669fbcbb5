"""Commits that only enable features which running writers need not heed.

delta-spark 4.1 and later lets a running write pass such a commit; here a table has to ask for it
(`RESOLUTION_PROPERTY`). What the write staged stays valid: nobody has to write deletion vectors, each
attempt chooses its in-commit timestamp anew, and checkpoints are written after the commit.
"""

from collections.abc import Callable, Mapping

import msgspec

from engine.actions.commit_info import CommitInfo
from engine.actions.table import Metadata, Protocol
from engine.conflicts.transaction_info import CurrentTransaction, WinningCommit
from engine.protocol.features import list_supported_features
from engine.protocol.properties import TableProperties
from engine.vocabulary import Changes, operation_named

_FEATURES = frozenset({"deletionVectors", "inCommitTimestamp", "v2Checkpoint"})


def _is_true(value: str) -> bool:
    return value.strip().lower() == "true"


_ENABLES: Mapping[str, tuple[str, Callable[[str], bool]]] = {
    "delta.enableDeletionVectors": ("deletionVectors", _is_true),
    "delta.enableInCommitTimestamps": ("inCommitTimestamp", _is_true),
    "delta.checkpointPolicy": ("v2Checkpoint", lambda value: value.strip().lower() == "v2"),
}
"""The properties that may change, the feature of each, and the values that enable it."""
_SET_ONCE = frozenset(
    {"delta.inCommitTimestampEnablementVersion", "delta.inCommitTimestampEnablementTimestamp"}
)
"""What comes with enabling in-commit timestamps, and may be added but not changed."""


def find_enabled_features(current: CurrentTransaction, winner: WinningCommit) -> tuple[str, ...]:
    """Return the features that a winning commit only enabled; empty if it did anything else.

    Empty also if the table does not ask for it, or if this transaction is more than a write of rows.
    """
    metadata, protocol = current.metadata, current.protocol
    if metadata is None or protocol is None or current.changes_terms:
        return ()
    writes_rows = operation_named(current.operation).changes == Changes.ROWS
    if not writes_rows or not _is_asked_for(metadata):
        return ()
    if any(not isinstance(action, CommitInfo | Metadata | Protocol) for action in winner.actions):
        return ()
    supported = list_supported_features(winner.protocol or protocol)
    added = supported - list_supported_features(protocol)
    dropped = list_supported_features(protocol) - supported
    enabled = _find_enabled(metadata, winner.metadata or metadata)
    if dropped or not added <= _FEATURES or enabled is None or not enabled <= supported:
        return ()
    return tuple(sorted(added | enabled))


def _is_asked_for(metadata: Metadata) -> bool:
    return TableProperties.parse(metadata.configuration).resolves_feature_enablement


def _find_enabled(before: Metadata, after: Metadata) -> frozenset[str] | None:
    """Return the features that new metadata enables; None if it changes anything else."""
    old, new = before.configuration, after.configuration
    if msgspec.structs.replace(after, configuration=old) != before or old.keys() - new.keys():
        return None
    changed = {key: value for key, value in new.items() if old.get(key) != value}
    enabled = set()
    for key, value in changed.items():
        if key in _SET_ONCE and key not in old:
            continue
        feature, enables = _ENABLES.get(key, ("", _is_true))
        if not feature or not enables(value):
            return None
        enabled.add(feature)
    return frozenset(enabled)
