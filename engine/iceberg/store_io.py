"""The table's own store as the files of pyiceberg, so that both use one set of credentials."""

import io
from types import TracebackType
from typing import Self

from pyiceberg.io import FileIO, InputFile, InputStream, OutputFile, OutputStream

from engine.errors import FileMissingError
from engine.storage.base import Store


class StoreIO(FileIO):
    """Files below a location, read from and written to a store."""

    def __init__(self, store: Store, location: str) -> None:
        """The files of a store that lies at a location."""
        super().__init__({})
        self._store = store
        self._prefix = f"{location}/"

    def new_input(self, location: str) -> InputFile:
        """A file to read."""
        return _Input(location, self._store, self._path(location))

    def new_output(self, location: str) -> OutputFile:
        """A file to write whole."""
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

    def open(self, seekable: bool = True) -> InputStream:  # noqa: ARG002 - theirs
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
        return _Written(self._store, self._path, overwrite=overwrite)


class _Written(io.BytesIO):
    """Bytes that go to the store when it is closed, and not after an error."""

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
