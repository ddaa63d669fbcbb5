"""Uses of a table feature: everything to undo before the feature can be dropped.

Pure: it examines a snapshot or one action of the log and reads nothing.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from engine.actions.codec import Action
from engine.actions.files import AddFile, RemoveFile
from engine.actions.table import Metadata
from engine.errors import InvalidSchemaError
from engine.protocol.features import FEATURES, find_required_features, list_supported_features
from engine.protocol.properties import constraint_name
from engine.schema.types import (
    StructField,
    StructType,
    iter_types,
    parse_schema,
)
from engine.schema.widening import TYPE_CHANGES
from engine.snapshot.snapshot import Snapshot


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
    return (
        FeatureUse(f"there are constraints: {_few(names)}", "Drop them first.") if names else None
    )


def _invariants(snapshot: Snapshot) -> FeatureUse | None:
    names = [
        field.name
        for field in _fields(snapshot.schema)
        if not field.nullable or "delta.invariants" in field.metadata
    ]
    what = f"there are columns with NOT NULL or another invariant: {_few(names)}"
    return FeatureUse(what, "Let them be null first.") if names else None


def _column_mapping_use(snapshot: Snapshot) -> FeatureUse | None:
    if snapshot.mapping_mode == "none":
        return None
    what = f"columns are mapped by {snapshot.mapping_mode}, and files have other names for them"
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
    what = f"there are metadata domains: {_few(names)}"
    return FeatureUse(what, "Remove them with the engine that wrote them.") if names else None


def _row_tracking(snapshot: Snapshot) -> FeatureUse | None:
    if snapshot.properties.row_tracking:
        return _property_use("delta.enableRowTracking")
    column = snapshot.state.files.column("base_row_id")
    count = len(column) - column.null_count
    if not count:
        return None
    what = f"{count} files carry row ids, which this engine cannot take out again"
    return FeatureUse(what, "Leave delta.enableRowTracking false, or drop it with delta-spark.")


def _clustering_use(snapshot: Snapshot) -> FeatureUse | None:
    names = snapshot.clustering_columns
    what = f"the table is clustered by {_few(names)}"
    return FeatureUse(what, "Run ALTER TABLE … CLUSTER BY NONE first.") if names else None


def _own_times(snapshot: Snapshot) -> FeatureUse | None:
    enabled = snapshot.properties.in_commit_timestamps
    return _property_use("delta.enableInCommitTimestamps") if enabled else None


def _no_zone(snapshot: Snapshot) -> FeatureUse | None:
    types = {str(getattr(type_, "name", "")) for type_ in iter_types(snapshot.schema)}
    what = "there are columns of type TIMESTAMP_NTZ"
    return (
        FeatureUse(what, "Load the rows into a table of other types.")
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
    what = f"columns were widened, and files may hold their narrower types: {_few(names)}"
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
