"""ALTER TABLE … DROP FEATURE: removes a feature from the protocol once the table no longer uses it.

Traces of a reader feature remain in the history: in removed files and in earlier metadata. Either a
protected checkpoint (`checkpointProtection`) separates this history from later versions, or
TRUNCATE HISTORY deletes it first. Deletion vectors in use are switched off and purged first, in
commits of their own.
"""

import logging
from collections.abc import Iterator
from dataclasses import replace
from urllib.parse import quote

import msgspec
import pyarrow.compute as pc

from engine.actions.codec import Action
from engine.actions.files import RemoveFile
from engine.clock import surely_ms
from engine.commands.alter import DropFeature
from engine.commands.maintenance import Reorg
from engine.deletion_vectors.files import locate
from engine.errors import EngineError, RequestError
from engine.log.cleanup import clean_log
from engine.log.commits import list_versions, read_commit
from engine.log.file_table import removes_of
from engine.log.paths import LogFileKind
from engine.log.segment import earliest_version, list_log_files
from engine.operations.execution import Execution
from engine.operations.feature_uses import speaks_of, use_of
from engine.operations.reorg import reorg
from engine.operations.result import OperationResult, Plan
from engine.operations.set_properties import commit_properties
from engine.protocol.features import FEATURES, list_supported_features, remove_features, upgrade
from engine.snapshot.post_commit import checkpoint, protection_version
from engine.snapshot.snapshot import Snapshot, load_snapshot
from engine.spark.file_writer import PATH_SAFE


class UnknownFeatureError(RequestError, code="DELTA_FEATURE_DROP_UNSUPPORTED_CLIENT_FEATURE"):
    """There is no such feature."""


class FeatureNotPresentError(RequestError, code="DELTA_FEATURE_DROP_FEATURE_NOT_PRESENT"):
    """The table does not have the feature."""


_log = logging.getLogger(__name__)
_PROTECTION = "checkpointProtection"
_PROTECTED = "delta.requireCheckpointProtectionBeforeVersion"
_VECTORS_KEY = "delta.enableDeletionVectors"
_PURGE_SUMMARY = (
    "Deletion vectors would be switched off, and the files that have one rewritten without it. "
)
_TRACELESS = frozenset({"vacuumProtocolCheck"})
_DOMAINS = {"clustering": "delta.clustering", "rowTracking": "delta.rowTracking"}
_SETTINGS = {
    _PROTECTION: (_PROTECTED,),
    "inCommitTimestamp": (
        "delta.inCommitTimestampEnablementVersion",
        "delta.inCommitTimestampEnablementTimestamp",
    ),
    "rowTracking": (
        "delta.rowTracking.materializedRowIdColumnName",
        "delta.rowTracking.materializedRowCommitVersionColumnName",
        "delta.rowTrackingSuspended",
    ),
}
_MINUTE_MS = 60_000


def drop_feature(command: DropFeature, execution: Execution) -> OperationResult:
    """Run DROP FEATURE.

    Raises:
        RequestError: the table does not have the feature, uses it, or its history speaks of it.
        NeedsSparkError: files have deletion vectors, and there is no Spark to rewrite them.
        ConflictError: a concurrent commit might use it again.
    """
    snapshot = execution.table.snapshot()
    name = _resolve_feature(snapshot, command.feature)
    has_vectors = name == "deletionVectors" and use_of(snapshot, name) is not None
    if not has_vectors:
        _check_unused(snapshot, name)
    cut = command.truncate_history
    in_history = name == _PROTECTION or (FEATURES[name].reader and name not in _TRACELESS)
    _check_history(name, in_history=in_history, cut=cut)
    if execution.options.dry_run:
        first = _PURGE_SUMMARY if has_vectors else ""
        return OperationResult(plan=Plan(first + _summary(name, in_history=in_history, cut=cut)))
    before: tuple[int, ...] = ()
    if has_vectors:
        before = _purge_vectors(command, execution, snapshot)
        snapshot = execution.table.snapshot()
        _check_unused(snapshot, name)
    if in_history:
        before += _barrier(execution, snapshot, name)
    if cut:
        _cut_history(execution, name)
    result = _commit(execution, name, cut=cut, protect=in_history and not cut)
    if in_history:
        _checkpoint_after(execution)
    return replace(result, versions=(*before, *result.versions))


def _check_history(name: str, *, in_history: bool, cut: bool) -> None:
    if cut and not in_history:
        msg = f"{name} leaves nothing in the history that readers must understand."
        raise RequestError(msg, "Drop it without TRUNCATE HISTORY.", field="truncate_history")
    if name == _PROTECTION and not cut:
        msg = f"{name} guards history that older clients cannot read."
        raise RequestError(msg, "Drop it with TRUNCATE HISTORY.", field="truncate_history")


def _checkpoint_after(execution: Execution) -> None:
    """Write a checkpoint after the drop; log a failure, since an earlier checkpoint suffices."""
    try:
        checkpoint(execution.table.snapshot(), execution.now_ms)
    except EngineError as error:
        _log.warning("No checkpoint of %s after a feature went: %s", execution.table.uri, error)


def _resolve_feature(snapshot: Snapshot, feature: str) -> str:
    have = list_supported_features(snapshot.protocol)
    name = next((candidate for candidate in have if candidate.lower() == feature.lower()), None)
    if name is None:
        msg = f"{snapshot.table_uri} does not have the feature {feature}."
        is_known = feature.lower() in {candidate.lower() for candidate in FEATURES}
        kind = FeatureNotPresentError if is_known else UnknownFeatureError
        raise kind(msg, f"It has {', '.join(sorted(have))}.", field="feature")
    if name not in FEATURES:
        msg = f"{name} cannot be dropped by this engine, which does not know it."
        raise RequestError(msg, "Drop it with the engine that added it.", field="feature")
    return name


def _check_unused(snapshot: Snapshot, name: str) -> None:
    use = use_of(snapshot, name)
    if use is not None:
        msg = f"{name} cannot be dropped from {snapshot.table_uri}: {use.what}."
        raise RequestError(msg, use.remedy, field="feature")


def _purge_vectors(
    command: DropFeature, execution: Execution, snapshot: Snapshot
) -> tuple[int, ...]:
    """Switch deletion vectors off and rewrite the files with one; return the committed versions."""
    if any(add.deletion_vector for add in snapshot.add_files()) and execution.session is None:
        _ = execution.spark  # raises before anything is changed
    off = commit_properties(execution, "switch off", {_VECTORS_KEY: "false"})
    purged = reorg(Reorg(table=command.table), execution)
    return (*off.versions, *purged.versions)


def _barrier(execution: Execution, snapshot: Snapshot, name: str) -> tuple[int, ...]:
    """Commit a version and checkpoint it, so the log no longer uses the feature from there on."""
    txn = execution.begin("before the feature goes")
    if name == "deletionVectors":
        txn.stage(*_vector_tombstones(snapshot))
    operation = "Deletion Vector Tombstones" if txn.actions else "Empty Commit"
    txn.commit(operation, {}, {}, user_name=execution.options.user_name, even_if_empty=True)
    checkpoint(execution.table.snapshot(), execution.now_ms)
    return (txn.outcome.version,) if txn.outcome else ()


def _vector_tombstones(snapshot: Snapshot) -> Iterator[RemoveFile]:
    """Yield the vectors of removed files as removed files of their own.

    Clients without support for vectors would otherwise delete these files as unreferenced, while
    older versions still need them.
    """
    tombstones = set(snapshot.state.tombstones.column("path").to_pylist())
    for place in sorted(
        {
            place
            for with_vector in _list_vector_tombstones(snapshot)
            for place in _file_of(with_vector, snapshot)
        }
    ):
        if place not in tombstones:
            yield RemoveFile(path=place, data_change=False)


def _list_vector_tombstones(snapshot: Snapshot) -> list[RemoveFile]:
    tombstones = snapshot.state.tombstones
    return removes_of(tombstones.filter(pc.is_valid(tombstones.column("deletion_vector"))))


def _file_of(remove: RemoveFile, snapshot: Snapshot) -> Iterator[str]:
    """Yield a vector's path below the table, as the log spells it; nothing for an inline vector."""
    vector = remove.deletion_vector
    if vector is None or vector.storage_type == "i":
        return
    try:
        place = locate(snapshot.table_uri, vector)
    except EngineError:
        return  # outside the table: it belongs to another table
    if place.inside:
        yield quote(place.path, safe=PATH_SAFE)


def _cut_history(execution: Execution, name: str) -> None:
    """Delete expired log files, then check for remaining traces of the feature.

    Raises:
        RequestError: a version within the retention period still uses the feature.
    """
    snapshot = execution.table.snapshot()
    retention_ms = snapshot.properties.drop_feature_retention_ms
    clean_log(
        snapshot.store,
        retention_ms,
        execution.now_ms,
        granularity_ms=_MINUTE_MS,
        protected_before=protection_version(snapshot),
    )
    last = _last_trace(snapshot, name)
    if last is not None:
        hours = surely_ms(retention_ms) / 3_600_000
        msg = f"{name} cannot be dropped from {snapshot.table_uri}: version {last} still speaks of it."
        remedy = (
            f"Run it again once a checkpoint after version {last} is {hours:g} hours old"
            " (delta.dropFeatureTruncateHistory.retentionDuration), or without TRUNCATE HISTORY."
        )
        raise RequestError(msg, remedy, field="feature")


def _last_trace(snapshot: Snapshot, name: str) -> int | None:
    """Return the last version in the log with a trace of a feature; None if there is none.

    Files removed before the oldest readable version do not count: no reader needs them.
    """
    store = snapshot.store
    files = list_log_files(store)
    first = earliest_version(files) or 0
    versions = list_versions(store, first)
    if name == "v2Checkpoint":
        own = [file.version for file in files if file.name.kind is LogFileKind.CHECKPOINT_V2]
        return max(own, default=None)
    if name == _PROTECTION:
        guarded = [listed for listed in versions if listed < protection_version(snapshot)]
        return max(guarded, default=None)
    for version in reversed(versions):
        if version > first or first == 0:
            actions = read_commit(store, version).actions
            if any(speaks_of(action, name) for action in actions):
                return version
    return first if use_of(load_snapshot(store, first), name) is not None else None


def _commit(execution: Execution, name: str, *, cut: bool, protect: bool) -> OperationResult:
    """Commit the drop; it conflicts with every change since the table was examined."""
    txn = execution.begin()
    snapshot = execution.snapshot_of(txn)
    _check_unused(snapshot, name)
    txn.read_whole_table()
    protocol = remove_features(snapshot.protocol, {name})
    configuration = {
        key: value
        for key, value in snapshot.metadata.configuration.items()
        if key not in _SETTINGS.get(name, ())
    }
    if protect:
        protocol = upgrade(protocol, {_PROTECTION})
        configuration[_PROTECTED] = str(snapshot.version + 1)  # the commit sets the final version
    actions: list[Action] = [protocol]
    if configuration != snapshot.metadata.configuration:
        actions.append(msgspec.structs.replace(snapshot.metadata, configuration=configuration))
    domain = snapshot.domains.get(_DOMAINS.get(name, ""))
    if domain is not None:
        actions.append(msgspec.structs.replace(domain, removed=True))
    txn.stage(*actions)
    parameters = {"featureName": name, "truncateHistory": cut}
    return execution.commit(txn, "DROP FEATURE", parameters, {})


def _summary(name: str, *, in_history: bool, cut: bool) -> str:
    first = "A checkpoint would be written first, and " if in_history else ""
    cutting = "history be cut off before it; " if cut else ""
    protected = "history be protected; " if in_history and not cut else ""
    return f"{first}{cutting}{protected}{name} would go from the protocol; concurrent writes would fail."
