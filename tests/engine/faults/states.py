"""Comparable states of tables, independent of generated names and times."""

import json
import re
from typing import Any

from engine.log.checkpoint_reader import read_checkpoint
from engine.log.commits import list_versions, read_commit
from engine.log.segment import complete_checkpoints, earliest_version, list_log_files
from engine.operations.vacuum_plan import paths_of
from engine.snapshot.snapshot import Snapshot
from engine.storage.base import Store
from engine.table import DeltaTable

_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_TIMES = re.compile(r'"delta.inCommitTimestampEnablementTimestamp": "\d+"')


def state_of(snapshot: Snapshot) -> str:
    """Return rows, metadata, protocol, domains and applications, without generated names and times."""
    protocol = snapshot.protocol
    said: dict[str, Any] = {
        "rows": sorted(map(repr, snapshot.to_arrow().to_pylist())),
        "files": snapshot.file_count,
        "schema": json.loads(snapshot.metadata.schema_string),
        "partitions": list(snapshot.partition_columns),
        "properties": dict(sorted(snapshot.metadata.configuration.items())),
        "protocol": [
            protocol.min_reader_version,
            protocol.min_writer_version,
            sorted(protocol.reader_features or ()),
            sorted(protocol.writer_features or ()),
        ],
        "domains": sorted(
            (domain.domain, domain.configuration) for domain in snapshot.domains.values()
        ),
        "applications": sorted((a.app_id, a.version) for a in snapshot.set_transactions.values()),
    }
    text = _UUID.sub("*", json.dumps(said, sort_keys=True, default=str))
    return _TIMES.sub('"enabled": "*"', text)


def check_whole(store: Store) -> None:
    """Check that versions are contiguous from the first readable one and that no file is missing."""
    versions = list_versions(store)
    assert versions == list(range(versions[0], versions[-1] + 1))
    files = list_log_files(store)
    for checkpoint in complete_checkpoints(files):
        read_checkpoint(store, checkpoint)
    table = DeltaTable(store)
    newest = table.snapshot()
    table.snapshot(earliest_version(files) or 0).files()
    for add in newest.add_files():
        for path in paths_of(store.root, add):
            assert store.stat(path) is not None, f"{path} is named by the log, and gone"


def commits_of(store: Store, txn_id: str) -> list[int]:
    """Return the versions committed by a transaction or one of its steps."""
    versions = []
    for version in list_versions(store):
        info = read_commit(store, version).commit_info
        if info is not None and (info.txn_id or "").startswith(txn_id):
            versions.append(version)
    return versions
