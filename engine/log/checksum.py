"""Version checksums: a version in numbers (protocol: Version Checksum File).

Replay of the log can be checked against them. The log always takes precedence: only commits define
a version.
"""

from collections.abc import Iterator
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from engine.actions.codec import encode
from engine.actions.integers import Long, Size
from engine.actions.table import DomainMetadata, Metadata, Protocol, SetTransaction
from engine.errors import EngineError, FileExistsAlreadyError
from engine.log.paths import checksum_path
from engine.log.replay import TableState
from engine.protocol.features import has_feature
from engine.protocol.properties import TableProperties
from engine.storage.base import Store

_MAX_BYTES = 16 * 1024 * 1024
_MAX_LISTED = 100  # applications, domains: a longer list would outweigh the commit


class VersionChecksum(
    msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True
):
    """A version in numbers. None means not recorded."""

    table_size_bytes: Size
    num_files: Size
    num_metadata: Size
    num_protocol: Size
    metadata: Metadata
    protocol: Protocol
    txn_id: str | None = None
    in_commit_timestamp_opt: Long | None = None
    set_transactions: list[SetTransaction] | None = None
    domain_metadata: list[DomainMetadata] | None = None
    num_deleted_records_opt: Size | None = None
    num_deletion_vectors_opt: Size | None = None


def checksum_of(state: TableState, properties: TableProperties) -> VersionChecksum:
    """Compute the checksum of a replayed version."""
    vectors, deleted = _deletions(state.files)
    has_vectors = has_feature(state.protocol, "deletionVectors")
    info = state.commit_info
    transactions = list(state.set_transactions.values())
    domains = list(state.domains.values())
    expire = properties.set_transaction_retention_ms is not None
    return VersionChecksum(
        table_size_bytes=int(pc.sum(state.files.column("size")).as_py() or 0),
        num_files=state.files.num_rows,
        num_metadata=1,
        num_protocol=1,
        metadata=state.metadata,
        protocol=state.protocol,
        txn_id=None if info is None else info.txn_id,
        in_commit_timestamp_opt=(
            info.in_commit_timestamp
            if info is not None and properties.in_commit_timestamps
            else None
        ),
        set_transactions=None if expire or len(transactions) > _MAX_LISTED else transactions,
        domain_metadata=None if len(domains) > _MAX_LISTED else domains,
        num_deleted_records_opt=deleted if has_vectors else None,
        num_deletion_vectors_opt=vectors if has_vectors else None,
    )


def write_checksum(store: Store, state: TableState, properties: TableProperties) -> bool:
    """Write the checksum of a version; False if it has one.

    Raises:
        StorageError: it could not be written; the version is as good without it.
    """
    checksum = checksum_of(state, properties)
    body = {
        **msgspec.to_builtins(checksum),
        "metadata": _body(checksum.metadata),
        "protocol": _body(checksum.protocol),
    }
    try:
        store.put_if_absent(checksum_path(state.version), msgspec.json.encode(body) + b"\n")
    except FileExistsAlreadyError:
        return False
    return True


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
    vectors, deleted = _deletions(state.files)
    size_bytes = int(pc.sum(state.files.column("size")).as_py() or 0)
    numbers = (
        ("files", checksum.num_files, state.files.num_rows),
        ("bytes", checksum.table_size_bytes, size_bytes),
        ("deletion vectors", checksum.num_deletion_vectors_opt, vectors),
        ("deleted rows", checksum.num_deleted_records_opt, deleted),
    )
    for what, said, counted in numbers:
        if said is not None and said != counted:
            yield f"The checksum counts {said} {what}, the log {counted}."
    if _identity(checksum.metadata) != _identity(state.metadata):
        yield "The checksum has another metadata than the log."
    if _demands(checksum.protocol) != _demands(state.protocol):
        yield "The checksum has another protocol than the log."


def _deletions(files: pa.Table) -> tuple[int, int]:
    """Count the live files with a deletion vector, and the rows deleted by the vectors."""
    column = files.column("deletion_vector")
    cardinality = pc.struct_field(column, "cardinality")
    return len(column) - column.null_count, int(pc.sum(cardinality).as_py() or 0)


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


def _body(action: Metadata | Protocol) -> Any:  # noqa: ANN401 - JSON
    """Return the action as in the log, without its name."""
    (body,) = msgspec.json.decode(encode(action)).values()
    return body


def _drop_nulls(value: Any) -> Any:  # noqa: ANN401 - JSON
    """Drop null fields at any depth."""
    if isinstance(value, dict):
        return {k: _drop_nulls(item) for k, item in value.items() if item is not None}
    return [_drop_nulls(item) for item in value] if isinstance(value, list) else value
