"""A metaData action without a schema: pipelines write one first, and a complete one later."""

import uuid
from dataclasses import replace

import pytest

from engine.actions.commit_info import CommitInfo
from engine.actions.table import Metadata
from engine.errors import MalformedLogError, MetadataChangedException
from engine.log.compaction import write_compaction
from engine.log.file_table import adds_of
from engine.log.replay import SchemaNotSaidError, load_table_state
from engine.snapshot.change_feed import read_changes
from engine.snapshot.snapshot import load_snapshot
from engine.snapshot.stream_log import Position, StreamLimits, StreamLog, StreamTerms
from engine.storage.base import Store
from engine.storage.memory import MemoryStore
from engine.table import DeltaTable
from tests.engine.log.made_checkpoints import KINDS, V2, write_kind
from tests.engine.made_tables import add, metadata, write_commit, write_lines, write_rows

UNSAID = (
    '{"metaData":{"id":"made","format":{"provider":"parquet","options":{}},"configuration":{}}}'
)
FEED = {"delta.enableChangeDataFeed": "true"}


@pytest.fixture
def store() -> Store:
    """Return a store whose version 0 has no schema; version 1 defines one and adds two rows."""
    store = MemoryStore(f"memory://{uuid.uuid4()}")
    write_commit(store, 0, CommitInfo(operation="CREATE"), V2)
    store.put(
        "_delta_log/" + f"{0:020}.json", store.read(f"_delta_log/{0:020}.json") + UNSAID.encode()
    )
    rows = write_rows(store, "a.parquet", {"id": [1, 2], "name": ["a", "b"]})
    write_commit(store, 1, CommitInfo(operation="WRITE"), metadata(configuration=FEED), rows)
    return store


def test_a_table_is_read_from_the_version_on_that_says_its_schema(store: Store):
    table = DeltaTable.open(store.root)
    assert table.snapshot().to_arrow().column("id").to_pylist() == [1, 2]
    assert [info.version for info in table.history()] == [1, 0]
    with pytest.raises(SchemaNotSaidError, match=r"Version 0 of .* without a schemaString"):
        table.snapshot(version=0)


def test_an_earlier_schema_is_not_used_for_one_that_is_missing(store: Store):
    snapshot = load_snapshot(store)
    write_lines(store, 2, UNSAID)
    for read in (snapshot.update, lambda: load_snapshot(store)):
        with pytest.raises(MalformedLogError, match="Version 2"):
            read()
    assert load_snapshot(store, 1).file_count == 1
    write_commit(store, 3, metadata(), add("b"))
    assert snapshot.update().file_count == load_snapshot(store).file_count == 2


@pytest.mark.parametrize("kind", list(KINDS))
def test_a_checkpoint_and_a_compaction_over_it_have_the_latest_actions(store: Store, kind: str):
    write_commit(store, 2, add("b"))
    write_commit(store, 3, add("c"))
    assert write_compaction(store, 2, 3) is not None
    paths = [file.path for file in adds_of(load_table_state(store).files)]
    assert sorted(paths) == ["a.parquet", "b", "c"]
    write_kind(store, load_table_state(store, 2), kind)
    assert load_table_state(store).files.num_rows == 3


def test_a_checkpoint_without_a_schema_is_passed_over_or_refused(store: Store):
    state = replace(load_table_state(store), metadata=Metadata(id="made"))
    write_kind(store, state, "without sidecars")
    assert load_table_state(store).files.num_rows == 1
    store.delete(f"_delta_log/{0:020}.json")
    with pytest.raises(SchemaNotSaidError):
        load_table_state(store)


def test_streams_and_the_change_feed_begin_behind_it(store: Store):
    snapshot = load_snapshot(store)
    log = StreamLog(store, StreamTerms(snapshot.metadata, 1))
    start = Position(0)
    log.check_since(start)
    end = log.batch_end(start, StreamLimits(), last_version=1)
    assert [file.path for file in log.files(start, end)] == ["a.parquet"]
    assert read_changes(DeltaTable.open(store.root), 1, 1).column("id").to_pylist() == [1, 2]


def test_a_transaction_loses_to_a_winner_that_unsays_the_schema(store: Store):
    txn = DeltaTable.open(store.root).start_transaction()
    write_lines(store, 2, UNSAID)
    txn.stage(add("b", stats='{"numRecords":1}'))
    with pytest.raises(MetadataChangedException):
        txn.commit("WRITE")
