"""Conversion of a table version to the next version of its Iceberg metadata.

Changes since the last converted version are read from the commits between; if these do not account
for the live files, all files are compared instead. Field ids are those of the column mapping, so
the same files serve both formats.

The metadata is below `metadata`, next to the table's data. A version, `v<number>.metadata.json`, is
put if absent, like a commit; `version-hint.text` names the latest for readers without a catalog.
"""

import io
import re
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Self

from pyiceberg.catalog.noop import NoopCatalog
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.io import FileIO, InputFile, InputStream, OutputFile, OutputStream
from pyiceberg.manifest import DataFile
from pyiceberg.table import CommitTableResponse, Table
from pyiceberg.table.metadata import TableMetadata, TableMetadataUtil, TableMetadataV2
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.table.update import (
    AddSchemaUpdate,
    RemoveSnapshotsUpdate,
    SetCurrentSchemaUpdate,
    TableRequirement,
    TableUpdate,
    update_table_metadata,
)

from engine.actions.files import AddFile, RemoveFile
from engine.clock import surely_ms
from engine.errors import FileExistsAlreadyError, FileMissingError
from engine.iceberg.data_files import IcebergFileShape, data_file, location_of
from engine.iceberg.schema import iceberg_schema, partition_spec
from engine.log.commits import read_commit
from engine.log.file_table import adds_of
from engine.log.replay import TableState
from engine.protocol.iceberg_compat import ICEBERG_DIRECTORY as DIRECTORY
from engine.protocol.properties import TableProperties
from engine.schema.types import StructType, parse_schema
from engine.storage.base import Store

VERSION_KEY = "delta-version"
KEPT_SNAPSHOTS = 20
_CLEANED_EVERY = 10
_WRITTEN_WITHIN_MS = 3_600_000  # younger files may belong to an unfinished version
_TRIES = 5
_MOST_COMMITS = 100
_SETTINGS = {
    "commit.manifest-merge.enabled": "true",
    "commit.retry.num-retries": "0",
    "write.metadata.previous-versions-max": str(KEPT_SNAPSHOTS),
}

_HINT = f"{DIRECTORY}/version-hint.text"
_NAME = re.compile(r"v([0-9]{1,15})\.metadata\.json\Z")


@dataclass(frozen=True)
class TreeVersion:
    """One version of the metadata; 0 without a file is the start of a tree."""

    number: int
    metadata: TableMetadata


class MetadataTree(NoopCatalog):
    """The Iceberg metadata of one table, in the table's own store."""

    def __init__(self, store: Store) -> None:
        """Open the metadata tree of the table in a store."""
        super().__init__("delta")
        self.location = location_of(store.root)
        self.io = StoreIO(store, self.location)
        self._store = store

    def newest(self) -> TreeVersion | None:
        """Return the latest version, None if there is none."""
        numbers = self.numbers()
        if not numbers:
            return None
        text = self._store.read(_path(numbers[-1])).decode()
        return TreeVersion(numbers[-1], TableMetadataUtil.parse_raw(text))

    def numbers(self) -> list[int]:
        """Return the existing versions in order."""
        names = (file.name for file in self._store.list_from(DIRECTORY, "v"))
        return sorted(int(match[1]) for name in names if (match := _NAME.match(name)))

    def table(self, version: TreeVersion) -> Table:
        """Open a version as a pyiceberg table; its commits become the next version."""
        place = f"{self.location}/{_path(version.number)}" if version.number else ""
        return Table(("delta",), version.metadata, place, self.io, self)

    def iter_data_files(self, metadata: TableMetadata) -> Iterator[DataFile]:
        """Yield the live files of the current snapshot."""
        snapshot = metadata.current_snapshot()
        for manifest in snapshot.manifests(self.io) if snapshot else ():
            for entry in manifest.fetch_manifest_entry(self.io, discard_deleted=True):
                yield entry.data_file

    def commit_table(
        self,
        table: Table,
        requirements: tuple[TableRequirement, ...],  # noqa: ARG002 - one version, put if absent
        updates: tuple[TableUpdate, ...],
    ) -> CommitTableResponse:
        """Write the next version.

        Raises:
            CommitFailedException: another writer took its number.
        """
        base = table.metadata_location
        match = _NAME.search(base.rpartition("/")[2])
        number = int(match[1]) + 1 if match else 1
        metadata = update_table_metadata(table.metadata, updates, metadata_location=base or None)
        try:
            text = metadata.model_dump_json(exclude_none=True)
            self._store.put_if_absent(_path(number), text.encode())
        except FileExistsAlreadyError as error:
            what = f"version {number} is there already"
            raise CommitFailedException(what) from error
        self._store.put(_HINT, str(max(self.numbers())).encode())
        where = f"{self.location}/{_path(number)}"
        return CommitTableResponse.model_validate(
            {"metadata": metadata, "metadata-location": where}
        )

    def clean(self, metadata: TableMetadata, before_ms: int) -> None:
        """Delete metadata older than a time and not referenced by any snapshot."""
        kept = set(self._iter_named_files(metadata)) | {_HINT}
        for file in list(self._store.list_all(DIRECTORY)):
            stale = file.modified_ms < before_ms and file.path not in kept
            if stale and file.name.endswith((".avro", ".json")):
                self._store.delete(file.path)

    def _iter_named_files(self, metadata: TableMetadata) -> Iterator[str]:
        yield _path(self.numbers()[-1])
        prefix = f"{self.location}/"
        for snapshot in metadata.snapshots:
            yield snapshot.manifest_list.removeprefix(prefix)
            for manifest in snapshot.manifests(self.io):
                yield manifest.manifest_path.removeprefix(prefix)
        yield from (entry.metadata_file.removeprefix(prefix) for entry in metadata.metadata_log)


def _path(number: int) -> str:
    return f"{DIRECTORY}/v{number}.metadata.json"


class StoreIO(FileIO):
    """Files below a location, read from and written to a store."""

    def __init__(self, store: Store, location: str) -> None:
        """Open the files of a store at a location."""
        super().__init__({})
        self._store = store
        self._prefix = f"{location}/"

    def new_input(self, location: str) -> InputFile:
        """Return a file for reading."""
        return _Input(location, self._store, self._path(location))

    def new_output(self, location: str) -> OutputFile:
        """Return a file for writing as a whole."""
        return _Output(location, self._store, self._path(location))

    def delete(self, location: str | InputFile | OutputFile) -> None:
        """Delete a file."""
        text = location if isinstance(location, str) else location.location
        self._store.delete(self._path(text))

    def _path(self, location: str) -> str:
        if not location.startswith(self._prefix):
            msg = f"{location} lies outside the table"
            raise FileNotFoundError(msg)
        return location.removeprefix(self._prefix)


class _Input(InputFile):
    def __init__(self, location: str, store: Store, path: str) -> None:
        super().__init__(location)
        self._store, self._path = store, path

    def __len__(self) -> int:
        status = self._store.stat(self._path)
        return 0 if status is None else status.size_bytes

    def exists(self) -> bool:
        return self._store.stat(self._path) is not None

    def open(self, seekable: bool = True) -> InputStream:  # noqa: ARG002 - pyiceberg's signature
        try:
            return io.BytesIO(self._store.read(self._path))
        except FileMissingError as error:
            raise FileNotFoundError(self.location) from error


class _Output(OutputFile):
    def __init__(self, location: str, store: Store, path: str) -> None:
        super().__init__(location)
        self._store, self._path = store, path

    def __len__(self) -> int:
        return len(self.to_input_file())

    def exists(self) -> bool:
        return self.to_input_file().exists()

    def to_input_file(self) -> InputFile:
        return _Input(self.location, self._store, self._path)

    def create(self, overwrite: bool = False) -> OutputStream:
        return _OutputStream(self._store, self._path, overwrite=overwrite)


class _OutputStream(io.BytesIO):
    """Bytes written to the store on close, but not after an error."""

    def __init__(self, store: Store, path: str, *, overwrite: bool) -> None:
        super().__init__()
        self._store, self._path, self._overwrite = store, path, overwrite

    def close(self) -> None:
        if not self.closed:
            put = self._store.put if self._overwrite else self._store.put_if_absent
            put(self._path, self.getvalue())
        super().close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_error: object) -> None:
        if kind is not None:
            super().close()
        self.close()


@dataclass(frozen=True)
class _ConvertedVersion:
    """The table version to convert."""

    store: Store
    state: TableState
    schema: StructType
    shape: IcebergFileShape


@dataclass(frozen=True)
class _Changes:
    added: Mapping[str, AddFile]
    removed: frozenset[str]


def convert(
    store: Store, state: TableState, now_ms: int, allowed_roots: tuple[str, ...] = ()
) -> int | None:
    """Bring the Iceberg metadata up to a version of the table.

    Returns:
        The number of the metadata's version, None if it is up to date.

    Raises:
        EngineError: the table cannot be read as Iceberg, or the store fails.
        CommitFailedException: other writers kept committing first.
    """
    schema = parse_schema(state.metadata.schema_string)
    shape = IcebergFileShape.build(
        store.root, schema, state.metadata.partition_columns, allowed_roots
    )
    source, tree = _ConvertedVersion(store, state, schema, shape), MetadataTree(store)
    for left in range(_TRIES - 1, -1, -1):
        base = tree.newest()
        if base is not None and _version_of(base.metadata) >= state.version:
            return None
        try:
            return _write_next(tree, base, source, now_ms)
        except CommitFailedException:
            if not left:
                raise
    return None


def _write_next(
    tree: MetadataTree, base: TreeVersion | None, source: _ConvertedVersion, now_ms: int
) -> int:
    number = base.number if base else 0
    first = _first(tree, source)
    continues = base is not None and _partitions(base.metadata) == _partitions(first)
    version = TreeVersion(
        number, _evolve_metadata(base.metadata, source) if base and continues else first
    )
    changes = _changes(tree, version.metadata, source)
    table = tree.table(version)
    stamps = {VERSION_KEY: str(source.state.version), "delta-timestamp": str(now_ms)}
    with table.transaction() as transaction:
        transaction.set_properties({**_SETTINGS, **stamps})
        update = transaction.update_snapshot(snapshot_properties=stamps)
        if changes.removed:
            gone = _data_files(tree, version.metadata, changes.removed)
            with update.overwrite() as producer:
                for file in gone:
                    producer.delete_data_file(file)
                for add in changes.added.values():
                    producer.append_data_file(data_file(add, source.shape))
        elif changes.added:
            with update.merge_append() as producer:
                for add in changes.added.values():
                    producer.append_data_file(data_file(add, source.shape))
    number += 1
    if number % _CLEANED_EVERY == 0:
        properties = TableProperties.parse(source.state.metadata.configuration)
        kept_ms = max(properties.deleted_file_retention_ms, _WRITTEN_WITHIN_MS)
        tree.clean(table.metadata, now_ms - surely_ms(kept_ms))
    return number


def _first(tree: MetadataTree, source: _ConvertedVersion) -> TableMetadata:
    schema = iceberg_schema(source.schema)
    spec = partition_spec(source.schema, source.state.metadata.partition_columns)
    return TableMetadataV2.model_validate(
        {
            "location": tree.location,
            "table-uuid": _identity(source.state.metadata.id),
            "last-column-id": schema.highest_field_id,
            "schemas": [schema],
            "current-schema-id": 0,
            "partition-specs": [spec],
            "default-spec-id": 0,
            "last-partition-id": spec.last_assigned_field_id,
            "sort-orders": [UNSORTED_SORT_ORDER],
            "properties": {},
        }
    )


def _identity(table_id: str) -> uuid.UUID:
    try:
        return uuid.UUID(table_id)
    except ValueError:
        return uuid.uuid5(uuid.NAMESPACE_OID, table_id)


def _partitions(metadata: TableMetadata) -> list[tuple[int, str]]:
    """Return the partition fields of manifests, which are not reusable for another layout."""
    schema = metadata.schema()
    fields = metadata.spec().fields
    return [(field.source_id, str(schema.find_type(field.source_id))) for field in fields]


def _evolve_metadata(base: TableMetadata, source: _ConvertedVersion) -> TableMetadata:
    """Update the metadata to the table's current schema, and remove expired snapshots."""
    updates: list[TableUpdate] = []
    target = iceberg_schema(source.schema)
    equal_schemas = [schema for schema in base.schemas if schema.as_struct() == target.as_struct()]
    if equal_schemas and equal_schemas[-1].schema_id != base.current_schema_id:
        updates.append(_current(equal_schemas[-1].schema_id))
    elif not equal_schemas:
        number = max(schema.schema_id for schema in base.schemas) + 1
        new = iceberg_schema(source.schema, number)
        updates += [AddSchemaUpdate(schema=new), _current(-1)]
    old = [snapshot.snapshot_id for snapshot in base.snapshots[:-KEPT_SNAPSHOTS]]
    if old:
        updates.append(RemoveSnapshotsUpdate.model_validate({"snapshot-ids": old}))
    spec = partition_spec(source.schema, source.state.metadata.partition_columns)
    named = base.model_copy(update={"partition_specs": [spec]})  # a column may have been renamed
    return update_table_metadata(named, tuple(updates)) if updates else named


def _current(schema_id: int) -> SetCurrentSchemaUpdate:
    """Name the schema in force; -1 is the one added last."""
    return SetCurrentSchemaUpdate.model_validate({"schema-id": schema_id})


def _changes(tree: MetadataTree, base: TableMetadata, source: _ConvertedVersion) -> _Changes:
    snapshot = base.current_snapshot()
    summary = snapshot.summary if snapshot else None
    before = int(summary["total-data-files"] or 0) if summary else 0
    changes = _read_changes(base, source) if snapshot else None
    live = source.state.files.num_rows
    if changes is not None and before + len(changes.added) - len(changes.removed) == live:
        return changes
    adds = {source.shape.uri(add.path): add for add in adds_of(source.state.files)}
    have = frozenset(file.file_path for file in tree.iter_data_files(base))
    added = {place: add for place, add in adds.items() if place not in have}
    return _Changes(added, have - adds.keys())


def _read_changes(base: TableMetadata, source: _ConvertedVersion) -> _Changes | None:
    """Read the changes of the commits since the base; return None if one is unreadable."""
    first, last = _version_of(base) + 1, source.state.version
    if last - first >= _MOST_COMMITS:
        return None
    added: dict[str, AddFile] = {}
    removed: set[str] = set()
    try:
        for version in range(first, last + 1):
            for action in read_commit(source.store, version).actions:
                if isinstance(action, AddFile):
                    added[source.shape.uri(action.path)] = action
                elif isinstance(action, RemoveFile):
                    place = source.shape.uri(action.path)
                    if added.pop(place, None) is None:
                        removed.add(place)
    except FileMissingError:
        return None
    again = removed & added.keys()
    return None if again else _Changes(added, frozenset(removed))


def _data_files(
    tree: MetadataTree, metadata: TableMetadata, places: frozenset[str]
) -> list[DataFile]:
    return [file for file in tree.iter_data_files(metadata) if file.file_path in places]


def _version_of(metadata: TableMetadata) -> int:
    text = metadata.properties.get(VERSION_KEY, "")
    return int(text) if text.isdecimal() else -1
