"""The messages of Unity Catalog's REST API about tables and commits, for clients and servers.

There are two generations: the preview of Unity Catalog 0.4 (snake_case), and version 1 of the Delta
API since 0.5 (kebab-case). A name that begins with `Preview` or `V1` belongs to one of them.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Self

import msgspec

from engine.actions.table import DomainMetadata, Metadata, Protocol
from engine.catalog.catalog import RatifiedCommit
from engine.schema.types import (
    DecimalType,
    PrimitiveType,
    StructField,
    StructType,
    parse_schema,
    type_to_json,
)

BASE_PATH = "/api/2.1/unity-catalog"
PREVIEW_COMMITS = "/delta/preview/commits"
V1_CONFIG = "/delta/v1/config"
V1_PROTOCOL = "1.0"
MANAGED, DELTA = "MANAGED", "DELTA"
_KNOWN_DOMAINS = frozenset({"delta.clustering", "delta.rowTracking"})
_SERVER_PROPERTIES = frozenset(
    {
        "delta.minReaderVersion",
        "delta.minWriterVersion",
        "delta.clusteringColumns",
        "delta.rowTracking.rowIdHighWaterMark",
        "delta.lastUpdateVersion",
        "delta.lastCommitTimestamp",
    }
)
_TYPE_NAMES = {"integer": "INT", "timestamp_ntz": "TIMESTAMP_NTZ"}
_TYPE_TEXTS = {"integer": "int", "long": "bigint", "short": "smallint", "byte": "tinyint"}


class StagedCommitMessage:
    """The facts of a staged commit, in either generation."""

    __slots__ = ()
    version: int
    timestamp: int
    file_name: str
    file_size: int
    file_modification_timestamp: int

    @classmethod
    def from_commit(cls, commit: RatifiedCommit) -> Self:
        """Describe a staged commit."""
        facts = {
            "version": commit.version,
            "timestamp": commit.timestamp_ms,
            "file_name": commit.file_name,
            "file_size": commit.size_bytes,
            "file_modification_timestamp": commit.modified_ms,
        }
        return cls(**facts)

    def to_commit(self) -> RatifiedCommit:
        """Return the staged commit; it is not checked."""
        size_bytes, modified_ms = self.file_size, self.file_modification_timestamp
        return RatifiedCommit(self.version, self.file_name, size_bytes, modified_ms, self.timestamp)


class PreviewCommitInfo(StagedCommitMessage, msgspec.Struct, frozen=True):
    """The facts of a staged commit in the preview."""

    version: int
    timestamp: int
    file_name: str
    file_size: int
    file_modification_timestamp: int


class V1Commit(StagedCommitMessage, msgspec.Struct, frozen=True, rename="kebab"):
    """The facts of a staged commit in version 1."""

    version: int
    timestamp: int
    file_name: str
    file_size: int
    file_modification_timestamp: int


class UnityColumn(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A column as Unity Catalog lists it."""

    name: str
    type_text: str = ""
    type_json: str = ""
    type_name: str = ""
    position: int | None = None
    nullable: bool = True
    comment: str | None = None
    partition_index: int | None = None
    type_precision: int | None = None
    type_scale: int | None = None


class PreviewProperties(msgspec.Struct, frozen=True):
    """Table properties in a commit."""

    properties: dict[str, str] = {}


class PreviewColumns(msgspec.Struct, frozen=True):
    """Columns in a commit."""

    columns: list[UnityColumn] = []


class PreviewMetadata(
    msgspec.Struct, frozen=True, omit_defaults=True, rename={"columns": "schema"}
):
    """The definition that a commit changes."""

    description: str | None = None
    columns: PreviewColumns | None = None
    properties: PreviewProperties | None = None


class PreviewCommit(msgspec.Struct, frozen=True, omit_defaults=True):
    """A request to ratify a commit, or to note published ones."""

    table_id: str
    table_uri: str
    commit_info: PreviewCommitInfo | None = None
    latest_backfilled_version: int | None = None
    metadata: PreviewMetadata | None = None


class PreviewCommitsRequest(msgspec.Struct, frozen=True, omit_defaults=True):
    """A request for the unpublished commits from a version on."""

    table_id: str
    table_uri: str
    start_version: int
    end_version: int | None = None


class PreviewCommits(msgspec.Struct, frozen=True):
    """Unpublished commits in any order, possibly not all, and the latest version."""

    latest_table_version: int
    commits: list[PreviewCommitInfo] = []


class StagingTableRequest(msgspec.Struct, frozen=True):
    """A request for the id and the location of a new table."""

    catalog_name: str
    schema_name: str
    name: str


class StagingTable(msgspec.Struct, frozen=True):
    """The id and the location of a new table."""

    id: str
    staging_location: str


class UnityTable(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A table; as a request, one to be created at a staged location."""

    name: str
    catalog_name: str
    schema_name: str
    table_type: str
    data_source_format: str = ""
    storage_location: str | None = None
    columns: list[UnityColumn] | None = None
    comment: str | None = None
    properties: dict[str, str] | None = None
    table_id: str | None = None


class CredentialsRequest(msgspec.Struct, frozen=True):
    """A request for temporary credentials of a table's location."""

    table_id: str
    operation: str


class V1Protocol(msgspec.Struct, frozen=True, rename="kebab", omit_defaults=True):
    """A table's protocol."""

    min_reader_version: int
    min_writer_version: int
    reader_features: list[str] = []
    writer_features: list[str] = []

    @classmethod
    def from_action(cls, protocol: Protocol) -> "V1Protocol":
        """Describe a protocol action."""
        return cls(
            protocol.min_reader_version,
            protocol.min_writer_version,
            list(protocol.reader_features or ()),
            list(protocol.writer_features or ()),
        )


class V1Credential(msgspec.Struct, frozen=True, rename="kebab"):
    """Temporary credentials for the files below a prefix."""

    prefix: str
    operation: str
    config: dict[str, str | None]
    expiration_time_ms: int = 0


class V1Credentials(msgspec.Struct, frozen=True, rename="kebab"):
    """Temporary credentials."""

    storage_credentials: list[V1Credential] = []


class V1StagingTable(msgspec.Struct, frozen=True, rename="kebab"):
    """The id, the location and the requirements of a new table."""

    table_id: str
    location: str
    required_protocol: V1Protocol
    required_properties: dict[str, str | None] = {}
    storage_credentials: list[V1Credential] = []
    table_type: str = MANAGED


class V1CreateTable(msgspec.Struct, frozen=True, rename="kebab", omit_defaults=True):
    """A request to give a staged table its name."""

    name: str
    location: str
    columns: dict[str, Any]
    protocol: V1Protocol
    properties: dict[str, str]
    last_commit_timestamp_ms: int
    table_type: str = ""
    partition_columns: list[str] = []
    comment: str | None = None
    domain_metadata: dict[str, Any] = {}


class V1Requirement(msgspec.Struct, frozen=True, omit_defaults=True):
    """A condition of an update: `assert-table-uuid` or `assert-etag`."""

    type: str
    uuid: str | None = None
    etag: str | None = None


class V1Update(msgspec.Struct, frozen=True, rename="kebab", omit_defaults=True, kw_only=True):
    """An update; `action` says which of the other fields it has."""

    action: str
    commit: V1Commit | None = None
    latest_published_version: int | None = None
    updates: dict[str, Any] | None = None
    removals: list[str] | None = None
    columns: dict[str, Any] | None = None
    partition_columns: list[str] | None = None
    comment: str | None = None
    protocol: V1Protocol | None = None
    domains: list[str] | None = None


class V1UpdateTable(msgspec.Struct, frozen=True):
    """A request that updates a table as a whole or not at all."""

    requirements: list[V1Requirement]
    updates: list[V1Update]


class V1TableMetadata(msgspec.Struct, frozen=True, rename="kebab", kw_only=True):
    """A table's definition."""

    table_uuid: str
    table_type: str
    location: str
    etag: str = ""
    properties: dict[str, str] = {}


class V1Table(msgspec.Struct, frozen=True, rename="kebab", kw_only=True):
    """A table: its definition, all unpublished commits, and what its clients may do to it.

    `permitted_maintenance` is an addition to Unity Catalog's own answer, which permits none.
    """

    metadata: V1TableMetadata
    commits: list[V1Commit] = []
    latest_table_version: int | None = None
    permitted_maintenance: list[str] = []


class V1CatalogConfig(msgspec.Struct, frozen=True, rename="kebab"):
    """The calls that a server offers."""

    endpoints: list[str]
    protocol_version: str


class UnityErrorBody(msgspec.Struct, frozen=True):
    """What went wrong, in either generation: `type` is version 1's, `error_code` the preview's."""

    message: str = ""
    type: str = ""
    error_code: str = ""


class V1Error(msgspec.Struct, frozen=True):
    """The wrapper of an error in version 1."""

    error: UnityErrorBody


def list_unity_columns(metadata: Metadata) -> list[UnityColumn]:
    """Describe the columns of a table's metadata."""
    partitions = list(metadata.partition_columns)
    return [
        _describe_column(column, position, partitions)
        for position, column in enumerate(parse_schema(metadata.schema_string))
    ]


def describe_metadata(metadata: Metadata) -> PreviewMetadata:
    """Describe the definition that a commit changes, for the preview."""
    properties = PreviewProperties(dict(metadata.configuration))
    columns = PreviewColumns(list_unity_columns(metadata))
    return PreviewMetadata(metadata.description, columns, properties)


def schema_to_v1(schema: StructType) -> dict[str, Any]:
    """Return a schema's JSON as version 1 has it: Delta's, with kebab-case keys in its types."""
    converted: dict[str, Any] = _rename_keys(type_to_json(schema), _KEBAB)
    return converted


def schema_from_v1(columns: Mapping[str, Any]) -> StructType:
    """Return the schema of version 1's JSON.

    Raises:
        InvalidSchemaError: it is none.
    """
    return parse_schema(_rename_keys(columns, _CAMEL))


def list_definition_updates(
    metadata: Metadata | None,
    protocol: Protocol | None,
    domains: Iterable[DomainMetadata],
    before: Mapping[str, str],
) -> list[V1Update]:
    """Return the updates that mirror what a commit changes in a table's definition.

    Args:
        metadata: the commit's metadata, if it has any.
        protocol: the commit's protocol, if it has one.
        domains: the commit's metadata domains.
        before: the catalog's table properties before the commit.
    """
    updates = []
    if metadata is not None:
        own = {key for key in before if not is_server_property(key)}
        removals = sorted(own - metadata.configuration.keys())
        columns = schema_to_v1(parse_schema(metadata.schema_string))
        updates += [
            V1Update(action="set-columns", columns=columns),
            V1Update(action="set-properties", updates=dict(metadata.configuration)),
            V1Update(action="set-table-comment", comment=metadata.description or ""),
        ]
        updates += [V1Update(action="remove-properties", removals=removals)] if removals else []
    if protocol is not None:
        described = V1Protocol.from_action(protocol)
        updates.append(V1Update(action="set-protocol", protocol=described))
    shared = [domain for domain in domains if domain.domain in _KNOWN_DOMAINS]
    if configurations := domain_configurations(shared):
        updates.append(V1Update(action="set-domain-metadata", updates=configurations))
    if removed := [domain.domain for domain in shared if domain.removed]:
        updates.append(V1Update(action="remove-domain-metadata", domains=removed))
    return updates


def domain_configurations(domains: Iterable[DomainMetadata]) -> dict[str, Any]:
    """Return the configurations of the domains that version 1 knows, by name."""
    return {
        domain.domain: msgspec.json.decode(domain.configuration)
        for domain in domains
        if domain.domain in _KNOWN_DOMAINS and not domain.removed
    }


def is_server_property(key: str) -> bool:
    """Return whether a catalog derives a property from the protocol or the log."""
    return key in _SERVER_PROPERTIES or key.startswith("delta.feature.")


def _describe_column(column: StructField, position: int, partitions: list[str]) -> UnityColumn:
    data_type = column.type
    decimal = data_type if isinstance(data_type, DecimalType) else None
    comment = column.metadata.get("comment")
    return UnityColumn(
        name=column.name,
        type_text=_type_text(type_to_json(data_type)),
        type_json=msgspec.json.encode(type_to_json(StructType((column,)))["fields"][0]).decode(),
        type_name=_type_name(data_type),
        position=position,
        nullable=column.nullable,
        comment=comment if isinstance(comment, str) else None,
        partition_index=partitions.index(column.name) if column.name in partitions else None,
        type_precision=decimal.precision if decimal else None,
        type_scale=decimal.scale if decimal else None,
    )


def _type_name(data_type: object) -> str:
    if isinstance(data_type, DecimalType):
        return "DECIMAL"
    if isinstance(data_type, PrimitiveType):
        return _TYPE_NAMES.get(data_type.name, data_type.name.upper())
    return type(data_type).__name__.removesuffix("Type").upper()


def _type_text(kind: Any) -> str:  # noqa: ANN401 - JSON
    """Render the JSON of a type as Spark's catalogString."""
    if isinstance(kind, str):
        return _TYPE_TEXTS.get(kind, kind)
    match kind["type"]:
        case "array":
            return f"array<{_type_text(kind['elementType'])}>"
        case "map":
            return f"map<{_type_text(kind['keyType'])},{_type_text(kind['valueType'])}>"
        case _:
            fields = (f"{field['name']}:{_type_text(field['type'])}" for field in kind["fields"])
            return f"struct<{','.join(fields)}>"


_KEBAB = {
    "elementType": "element-type",
    "containsNull": "contains-null",
    "keyType": "key-type",
    "valueType": "value-type",
    "valueContainsNull": "value-contains-null",
}
_CAMEL = {kebab: camel for camel, kebab in _KEBAB.items()}


def _rename_keys(kind: Any, names: Mapping[str, str]) -> Any:  # noqa: ANN401 - JSON
    """Rename the keys of types, but none in a field's metadata."""
    if isinstance(kind, Mapping):
        return {
            names.get(key, key): value if key == "metadata" else _rename_keys(value, names)
            for key, value in kind.items()
        }
    return [_rename_keys(part, names) for part in kind] if isinstance(kind, list) else kind
