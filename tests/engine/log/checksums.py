"""The checksums of versions, read and compared with their logs."""

from collections.abc import Iterator
from typing import Any

import msgspec
import pyarrow.compute as pc

from engine.actions.table import Metadata, Protocol
from engine.errors import EngineError
from engine.log.checksum import VersionChecksum, count_deletions
from engine.log.paths import checksum_path
from engine.log.replay import TableState
from engine.snapshot.snapshot import Snapshot
from engine.storage.base import Store

_MAX_BYTES = 16 * 1024 * 1024


def checksum_differences(snapshot: Snapshot) -> tuple[str, ...]:
    """Compare a version's checksum with its log; empty if they agree, or without a checksum."""
    checksum = read_checksum(snapshot.store, snapshot.version)
    return () if checksum is None else differences(checksum, snapshot.state)


def read_checksum(store: Store, version: int) -> VersionChecksum | None:
    """Read the checksum of a version; return None if it is missing or unreadable."""
    try:
        data = store.read(checksum_path(version), 0, _MAX_BYTES)
        return msgspec.convert(_drop_nulls(msgspec.json.decode(data)), VersionChecksum)
    except (EngineError, msgspec.MsgspecError, RecursionError, UnicodeError, ValueError):
        return None


def differences(checksum: VersionChecksum, state: TableState) -> tuple[str, ...]:
    """Describe where a checksum and the replayed log of its version disagree."""
    return tuple(_iter_differences(checksum, state))


def _iter_differences(checksum: VersionChecksum, state: TableState) -> Iterator[str]:
    vectors, deleted = count_deletions(state.files)
    size_bytes = int(pc.sum(state.files.column("size")).as_py() or 0)
    numbers = (
        ("files", checksum.num_files, state.files.num_rows),
        ("bytes", checksum.table_size_bytes, size_bytes),
        ("deletion vectors", checksum.num_deletion_vectors_opt, vectors),
        ("deleted rows", checksum.num_deleted_records_opt, deleted),
    )
    for what, said, counted in numbers:
        if said is not None and said != counted:
            yield f"The checksum counts {said} {what}, but the log counts {counted}."
    if _identity(checksum.metadata) != _identity(state.metadata):
        yield "The metadata in the checksum differs from the log."
    if _demands(checksum.protocol) != _demands(state.protocol):
        yield "The protocol in the checksum differs from the log."


def _identity(metadata: Metadata) -> tuple[Any, ...]:
    try:
        schema = msgspec.json.decode(metadata.schema_string)
    except (msgspec.MsgspecError, RecursionError):
        schema = metadata.schema_string
    return metadata.id, schema, list(metadata.partition_columns), metadata.configuration


def _demands(protocol: Protocol) -> tuple[Any, ...]:
    return (
        protocol.min_reader_version,
        protocol.min_writer_version,
        frozenset(protocol.reader_features or ()),
        frozenset(protocol.writer_features or ()),
    )


def _drop_nulls(value: Any) -> Any:
    """Drop null fields at any depth."""
    if isinstance(value, dict):
        return {k: _drop_nulls(item) for k, item in value.items() if item is not None}
    return [_drop_nulls(item) for item in value] if isinstance(value, list) else value
