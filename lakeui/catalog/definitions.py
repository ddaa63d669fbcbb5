"""A table's definition at a version, from mirrored commits alone, and differences between two."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import Q

from engine.actions.codec import decode_lines
from engine.actions.table import DomainMetadata, Metadata, Protocol
from engine.errors import EngineError
from engine.protocol.clustering import CLUSTERING_DOMAIN
from engine.schema.types import StructType, parse_schema
from engine.snapshot.snapshot import read_clustering_columns
from lakeui.catalog.line_differences import DiffSection, section
from lakeui.catalog.models import Commit, Table
from lakeui.catalog.schema_rows import schema_lines

DEFINES = Q(changes_metadata=True) | Q(changes_protocol=True)  # as an index has it


@dataclass(frozen=True, slots=True)
class Definition:
    """A table's definition as lines to compare; nested columns are indented."""

    schema: tuple[str, ...]
    properties: tuple[str, ...]
    layout: tuple[str, ...]


NOTHING = Definition((), (), ())


def definition_at(table: Table, version: int) -> Definition | None:
    """Return the table's own row if nothing changed since; else the last commit that changed it."""
    changed = table.commits.filter(DEFINES, changes_metadata=True)
    if version >= (table.version or 0) or not changed.filter(version__gt=version).exists():
        return _definition(_parse_schema(table.schema), table.properties, table.partition_columns)
    commit = changed.filter(version__lte=version).order_by("-version").first()
    metadata, _ = read_definition_actions(commit) if commit else (None, None)
    return definition_of(metadata) if metadata else None


def protocol_at(table: Table, version: int) -> tuple[str, ...] | None:
    """Return the protocol's lines, found as `definition_at` does."""
    changed = table.commits.filter(DEFINES, changes_protocol=True)
    if version >= (table.version or 0) or not changed.filter(version__gt=version).exists():
        return _protocol_lines(
            table.min_reader_version,
            table.min_writer_version,
            table.reader_features,
            table.writer_features,
        )
    commit = changed.filter(version__lte=version).order_by("-version").first()
    _, protocol = read_definition_actions(commit) if commit else (None, None)
    return protocol_lines(protocol) if protocol else None


def definition_of(metadata: Metadata) -> Definition:
    schema = _parse_schema(metadata.schema_string)
    return _definition(schema, metadata.configuration, metadata.partition_columns)


def protocol_lines(protocol: Protocol) -> tuple[str, ...]:
    return _protocol_lines(
        protocol.min_reader_version,
        protocol.min_writer_version,
        protocol.reader_features or (),
        protocol.writer_features or (),
    )


def read_definition_actions(commit: Commit) -> tuple[Metadata | None, Protocol | None]:
    """Return the metadata and protocol in a commit's stored text, which may be cut."""
    try:
        actions = list(decode_lines(commit.raw.encode()))
    except EngineError:
        return None, None
    metadata = next((action for action in actions if isinstance(action, Metadata)), None)
    return metadata, next((action for action in actions if isinstance(action, Protocol)), None)


def read_kept_clustering(commit: Commit, metadata: Metadata) -> tuple[str, ...]:
    """Return the clustering in the stored text of a commit that created a table."""
    try:
        actions = list(decode_lines(commit.raw.encode()))
        schema = parse_schema(metadata.schema_string)
        mode = metadata.configuration.get("delta.columnMapping.mode", "none")
        return tuple(
            f"clustered by {', '.join(read_clustering_columns(action, schema, mode))}"
            for action in actions
            if isinstance(action, DomainMetadata) and action.domain == CLUSTERING_DOMAIN
        )
    except EngineError:
        return ()


def compare_definitions(before: Definition, after: Definition) -> Iterator[DiffSection]:
    yield section("Schema", before.schema, after.schema)
    yield section("Properties", before.properties, after.properties)
    yield section("Layout", before.layout, after.layout)


def _definition(
    schema: StructType | None, properties: Mapping[str, Any], partitioned_by: Sequence[str]
) -> Definition:
    columns = ", ".join(map(str, partitioned_by))
    return Definition(
        tuple(schema_lines(schema)) if schema else (),
        tuple(f"{name} = {value}" for name, value in sorted(properties.items())),
        (f"partitioned by {columns}" if columns else "not partitioned",),
    )


def _protocol_lines(
    reader: int | None, writer: int | None, readers: Sequence[str], writers: Sequence[str]
) -> tuple[str, ...]:
    features = sorted({*readers, *writers})
    said = (f"{name} (readers too)" if name in readers else name for name in features)
    return (f"reader version {reader}", f"writer version {writer}", *said)


def _parse_schema(schema: Any) -> StructType | None:  # noqa: ANN401 - JSON
    try:
        return parse_schema(schema) if schema else None
    except EngineError:
        return None
