"""ALTER TABLE … DROP FEATURE: removes a feature from the protocol once the table no longer uses it.

The uses of a feature are found in a snapshot or in one action of the log, without reading anything;
a table that uses the feature is refused with all that must be undone first.

Traces of a reader feature remain in the history: in removed files and in earlier metadata. Either a
protected checkpoint (`checkpointProtection`) separates this history from later versions, or
TRUNCATE HISTORY deletes it first. Deletion vectors in use are switched off and purged first, in
commits of their own.
"""

import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple
from urllib.parse import quote

import msgspec
import pyarrow.compute as pc

from engine.actions.codec import Action
from engine.actions.files import AddFile, RemoveFile
from engine.actions.table import Metadata
from engine.clock import surely_ms
from engine.commands.alter import DropFeature
from engine.commands.maintenance import Reorg
from engine.deletion_vectors.files import locate
from engine.errors import EngineError, InvalidSchemaError, RequestError
from engine.log.cleanup import clean_log
from engine.log.commits import list_versions, read_commit
from engine.log.file_table import removes_of
from engine.log.paths import LogFileKind
from engine.log.segment import earliest_version, list_log_files
from engine.operations.define.set_properties import commit_properties
from engine.operations.execution import Execution
from engine.operations.maintenance.reorg import reorg
from engine.operations.result import OperationResult, Plan
from engine.protocol.features import (
    FEATURES,
    find_required_features,
    list_supported_features,
    remove_features,
    upgrade,
)
from engine.protocol.properties import constraint_name
from engine.schema.evolution import TYPE_CHANGES
from engine.schema.types import StructField, StructType, iter_types, parse_schema
from engine.snapshot.post_commit import checkpoint, protection_version
from engine.snapshot.snapshot import Snapshot, load_snapshot
from engine.spark.file_writer import PATH_SAFE

_log = logging.getLogger(__name__)
_PROTECTION = "checkpointProtection"
_PROTECTED = "delta.requireCheckpointProtectionBeforeVersion"
_VECTORS_KEY = "delta.enableDeletionVectors"
_PURGE_SUMMARY = "Deletion vectors would be disabled, and the files that have them rewritten. "
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


class UnknownFeatureError(RequestError, code="DELTA_FEATURE_DROP_UNSUPPORTED_CLIENT_FEATURE"):
    """There is no such feature."""


class FeatureNotPresentError(RequestError, code="DELTA_FEATURE_DROP_FEATURE_NOT_PRESENT"):
    """The table does not have the feature."""


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
        msg = f"{name} leaves nothing in the history that older readers cannot read."
        raise RequestError(msg, "Drop it without TRUNCATE HISTORY.", field="truncate_history")
    if name == _PROTECTION and not cut:
        msg = f"{name} protects history that older clients cannot read."
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
        msg = f"{name} cannot be dropped, because this engine does not support it."
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
    """Delete expired log files, then check for remaining traces of the feature."""
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
        msg = f"{name} cannot be dropped from {snapshot.table_uri}: version {last} still uses it."
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
    cutting = "the history before it would be removed; " if cut else ""
    protected = "the history before it would be protected; " if in_history and not cut else ""
    return (
        f"{first}{cutting}{protected}{name} would be removed from the protocol; concurrent "
        "writes would fail."
    )


class FeatureUse(NamedTuple):
    """A use of a feature that prevents dropping it, and the remedy."""

    what: str
    remedy: str


def use_of(snapshot: Snapshot, feature: str) -> FeatureUse | None:
    """Return a snapshot's use of a feature; None if it has none."""
    needing = _find_dependent_features(snapshot, feature)
    if needing:
        return FeatureUse(f"the feature {needing[0]} needs it", f"Drop {needing[0]} first.")
    return _USES[feature](snapshot) if feature in _USES else _column_use(snapshot, feature)


def speaks_of(action: Action, feature: str) -> bool:
    """Return whether an action of the log requires knowledge of a feature."""
    match action:
        case AddFile() | RemoveFile():
            return feature == "deletionVectors" and action.deletion_vector is not None
        case Metadata():
            return _metadata_needs(action, feature)
        case _:
            return False


def _metadata_needs(metadata: Metadata, feature: str) -> bool:
    try:
        schema = parse_schema(metadata.schema_string) if metadata.schema_string else StructType()
    except InvalidSchemaError:
        return True
    if feature in _WIDENING and any(TYPE_CHANGES in field.metadata for field in _fields(schema)):
        return True
    return feature in find_required_features(schema, metadata.configuration)


def _find_dependent_features(snapshot: Snapshot, feature: str) -> list[str]:
    have = list_supported_features(snapshot.protocol)
    return sorted(other for other in have if other in FEATURES and feature in FEATURES[other].needs)


def _property_use(key: str) -> FeatureUse:
    return FeatureUse(f"{key} is true", f"Set {key} to false first.")


def _append_only(snapshot: Snapshot) -> FeatureUse | None:
    return _property_use("delta.appendOnly") if snapshot.properties.append_only else None


def _change_feed(snapshot: Snapshot) -> FeatureUse | None:
    enabled = snapshot.properties.enable_change_data_feed
    return _property_use("delta.enableChangeDataFeed") if enabled else None


def _constraints(snapshot: Snapshot) -> FeatureUse | None:
    names = [
        name
        for key in snapshot.metadata.configuration
        if (name := constraint_name(key)) is not None
    ]
    return FeatureUse(f"it has constraints: {_few(names)}", "Drop them first.") if names else None


def _invariants(snapshot: Snapshot) -> FeatureUse | None:
    names = [
        field.name
        for field in _fields(snapshot.schema)
        if not field.nullable or "delta.invariants" in field.metadata
    ]
    what = f"it has columns with NOT NULL or another invariant: {_few(names)}"
    return FeatureUse(what, "Drop NOT NULL first.") if names else None


def _column_mapping_use(snapshot: Snapshot) -> FeatureUse | None:
    if snapshot.mapping_mode == "none":
        return None
    what = f"columns are mapped by {snapshot.mapping_mode}, and have different names in the files"
    return FeatureUse(what, "Load the rows into a table without delta.columnMapping.mode.")


def _vectors(snapshot: Snapshot) -> FeatureUse | None:
    if snapshot.properties.enable_deletion_vectors:
        return _property_use("delta.enableDeletionVectors")
    column = snapshot.state.files.column("deletion_vector")
    count = len(column) - column.null_count
    what = f"{count} files have deletion vectors"
    return FeatureUse(what, "Run REORG TABLE … APPLY (PURGE) first.") if count else None


def _domains(snapshot: Snapshot) -> FeatureUse | None:
    names = sorted(snapshot.domains)
    what = f"it has metadata domains: {_few(names)}"
    return FeatureUse(what, "Remove them with the engine that wrote them.") if names else None


def _row_tracking(snapshot: Snapshot) -> FeatureUse | None:
    if snapshot.properties.row_tracking:
        return _property_use("delta.enableRowTracking")
    column = snapshot.state.files.column("base_row_id")
    count = len(column) - column.null_count
    if not count:
        return None
    what = f"{count} files have row ids, which this engine cannot remove"
    return FeatureUse(
        what, "Leave delta.enableRowTracking set to false, or drop the feature with delta-spark."
    )


def _clustering_use(snapshot: Snapshot) -> FeatureUse | None:
    names = snapshot.clustering_columns
    what = f"the table is clustered by {_few(names)}"
    return FeatureUse(what, "Run ALTER TABLE … CLUSTER BY NONE first.") if names else None


def _own_times(snapshot: Snapshot) -> FeatureUse | None:
    enabled = snapshot.properties.in_commit_timestamps
    return _property_use("delta.enableInCommitTimestamps") if enabled else None


def _no_zone(snapshot: Snapshot) -> FeatureUse | None:
    types = {str(getattr(type_, "name", "")) for type_ in iter_types(snapshot.schema)}
    what = "it has columns of type TIMESTAMP_NTZ"
    return (
        FeatureUse(what, "Load the rows into a table without that type.")
        if "timestamp_ntz" in types
        else None
    )


def _v2_checkpoints(snapshot: Snapshot) -> FeatureUse | None:
    if snapshot.properties.checkpoint_policy != "v2":
        return None
    return FeatureUse(
        "delta.checkpointPolicy is v2", "Set delta.checkpointPolicy to classic first."
    )


def _type_widening_use(snapshot: Snapshot) -> FeatureUse | None:
    if snapshot.properties.enable_type_widening:
        return _property_use("delta.enableTypeWidening")
    names = [field.name for field in _fields(snapshot.schema) if TYPE_CHANGES in field.metadata]
    what = f"columns were widened, and files may still have the narrower types: {_few(names)}"
    return FeatureUse(what, "Load the rows into a new table.") if names else None


def _nothing(_snapshot: Snapshot) -> FeatureUse | None:
    return None


def _column_use(snapshot: Snapshot, feature: str) -> FeatureUse | None:
    """Return the use of a feature by column metadata; None if no column needs it."""
    if feature not in find_required_features(snapshot.schema, {}):
        return None
    names = [
        field.name
        for field in _fields(snapshot.schema)
        if feature in find_required_features(StructType((field,)), {})
    ]
    return FeatureUse(f"columns need it: {_few(names)}", "Drop these columns first.")


_WIDENING = ("typeWidening", "typeWidening-preview")
_USES: Mapping[str, Callable[[Snapshot], FeatureUse | None]] = {
    "appendOnly": _append_only,
    "changeDataFeed": _change_feed,
    "checkConstraints": _constraints,
    "invariants": _invariants,
    "columnMapping": _column_mapping_use,
    "deletionVectors": _vectors,
    "domainMetadata": _domains,
    "rowTracking": _row_tracking,
    "clustering": _clustering_use,
    "inCommitTimestamp": _own_times,
    "timestampNtz": _no_zone,
    "v2Checkpoint": _v2_checkpoints,
    "vacuumProtocolCheck": _nothing,
    "checkpointProtection": _nothing,
    **dict.fromkeys(_WIDENING, _type_widening_use),
}


def _fields(schema: StructType) -> Iterator[StructField]:
    """Yield every field, at any depth."""
    for type_ in iter_types(schema):
        if isinstance(type_, StructType):
            yield from type_


def _few(names: tuple[str, ...] | list[str]) -> str:
    return ", ".join(names[:5]) + (" …" if len(names) > 5 else "")
