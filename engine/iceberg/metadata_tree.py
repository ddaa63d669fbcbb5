"""Versions of a table's Iceberg metadata, `metadata/v<number>.metadata.json`, and their files.

A version is put if absent, like a commit; `version-hint.text` names the latest for readers without
a catalog. Everything is below `metadata`, next to the table's data.
"""

import io
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from pyiceberg.catalog.noop import NoopCatalog
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.io import FileIO, InputFile, InputStream, OutputFile, OutputStream
from pyiceberg.manifest import DataFile
from pyiceberg.table import CommitTableResponse, Table
from pyiceberg.table.metadata import TableMetadata, TableMetadataUtil
from pyiceberg.table.update import TableRequirement, TableUpdate, update_table_metadata

from engine.errors import FileExistsAlreadyError, FileMissingError
from engine.iceberg.data_files import location_of
from engine.protocol.iceberg_compat import ICEBERG_DIRECTORY as DIRECTORY
from engine.storage.base import Store

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


def index_by_path(files: Iterable[DataFile]) -> dict[str, Any]:
    """Index data files by path."""
    return {file.file_path: file for file in files}


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

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is not None:
            super().close()
        self.close()
