"""The actions of one attempt: the staged ones, completed for the version they become.

Row ids follow the previous state's high-water mark, the in-commit timestamp its time. All checks
have passed, and nothing here depends on another attempt. An operation counts its staged actions; if
rebasing changes them, the difference is added to its metrics. Row counts stay as counted.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from engine.actions.codec import Action
from engine.actions.files import AddFile, RemoveFile
from engine.actions.table import DomainMetadata, Metadata
from engine.conflicts.decide.row_access import physical_rows
from engine.conflicts.isolation import ROW_TRACKING_DOMAIN
from engine.conflicts.overlap import PathChange, changes_of
from engine.transaction.pending_commit import PendingCommit, commit_info, last_row_id

_ENABLEMENT_VERSION = "delta.inCommitTimestampEnablementVersion"
_PROTECTED = "delta.requireCheckpointProtectionBeforeVersion"
_ENABLEMENT_TIMESTAMP = "delta.inCommitTimestampEnablementTimestamp"
_NAMES: Mapping[str, tuple[str, ...]] = {
    "files added": ("numAddedFiles", "numTargetFilesAdded"),
    "files removed": ("numRemovedFiles", "numTargetFilesRemoved"),
    "bytes added": ("numAddedBytes", "numTargetBytesAdded"),
    "bytes removed": ("numRemovedBytes", "numTargetBytesRemoved"),
    "vectors added": ("numDeletionVectorsAdded", "numTargetDeletionVectorsAdded"),
    "vectors removed": ("numDeletionVectorsRemoved", "numTargetDeletionVectorsRemoved"),
    "vectors updated": ("numDeletionVectorsUpdated", "numTargetDeletionVectorsUpdated"),
}
_DELETED = "numDeletedRows"
_SHARES: Mapping[str, float] = {
    "minFileSize": 0,
    "p25FileSize": 0.25,
    "p50FileSize": 0.5,
    "p75FileSize": 0.75,
    "maxFileSize": 1,
}


@dataclass(frozen=True, slots=True)
class Attempt:
    """The content of one try at one version."""

    version: int
    timestamp_ms: int
    actions: tuple[Action, ...]
    metrics: Mapping[str, Any]


def reconcile(pending_commit: PendingCommit, now_ms: int) -> Attempt:
    """Build the commit after the version the pending commit was last validated against."""
    version = pending_commit.validated_version + 1
    in_commit_ms = _choose_timestamp(pending_commit, now_ms)
    written_ms = now_ms if in_commit_ms is None else in_commit_ms
    staged = [
        _complete_action(action, pending_commit, version, written_ms)
        for action in pending_commit.current.actions
    ]
    if pending_commit.after.gives_row_ids:
        staged = list(_assign_row_ids(staged, pending_commit.row_id_high_water_mark, version))
    provenance = replace(pending_commit.provenance, metrics=rebase_metrics(pending_commit))
    info = commit_info(provenance, pending_commit.current, written_ms, in_commit_ms)
    return Attempt(version, written_ms, (info, *staged), provenance.metrics)


def rebase_metrics(pending_commit: PendingCommit) -> Mapping[str, Any]:
    """Return the operation's metrics after rebasing.

    Rows a DELETE found already deleted do not count as its own. If their number is unknown, so is
    that of its own rows.
    """
    metrics, gone = pending_commit.provenance.metrics, pending_commit.gone_count
    if not pending_commit.resolved and gone == 0:
        return metrics
    settled = dict(adjust_metrics(metrics, pending_commit.staged, pending_commit.current.actions))
    if isinstance(settled.get(_DELETED), int):
        deleted = settled.pop(_DELETED)
        settled |= {} if gone is None else {_DELETED: deleted - gone}
    return settled


def _choose_timestamp(pending_commit: PendingCommit, now_ms: int) -> int | None:
    """Return a timestamp later than the previous version's; None if not enabled."""
    if not pending_commit.after.stamps_commits:
        return None
    return max(now_ms, pending_commit.timestamp_ms + 1)


def _complete_action(
    action: Action, pending_commit: PendingCommit, version: int, timestamp_ms: int
) -> Action:
    match action:
        case RemoveFile(deletion_timestamp=None):
            return msgspec.structs.replace(action, deletion_timestamp=timestamp_ms)
        case Metadata():
            stamped = _add_timestamp_enablement(action, pending_commit, version, timestamp_ms)
            return _add_checkpoint_protection(stamped, pending_commit, version)
        case _:
            return action


def _add_timestamp_enablement(
    metadata: Metadata, pending_commit: PendingCommit, version: int, timestamp_ms: int
) -> Metadata:
    """Record the version and time at which in-commit timestamps were enabled.

    New metadata keeps the record while they are enabled: earlier versions still need it.
    """
    if pending_commit.before is None or not pending_commit.after.stamps_commits:
        return metadata
    since = {_ENABLEMENT_VERSION: str(version), _ENABLEMENT_TIMESTAMP: str(timestamp_ms)}
    if pending_commit.before.stamps_commits:
        configuration = pending_commit.before.metadata.configuration
        since = {key: configuration[key] for key in since if key in configuration}
    return msgspec.structs.replace(metadata, configuration={**metadata.configuration, **since})


def _add_checkpoint_protection(
    metadata: Metadata, pending_commit: PendingCommit, version: int
) -> Metadata:
    """Protect earlier versions when a feature is dropped under checkpoint protection."""
    after = pending_commit.after.features
    drops = pending_commit.before is not None and bool(pending_commit.before.features - after)
    if not drops or "checkpointProtection" not in after:
        return metadata
    protected = {_PROTECTED: str(version)}
    return msgspec.structs.replace(metadata, configuration={**metadata.configuration, **protected})


def _assign_row_ids(actions: list[Action], high_water_mark: int, version: int) -> Iterator[Action]:
    """Assign row ids to files without any, and update the mark; other domains stay.

    Files with ids, such as those restored by RESTORE, are counted first: their domain may have been
    removed with the feature.
    """
    mark = max([high_water_mark, *map(last_row_id, actions)])
    for action in actions:
        if isinstance(action, DomainMetadata) and action.domain == ROW_TRACKING_DOMAIN:
            continue
        if not isinstance(action, AddFile):
            yield action
            continue
        base = action.base_row_id
        if base is None:
            base, mark = mark + 1, mark + (physical_rows(action) or 0)
        since = action.default_row_commit_version
        yield msgspec.structs.replace(
            action,
            base_row_id=base,
            default_row_commit_version=version if since is None else since,
        )
    if mark != high_water_mark:
        yield _mark(mark)


def _mark(high_water_mark: int) -> DomainMetadata:
    configuration = json.dumps({"rowIdHighWaterMark": high_water_mark}, separators=(",", ":"))
    return DomainMetadata(domain=ROW_TRACKING_DOMAIN, configuration=configuration, removed=False)


def adjust_metrics(
    metrics: Mapping[str, Any], staged: Iterable[Action], final: Iterable[Action]
) -> Mapping[str, Any]:
    """Adjust an operation's metrics to the actions it finally commits.

    Only integer metrics are changed.
    """
    kept = tuple(final)
    before, after = _count_facts(staged), _count_facts(kept)
    moved = {
        name: metrics[name] + after[fact] - before[fact]
        for fact, names in _NAMES.items()
        for name in names
        if isinstance(metrics.get(name), int)
    }
    sizes = sorted(add.size for add in _new_files(kept))
    spread = {
        name: _percentile_size(sizes, share) for name, share in _SHARES.items() if name in metrics
    }
    return {**metrics, **moved, **spread}


def _new_files(actions: Iterable[Action]) -> Iterator[AddFile]:
    for change in changes_of(actions).values():
        if change.add is not None and change.remove is None:
            yield change.add


def _percentile_size(sizes: Sequence[int], share: float) -> int:
    """Return the percentile of file sizes as OPTIMIZE counts it."""
    return sizes[min(len(sizes) - 1, int(share * len(sizes)))] if sizes else 0


def _count_facts(actions: Iterable[Action]) -> Counter[str]:
    counters: Counter[str] = Counter()
    for change in changes_of(actions).values():
        counters.update(_facts(change))
    return counters


def _facts(change: PathChange) -> dict[str, int]:
    """Count the facts of a change; a file with another vector is neither added nor removed."""
    remove, add = change.remove, change.add
    had = remove is not None and remove.deletion_vector is not None
    has = add is not None and add.deletion_vector is not None
    facts = {
        "vectors added": int(has),
        "vectors removed": int(had),
        "vectors updated": int(had and has),
    }
    if remove is None and add is not None:
        facts |= {"files added": 1, "bytes added": add.size}
    elif remove is not None and add is None:
        facts |= {"files removed": 1, "bytes removed": remove.size or 0}
    return facts
