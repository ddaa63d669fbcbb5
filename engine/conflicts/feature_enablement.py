"""Commits that only enable features, and need not stop running writers.

delta-spark 4.1 and later lets a running write pass such a commit; here a table must request it
(`RESOLUTION_PROPERTY`). The write's staged files stay valid: deletion vectors are optional, each
attempt chooses its own in-commit timestamp, and checkpoints are written after the commit.
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
"""Properties set when in-commit timestamps are enabled: they may be added but not changed."""


def find_enabled_features(current: CurrentTransaction, winner: WinningCommit) -> tuple[str, ...]:
    """Return the features a winning commit only enabled; empty if it did anything else.

    Also empty if the table does not request this, or if this transaction is more than a write of
    rows.
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
    """Return the features enabled by new metadata; None if it changes anything else."""
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
