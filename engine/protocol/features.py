"""Table features: a protocol's requirements on readers and writers, and this engine's support.

At writer version 7 (reader version 3) features are listed by name; at lower versions they are
implied by the number (protocol: Table Features, Appendix: Valid Feature Names).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from engine.actions.table import Protocol
from engine.errors import UnsupportedFeatureError
from engine.protocol.properties import constraint_name
from engine.schema.arrow import check_supported
from engine.schema.types import PrimitiveType, StructType, iter_types

READER_FEATURES_VERSION = 3
WRITER_FEATURES_VERSION = 7


@dataclass(frozen=True, slots=True)
class TableFeature:
    """A table feature.

    `reader`: it also concerns readers. `legacy_reader` and `legacy_writer` are the versions
    implying it, if any. `of_type` names the column type it concerns: a table without such a column
    does not need write support for it.
    """

    name: str
    reader: bool = False
    legacy_writer: int | None = None
    legacy_reader: int | None = None
    can_read: bool = True
    can_write: bool = True
    needs: tuple[str, ...] = ()
    of_type: str = ""


_ALL = (
    TableFeature("appendOnly", legacy_writer=2),
    TableFeature("invariants", legacy_writer=2),
    TableFeature("checkConstraints", legacy_writer=3),
    TableFeature("changeDataFeed", legacy_writer=4),
    TableFeature("generatedColumns", legacy_writer=4),
    TableFeature("columnMapping", reader=True, legacy_writer=5, legacy_reader=2),
    TableFeature("identityColumns", legacy_writer=6),
    TableFeature("allowColumnDefaults"),
    TableFeature("deletionVectors", reader=True),
    TableFeature("domainMetadata"),
    TableFeature("rowTracking", needs=("domainMetadata",)),
    TableFeature("clustering", needs=("domainMetadata",)),
    TableFeature("inCommitTimestamp"),
    TableFeature("checkpointProtection"),
    TableFeature("timestampNtz", reader=True),
    TableFeature("v2Checkpoint", reader=True),
    TableFeature("vacuumProtocolCheck", reader=True),
    TableFeature("typeWidening", reader=True),
    TableFeature("typeWidening-preview", reader=True),
    TableFeature("variantType", reader=True, can_write=False, of_type="variant"),
    TableFeature("variantType-preview", reader=True, can_write=False, of_type="variant"),
    TableFeature("variantShredding", reader=True, can_read=False, can_write=False),
    TableFeature("variantShredding-preview", reader=True, can_read=False, can_write=False),
    TableFeature("catalogManaged", reader=True, needs=("inCommitTimestamp", "vacuumProtocolCheck")),
    TableFeature("geospatial", reader=True, can_write=False),  # its columns are of foreign types
    TableFeature("geospatial-dev", reader=True, can_write=False),
    TableFeature("catalogOwned", reader=True, can_read=False, can_write=False),
    TableFeature("catalogOwned-preview", reader=True, can_read=False, can_write=False),
    TableFeature("icebergCompatV1", can_write=False),
    TableFeature("icebergCompatV2", needs=("columnMapping",)),
)
FEATURES: Mapping[str, TableFeature] = {feature.name: feature for feature in _ALL}

_TYPE_FEATURES = {"timestamp_ntz": "timestampNtz", "variant": "variantType"}
_FIELD_FEATURES = {
    "delta.invariants": "invariants",
    "delta.generationExpression": "generatedColumns",
    "delta.identity.start": "identityColumns",
    "CURRENT_DEFAULT": "allowColumnDefaults",
}
_PROPERTY_FEATURES = {
    "delta.enableDeletionVectors": "deletionVectors",
    "delta.enableRowTracking": "rowTracking",
    "delta.enableInCommitTimestamps": "inCommitTimestamp",
    "delta.enableChangeDataFeed": "changeDataFeed",
    "delta.enableTypeWidening": "typeWidening",
    "delta.appendOnly": "appendOnly",
    "delta.enableIcebergCompatV1": "icebergCompatV1",
    "delta.enableIcebergCompatV2": "icebergCompatV2",
}
_FEATURE_PREFIX = "delta.feature."
_NEW_TABLE = "The new table"


def check_readable(table: str, protocol: Protocol) -> None:
    """Refuse a table with requirements this engine cannot meet when reading.

    Raises:
        UnsupportedFeatureError: names the features, or the reader version.
    """
    if not 1 <= protocol.min_reader_version <= READER_FEATURES_VERSION:
        raise UnsupportedFeatureError(
            table, [f"reader version {protocol.min_reader_version}"], "read"
        )
    if protocol.min_reader_version == READER_FEATURES_VERSION:
        unknown = [n for n in protocol.reader_features or () if not _is_supported(n, writing=False)]
        if unknown:
            raise UnsupportedFeatureError(table, unknown, "read")


def check_writable(table: str, protocol: Protocol, schema: StructType | None = None) -> None:
    """Refuse a table with requirements this engine cannot meet when writing.

    `table` is its name for messages. A feature of a type without columns needs no support.

    Raises:
        UnsupportedFeatureError: names the features, or the writer version.
        UnsupportedTypeError: a column has a type only other engines support.
    """
    check_readable(table, protocol)
    check_supported(schema or ())
    if not 1 <= protocol.min_writer_version <= WRITER_FEATURES_VERSION:
        raise UnsupportedFeatureError(
            table, [f"writer version {protocol.min_writer_version}"], "write"
        )
    if protocol.min_writer_version == WRITER_FEATURES_VERSION:
        idle = frozenset() if schema is None else _idle_features(schema)
        listed = set(protocol.writer_features or ()) - idle
        unknown = [name for name in listed if not _is_supported(name, writing=True)]
        if unknown:
            raise UnsupportedFeatureError(table, unknown, "write")


def _idle_features(schema: StructType) -> frozenset[str]:
    types = {type_.name for type_ in iter_types(schema) if isinstance(type_, PrimitiveType)}
    return frozenset(
        definition.name
        for definition in _ALL
        if definition.of_type and definition.of_type not in types
    )


def has_feature(protocol: Protocol, name: str) -> bool:
    """Return whether the protocol supports a feature, by its list or implied by its version."""
    return name in list_supported_features(protocol)


def list_supported_features(protocol: Protocol) -> frozenset[str]:
    """Return the names of all features of the protocol."""
    listed = (
        set(protocol.writer_features or ())
        if protocol.min_writer_version >= WRITER_FEATURES_VERSION
        else set()
    )
    if protocol.min_reader_version >= READER_FEATURES_VERSION:
        listed.update(protocol.reader_features or ())
    if protocol.min_writer_version < WRITER_FEATURES_VERSION:
        listed.update(
            f.name
            for f in _ALL
            if f.legacy_writer and f.legacy_writer <= protocol.min_writer_version
        )
    return frozenset(listed)


def find_required_features(schema: StructType, properties: Mapping[str, str]) -> set[str]:
    """Return the features required by a schema and table properties."""
    needed = {"appendOnly", "invariants"}
    for type_ in iter_types(schema):
        if isinstance(type_, PrimitiveType) and type_.name in _TYPE_FEATURES:
            needed.add(_TYPE_FEATURES[type_.name])
        if isinstance(type_, StructType):
            keys = {key for column in type_ for key in column.metadata}
            needed.update(feature for key, feature in _FIELD_FEATURES.items() if key in keys)
    for key, value in properties.items():
        needed.update(_features_of_property(key, str(value)))
    return needed | {other for name in needed if name in FEATURES for other in FEATURES[name].needs}


def list_legacy_features(reader_version: int, writer_version: int) -> frozenset[str]:
    """Return the features implied by protocol versions; none from 7 on, where they are listed."""
    if writer_version >= WRITER_FEATURES_VERSION:
        return frozenset()
    asked = Protocol(min_reader_version=1, min_writer_version=writer_version)
    mapped = (
        {"columnMapping"} if reader_version == FEATURES["columnMapping"].legacy_reader else set()
    )
    return (list_supported_features(asked) - {"columnMapping"}) | mapped


def lowest_protocol(
    schema: StructType, properties: Mapping[str, str], features: Iterable[str] = ()
) -> Protocol:
    """Return the lowest protocol of a new table: legacy versions if they suffice, else lists.

    Raises:
        UnsupportedFeatureError: this engine cannot write a requested feature.
    """
    needed = find_required_features(schema, properties) | set(features)
    needed |= {other for name in needed if name in FEATURES for other in FEATURES[name].needs}
    unknown = [name for name in needed if not _is_supported(name, writing=True)]
    if unknown:
        raise UnsupportedFeatureError(_NEW_TABLE, unknown, "write")
    return upgrade(Protocol(min_reader_version=1, min_writer_version=2), needed)


def upgrade(protocol: Protocol, features: Iterable[str]) -> Protocol:
    """Return the protocol with more features; unchanged if it has them all."""
    requested = set(features)
    requested |= {other for name in requested if name in FEATURES for other in FEATURES[name].needs}
    have = list_supported_features(protocol)
    if requested <= have:
        return protocol
    legacy = _legacy_upgrade(protocol, requested)
    if legacy is not None:
        return legacy
    every = sorted(have | requested)
    readers = [name for name in every if name in FEATURES and FEATURES[name].reader]
    listed_readers = set(protocol.reader_features or ()) | set(readers)
    return Protocol(
        min_reader_version=READER_FEATURES_VERSION if listed_readers else 1,
        min_writer_version=WRITER_FEATURES_VERSION,
        reader_features=sorted(listed_readers) or None,
        writer_features=every,
    )


def remove_features(protocol: Protocol, features: Iterable[str]) -> Protocol:
    """Return the protocol without some features, as versions alone if they imply the rest."""
    left = list_supported_features(protocol) - set(features)
    for feature in _ALL:
        if feature.legacy_writer is not None:
            legacy = Protocol(
                min_reader_version=2 if "columnMapping" in left else 1,
                min_writer_version=feature.legacy_writer,
            )
            if list_supported_features(legacy) == left:
                return legacy
    by_list = protocol.min_reader_version >= READER_FEATURES_VERSION
    readers = [name for name in sorted(left) if name in FEATURES and FEATURES[name].reader]
    if by_list and readers:
        return Protocol(
            min_reader_version=READER_FEATURES_VERSION,
            min_writer_version=WRITER_FEATURES_VERSION,
            reader_features=readers,
            writer_features=sorted(left),
        )
    return Protocol(
        min_reader_version=2 if readers else 1,
        min_writer_version=WRITER_FEATURES_VERSION,
        writer_features=sorted(left),
    )


def _legacy_upgrade(protocol: Protocol, names: set[str]) -> Protocol | None:
    """Upgrade by versions only, if every feature is a legacy one and there are no lists yet."""
    definitions = [FEATURES.get(name) for name in names]
    if protocol.min_writer_version >= WRITER_FEATURES_VERSION:
        return None
    if any(feature is None or feature.legacy_writer is None for feature in definitions):
        return None
    writer = max((f.legacy_writer or 1 for f in definitions if f), default=1)
    reader = max((f.legacy_reader or 1 for f in definitions if f), default=1)
    return Protocol(
        min_reader_version=max(reader, protocol.min_reader_version),
        min_writer_version=max(writer, protocol.min_writer_version),
    )


def _features_of_property(key: str, value: str) -> set[str]:
    if key.startswith(_FEATURE_PREFIX):
        return {key.removeprefix(_FEATURE_PREFIX)} if value in ("supported", "enabled") else set()
    if constraint_name(key) is not None:
        return {"checkConstraints"}
    if key == "delta.columnMapping.mode":
        return {"columnMapping"} if value != "none" else set()
    if key == "delta.checkpointPolicy":
        return {"v2Checkpoint"} if value == "v2" else set()
    feature = _PROPERTY_FEATURES.get(key)
    return {feature} if feature and value.lower() == "true" else set()


def _is_supported(name: str, *, writing: bool) -> bool:
    feature = FEATURES.get(name)
    return feature is not None and (feature.can_write if writing else feature.can_read)
