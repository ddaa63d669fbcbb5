"""Tables in S3, Google Cloud Storage and Azure Blob Storage, through obstore.

Put-if-absent is the store's own conditional put. A put with a lost response raises
`StorageOutcomeUnknownError`: the object may exist. Before its first commit a store is tested: it
must refuse the second put-if-absent of a name.
"""

import io
import os
import re
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any

import obstore
import pyarrow as pa
from obstore.exceptions import (
    AlreadyExistsError,
    BaseError,
    NotFoundError,
    PermissionDeniedError,
    PreconditionError,
    UnauthenticatedError,
    UnknownConfigurationKeyError,
)
from obstore.store import AzureStore, GCSStore, S3Store

from engine.errors import (
    FileExistsAlreadyError,
    FileMissingError,
    RequestError,
    StorageError,
    StorageOutcomeUnknownError,
)
from engine.storage.base import FileStatus, Store, check_path

_COMMIT = re.compile(r"_delta_log/\d{20}\.json")
_proven: set[str] = set()

_CLIENT_KEYS = frozenset(
    {
        "allow_http",
        "allow_invalid_certificates",
        "connect_timeout",
        "timeout",
        "proxy_url",
        "user_agent",
        "pool_idle_timeout",
        "pool_max_idle_per_host",
    }
)
_CLIENT_DEFAULTS: dict[str, Any] = {"timeout": "60s", "connect_timeout": "10s"}
_RETRY: Any = {"max_retries": 4, "retry_timeout": timedelta(seconds=60)}
_TRUTHS = {"true": True, "false": False}
_UNSAFE = "allow_unsafe_commits"
_LIST_CHUNK = 1000
_asking_process: int | None = None
"""The first process that used a store: its client has threads."""

_NO_BUCKET = "NoSuchBucket"
_OTHER_REGION = re.compile(
    r"redirect without LOCATION|PermanentRedirect|AuthorizationHeaderMalformed"
    r"|status code: 400 Bad Request$"  # a response to HEAD has no message
)
_FIRST_TRY = "retries: 0,"
_REFUSED = re.compile(r"status code: 40[13]\b")
_STORE_SAYS = re.compile(r"<Code>([^<]*)</Code>\s*<Message>([^<]*)</Message>")


def open_object_store(root: str, storage_options: Mapping[str, str]) -> Store:
    """Open the store of a table in an object store.

    Args:
        root: normalized, `scheme://bucket/path`.
        storage_options: keys as in obstore and object_store, with or without the provider's prefix,
            in any case.

    Raises:
        RequestError: an option does not exist.
    """
    scheme, _, rest = root.partition("://")
    bucket, _, prefix = rest.partition("/")
    client, config = _split_options(storage_options)
    try:
        inner = _PROVIDERS[scheme](bucket, prefix or None, config, client)
    except (UnknownConfigurationKeyError, TypeError, ValueError) as error:
        msg = f"The storage options for {root} are not valid: {_first_line(error)}"
        raise RequestError(msg, "Check their names.", field="storage_options") from error
    except BaseError as error:
        msg = f"{root} cannot be opened: {_first_line(error)}."
        raise StorageError(msg, "Check the storage options.") from error
    return ObjectStore(root, inner, storage_options)


class ObjectStore:
    """The objects below one prefix of a bucket."""

    def __init__(
        self,
        root: str,
        inner: Any,  # noqa: ANN401 - one of obstore's stores
        storage_options: Mapping[str, str],
    ) -> None:
        self._root, self._inner = root, inner
        self.storage_options: Mapping[str, str] = dict(storage_options)
        self._probed = _find_probe_place(root, storage_options)

    @property
    def root(self) -> str:
        """The URL."""
        return self._root

    def read(self, path: str, start: int | None = None, length: int | None = None) -> bytes:
        """Read an object, or `length` bytes of it from `start`."""
        if start is None and length is None:
            with self._errors_of("read", path):
                return bytes(obstore.get(self._inner, check_path(path)).bytes())
        status = self.stat(path)
        if status is None:
            raise _file_missing_error(path)
        begin = start or 0
        end = status.size_bytes if length is None else min(begin + length, status.size_bytes)
        if begin >= end:
            return b""
        return self.read_range(path, begin, end - begin)

    def read_range(self, path: str, start: int, length: int) -> bytes:
        """Read exactly `length` existing bytes from `start`."""
        with self._errors_of("read", path):
            return bytes(
                obstore.get_range(self._inner, check_path(path), start=start, length=length)
            )

    def list_from(self, directory: str, start: str) -> Iterator[FileStatus]:
        """Yield the objects directly under a prefix named `start` or later, sorted by name."""
        inside = f"{check_path(directory)}/" if directory else ""
        offset = f"{inside}{start[:-1]}" if start else None
        statuses = (
            status
            for status in self._list(directory, offset)
            if "/" not in status.path[len(inside) :]
        )
        yield from sorted(
            (status for status in statuses if status.name >= start),
            key=lambda status: status.path,
        )

    def list_all(self, prefix: str = "") -> Iterator[FileStatus]:
        """Yield every object below a prefix."""
        yield from self._list(check_path(prefix), None)

    def list_directories(self, prefix: str) -> list[str]:
        """List the directory names under a prefix, up to the next `/`, sorted."""
        inside = f"{check_path(prefix)}/" if prefix else ""
        with self._errors_of("list", prefix):
            listed = obstore.list_with_delimiter(self._inner, prefix or None)
            return sorted(
                str(path)[len(inside) :].rstrip("/") for path in listed["common_prefixes"]
            )

    def has_objects(self, prefix: str) -> bool:
        """Return whether there is any object below a prefix."""
        with self._errors_of("list", prefix):
            chunks = obstore.list(self._inner, check_path(prefix), chunk_size=1)
            return any(chunk for chunk in chunks)

    def stat(self, path: str) -> FileStatus | None:
        """Return the object's status, None if it does not exist."""
        try:
            with self._errors_of("stat", path):
                return _status(obstore.head(self._inner, check_path(path)))
        except FileMissingError:
            return None

    def put_if_absent(self, path: str, data: bytes) -> None:
        """Write an object, unless it exists.

        Raises:
            StorageError: it is a commit, and the store would overwrite an existing one.
        """
        if self._probed is not None and is_commit(path):
            check_conditional_puts(self._probed, self._create, self.delete)
        self._create(path, data)

    def _create(self, path: str, data: bytes) -> None:
        with self._errors_of("write", path, writing=True):
            obstore.put(self._inner, check_path(path), data, mode="create", use_multipart=False)

    def put(self, path: str, data: bytes) -> None:
        """Write an object, replacing any existing one."""
        with self._errors_of("write", path, writing=True):
            obstore.put(self._inner, check_path(path), data)

    def put_stream(self, path: str, pieces: Iterable[bytes]) -> None:
        """Write an object in parts; it appears once the last one is written."""
        with self._errors_of("write", path, writing=True):
            obstore.put(self._inner, check_path(path), iter(pieces))

    def delete(self, path: str) -> None:
        """Delete an object, if it exists."""
        try:
            with self._errors_of("delete", path):
                obstore.delete(self._inner, check_path(path))
        except FileMissingError:
            return

    def open_input(self, path: str) -> pa.NativeFile:
        """Open an object for random access."""
        status = self.stat(path)
        if status is None:
            raise _file_missing_error(path)
        return pa.PythonFile(_ObjectReader(self, status), mode="r")

    def make_durable(self, paths: Iterable[str]) -> None:
        """Do nothing: stored objects are durable."""

    def _list(self, prefix: str, offset: str | None) -> Iterator[FileStatus]:
        with self._errors_of("list", prefix):
            chunks = obstore.list(
                self._inner, prefix or None, offset=offset, chunk_size=_LIST_CHUNK
            )
            statuses = [_status(meta) for chunk in chunks for meta in chunk]
        yield from statuses

    @contextmanager
    def _errors_of(self, verb: str, path: str, *, writing: bool = False) -> Iterator[None]:
        """Convert the store's errors to the engine's."""
        _check_process(self._root)
        try:
            yield
        except (AlreadyExistsError, PreconditionError) as error:
            msg = f"{path} exists already."
            raise FileExistsAlreadyError(msg) from error
        except (NotFoundError, FileNotFoundError) as error:
            if writing:
                msg = f"{path} cannot be written: the bucket of {self._root} does not exist."
                raise StorageError(msg, "Create the bucket, or check its name.") from error
            raise _file_missing_error(path) from error
        except (BaseError, OSError, ValueError) as error:
            words = _words_of(error)
            is_refused = _is_refusal(error)
            # the outcome of an earlier try of a put is unknown if a later one is refused
            is_unknown = writing and not (is_refused and _FIRST_TRY in str(error))
            kind = StorageOutcomeUnknownError if is_unknown else StorageError
            if is_refused:
                msg = f"{self._root} does not allow this process to {verb} {path}: {words}."
                raise kind(msg, "Check the credentials and their permissions.") from error
            remedy = "Check the connection, then try again."
            if _NO_BUCKET in words:
                remedy = "Create the bucket, or check its name."
            elif self._root.startswith("s3://") and _OTHER_REGION.search(words):
                remedy = "Set aws_region in the storage options to the bucket's region."
            msg = f"Could not {verb} {path} in {self._root}: {words}."
            raise kind(msg, remedy) from error


def _check_process(root: str) -> None:
    """Refuse a client in a forked child, which lacks the client's threads.

    Raises:
        StorageError: the process was forked after using a store, and would wait forever.
    """
    global _asking_process
    process = os.getpid()
    if _asking_process is None:
        _asking_process = process
    elif _asking_process != process:
        what = (
            f"{root} cannot be reached from this process, because it was forked from a "
            "process that had already used an object store. The client of an object store "
            "does not survive a fork."
        )
        remedy = (
            "Start processes with multiprocessing's spawn or forkserver, or fork before the "
            "first use."
        )
        raise StorageError(what, remedy)


class _ObjectReader(io.RawIOBase):
    """An object as a file: every read is a range of it."""

    def __init__(self, store: ObjectStore, status: FileStatus) -> None:
        super().__init__()
        self._store, self._status, self._position = store, status, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._status.size_bytes}
        self._position = max(0, base[whence] + offset)
        return self._position

    def read(self, size: int = -1) -> bytes:
        left = max(0, self._status.size_bytes - self._position)
        length = left if size < 0 else min(size, left)
        if length == 0:
            return b""
        data = self._store.read_range(self._status.path, self._position, length)
        self._position += len(data)
        return data


def _find_probe_place(root: str, options: Mapping[str, str]) -> str | None:
    """Return the bucket whose conditional puts must be tested first, or None.

    Google's and Azure's stores have them; many stores implement S3's interface.
    """
    lowered = {key.lower(): str(value) for key, value in options.items()}
    if not root.startswith("s3://") or lowered.get(_UNSAFE, "").lower() == "true":
        return None
    endpoint = next((text for key, text in lowered.items() if "endpoint" in key), "S3")
    return f"s3://{root.split('/')[2]} at {endpoint}"


def _s3(bucket: str, prefix: str | None, config: Any, client: Any) -> S3Store:  # noqa: ANN401
    return S3Store(bucket, prefix=prefix, config=config, client_options=client, retry_config=_RETRY)


def _gcs(bucket: str, prefix: str | None, config: Any, client: Any) -> GCSStore:  # noqa: ANN401
    return GCSStore(
        bucket, prefix=prefix, config=config, client_options=client, retry_config=_RETRY
    )


def _azure(container: str, prefix: str | None, config: Any, client: Any) -> AzureStore:  # noqa: ANN401
    """Open an Azure store; the account comes from `container@account.…`, else from the options."""
    name, _, host = container.partition("@")
    if host:
        config = {"account_name": host.partition(".")[0], **config}
    return AzureStore(
        name, prefix=prefix, config=config, client_options=client, retry_config=_RETRY
    )


_PROVIDERS: Mapping[str, Callable[[str, str | None, Any, Any], Any]] = {
    "s3": _s3,
    "gs": _gcs,
    "az": _azure,
}
OBJECT_SCHEMES = frozenset(_PROVIDERS)


def _split_options(options: Mapping[str, str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Split options into those of the HTTP client and those of the provider."""
    client, config = dict(_CLIENT_DEFAULTS), {}
    for key, value in options.items():
        lowered = key.lower()
        plain = lowered.removeprefix("aws_").removeprefix("google_").removeprefix("azure_")
        if plain in _CLIENT_KEYS:
            client[plain] = _TRUTHS.get(str(value).lower(), value)
        elif lowered != _UNSAFE:
            config[lowered] = value
    return client, config


def _status(meta: Any) -> FileStatus:  # noqa: ANN401 - obstore's ObjectMeta
    modified_ms = int(meta["last_modified"].timestamp() * 1000)
    etag = meta["e_tag"]  # Azure quotes it, except in listings
    return FileStatus(
        str(meta["path"]), int(meta["size"]), modified_ms, etag and str(etag).strip('"')
    )


def _file_missing_error(path: str) -> FileMissingError:
    msg = f"There is no file {path}."
    return FileMissingError(msg)


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:500]


def _is_refusal(error: Exception) -> bool:
    """Return whether the store refused the credentials; listings lack a specific error type."""
    if isinstance(error, PermissionDeniedError | UnauthenticatedError):
        return True
    return isinstance(error, BaseError) and _REFUSED.search(str(error)) is not None


def _words_of(error: Exception) -> str:
    """Return the store's own message if there is one, else the client's."""
    match = _STORE_SAYS.search(str(error))
    if match is None:
        return _first_line(error).rstrip(" .:")
    return f"{match[1]}: {match[2]}"[:500].removesuffix(".")


def is_commit(path: str) -> bool:
    """Return whether a file of the store is a version of the table."""
    return _COMMIT.fullmatch(path) is not None


def check_conditional_puts(
    place: str, put_if_absent: Callable[[str, bytes], None], delete: Callable[[str], None]
) -> None:
    """Check, once per place, that a second put-if-absent of a name is refused.

    Args:
        place: the bucket and endpoint; the result holds for all tables there.
        put_if_absent: the store's method.
        delete: the store's method; log cleanup removes leftovers.

    Raises:
        StorageError: it is not refused.
    """
    if place in _proven:
        return
    probe = f"_delta_log/.put_if_absent.{uuid.uuid4().hex}.tmp"
    put_if_absent(probe, b"first")
    try:
        put_if_absent(probe, b"second")
    except FileExistsAlreadyError:
        _proven.add(place)
        return
    finally:
        with suppress(StorageError):
            delete(probe)
    what = (
        f"{place} overwrites an existing file even if it is told to write only new files. If "
        "two writers committed the same version, one commit would be lost without an error. "
        "Nothing was written."
    )
    remedy = (
        "Keep the table in a store that supports If-None-Match. If only one process ever "
        "writes, you can set the storage option allow_unsafe_commits = true."
    )
    raise StorageError(what, remedy)
