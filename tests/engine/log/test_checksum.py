"""Checksums agree with the log; if they differ, the log is right."""

import json
import uuid
from dataclasses import replace
from typing import Any

import pytest

from engine.actions.commit_info import CommitInfo
from engine.actions.files import DeletionVectorDescriptor
from engine.actions.table import DomainMetadata, SetTransaction
from engine.errors import StorageError
from engine.log.checksum import checksum_of, write_checksum
from engine.log.paths import checksum_path
from engine.log.replay import load_table_state
from engine.protocol.properties import TableProperties
from engine.snapshot.post_commit import run_post_commit
from engine.snapshot.snapshot import load_snapshot
from engine.storage.memory import MemoryStore
from engine.table import DeltaTable
from tests.engine.log.checksums import checksum_differences, differences, read_checksum
from tests.engine.made_tables import (
    WITH_VECTORS,
    add,
    metadata,
    remove,
    stage,
    write_commit,
    write_first,
)

VECTOR = DeletionVectorDescriptor("u", "ab^-aqEH.-t@S}K{vb[*k^", 40, 3, 1)


def create_store() -> MemoryStore:
    store = MemoryStore(f"memory://{uuid.uuid4()}")
    write_first(store, protocol=WITH_VECTORS)
    write_commit(store, 1, CommitInfo(txn_id="one"), add("a", size=5), add("b", size=7))
    write_commit(
        store,
        2,
        CommitInfo(txn_id="two"),
        remove("a"),
        add("a", size=5, deletion_vector=VECTOR),
        SetTransaction(app_id="stream", version=4),
        DomainMetadata(domain="mine", configuration="{}", removed=False),
        DomainMetadata(domain="gone", configuration="{}", removed=True),
    )
    return store


def load_checksum(store: MemoryStore, version: int = 2) -> dict[str, Any]:
    checksum = json.loads(store.read(checksum_path(version)))
    assert isinstance(checksum, dict)
    return checksum


def test_a_commit_leaves_the_checksum_of_its_version():
    store = create_store()
    run_post_commit(store, 2, load_snapshot(store, 1), now_ms=0)
    checksum = load_checksum(store)
    assert checksum.pop("metadata")["configuration"] == {}
    assert checksum.pop("protocol")["readerFeatures"] == ["deletionVectors"]
    assert checksum == {
        "tableSizeBytes": 12,
        "numFiles": 2,
        "numMetadata": 1,
        "numProtocol": 1,
        "txnId": "two",
        "setTransactions": [{"appId": "stream", "version": 4}],
        "domainMetadata": [{"domain": "mine", "configuration": "{}", "removed": False}],
        "numDeletedRecordsOpt": 3,
        "numDeletionVectorsOpt": 1,
    }
    assert checksum_differences(load_snapshot(store)) == ()


def test_a_checksum_describes_its_own_version_even_after_later_commits():
    store = create_store()
    run_post_commit(store, 1, load_snapshot(store, 0), now_ms=0)
    assert load_checksum(store, 1)["txnId"] == "one"
    assert load_checksum(store, 1)["numDeletionVectorsOpt"] == 0
    assert store.stat(checksum_path(2)) is None


def test_every_commit_of_a_transaction_leaves_one(tmp_path):
    table = DeltaTable.create(str(tmp_path / "t"), load_snapshot(create_store()).schema)
    txn = table.start_transaction()
    stage(txn, add("x", size=11))
    txn.commit("WRITE")
    for version, files in ((0, 0), (1, 1)):
        checksum = read_checksum(table.store, version)
        assert checksum is not None
        assert (checksum.num_files, checksum.table_size_bytes) == (files, 11 * files)
    assert read_checksum(table.store, 1).txn_id == txn.txn_id


def test_in_commit_timestamps_are_in_the_checksum_where_enabled():
    state = load_table_state(create_store())
    state = replace(state, commit_info=CommitInfo(in_commit_timestamp=77))
    assert checksum_of(state, TableProperties()).in_commit_timestamp_opt is None
    on = TableProperties(in_commit_timestamps=True)
    assert checksum_of(state, on).in_commit_timestamp_opt == 77


def test_applications_that_expire_and_lists_that_are_long_are_left_out():
    state = load_table_state(create_store())
    expiring = TableProperties(set_transaction_retention_ms=1)
    assert checksum_of(state, expiring).set_transactions is None
    many = {str(n): SetTransaction(app_id=str(n), version=n) for n in range(101)}
    assert (
        checksum_of(replace(state, set_transactions=many), TableProperties()).set_transactions
        is None
    )


def test_an_existing_checksum_stays():
    store = create_store()
    store.put(checksum_path(2), b"of another writer")
    assert write_checksum(store, load_table_state(store), TableProperties()) is False
    assert store.read(checksum_path(2)) == b"of another writer"


def test_a_checksum_that_cannot_be_written_leaves_commit_and_checkpoint_standing(
    caplog: pytest.LogCaptureFixture,
):
    class WithoutChecksums(MemoryStore):
        def put_if_absent(self, path: str, data: bytes) -> None:
            if path.endswith(".crc"):
                msg = "No space left."
                raise StorageError(msg)
            super().put_if_absent(path, data)

    store = WithoutChecksums(f"memory://{uuid.uuid4()}")
    write_first(store, configuration={"delta.checkpointInterval": "1"})
    write_commit(store, 1, add("a"))
    assert run_post_commit(store, 1, load_snapshot(store, 0), now_ms=0) is not None
    assert "No space left" in caplog.text


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"\xff",
        b"[" * 100_000,
        b'{"numFiles": 1}',
        b'{"numFiles": "many", "tableSizeBytes": 1}',
    ],
)
def test_a_broken_checksum_is_ignored(data: bytes):
    store = create_store()
    store.put(checksum_path(2), data)
    assert read_checksum(store, 2) is None
    snapshot = load_snapshot(store)
    assert checksum_differences(snapshot) == ()
    assert (snapshot.version, snapshot.file_count) == (2, 2)


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("numFiles", 9, "9 files, but the log counts 2"),
        ("tableSizeBytes", 1, "1 bytes, but the log counts 12"),
        ("numDeletionVectorsOpt", 0, "0 deletion vectors, but the log counts 1"),
        ("numDeletedRecordsOpt", 9, "9 deleted rows, but the log counts 3"),
        (
            "protocol",
            {"minReaderVersion": 1, "minWriterVersion": 2},
            "The protocol in the checksum differs",
        ),
        ("metadata", {"id": "x", "schemaString": "{}"}, "The metadata in the checksum differs"),
    ],
)
def test_a_false_checksum_is_reported_and_not_believed(field: str, value: object, said: str):
    store = create_store()
    write_checksum(store, load_table_state(store), TableProperties())
    store.put(checksum_path(2), json.dumps({**load_checksum(store), field: value}).encode())
    snapshot = load_snapshot(store)
    assert (len(checksum_differences(snapshot)), snapshot.file_count) == (1, 2)
    assert said in checksum_differences(snapshot)[0]
    assert snapshot.metadata == metadata()


def test_the_checksums_of_other_engines_agree_with_their_logs(reference):
    compared = 0
    for path in sorted((reference / "tables").glob("*/*/_delta_log/[0-9]*.crc")):
        store = MemoryStore(f"memory://{uuid.uuid4()}")
        for file in path.parent.rglob("*.*"):
            if file.is_file() and not file.name.startswith("."):
                store.put(f"_delta_log/{file.relative_to(path.parent)}", file.read_bytes())
        checksum = read_checksum(store, int(path.stem))
        if checksum is not None and "crc-full" not in path.parts:  # made to test its fields alone
            compared += 1
            assert differences(checksum, load_table_state(store, int(path.stem))) == (), path
    assert compared > 15
