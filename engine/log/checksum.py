"""Version checksums: a version in numbers (protocol: Version Checksum File).

They are written for other engines. This one replays the log: only commits define a version.
"""

from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from engine.actions.codec import encode
from engine.actions.integers import Long, Size
from engine.actions.table import DomainMetadata, Metadata, Protocol, SetTransaction
from engine.errors import FileExistsAlreadyError
from engine.log.paths import checksum_path
from engine.log.replay import TableState
from engine.protocol.features import has_feature
from engine.protocol.properties import TableProperties
from engine.storage.base import Store

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
    vectors, deleted = count_deletions(state.files)
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


def count_deletions(files: pa.Table) -> tuple[int, int]:
    """Count the live files with a deletion vector, and the rows deleted by the vectors."""
    column = files.column("deletion_vector")
    cardinality = pc.struct_field(column, "cardinality")
    return len(column) - column.null_count, int(pc.sum(cardinality).as_py() or 0)


def _body(action: Metadata | Protocol) -> Any:  # noqa: ANN401 - JSON
    """Return the action as in the log, without its name."""
    (body,) = msgspec.json.decode(encode(action)).values()
    return body
