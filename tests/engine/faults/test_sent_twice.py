"""An object store's client loses an answer and repeats its request: it recognizes its own file."""

import uuid

import pytest

from engine.commands.sql import parse_statement
from engine.deletion_vectors.files import write_deletion_vector
from engine.log.checkpoint_writer import write_checkpoint
from engine.operations.run import run
from engine.storage.memory import MemoryStore
from engine.table import DeltaTable

STATEMENTS = (
    "CREATE TABLE t (id BIGINT) TBLPROPERTIES ('delta.enableDeletionVectors' = 'true',"
    " 'delta.checkpointPolicy' = 'v2')",
    "INSERT INTO t VALUES (1), (2), (3)",
    "DELETE FROM t WHERE id = 2",
    "UPDATE t SET id = id + 10 WHERE id = 3",
)


@pytest.fixture
def store(monkeypatch) -> MemoryStore:
    """Return a store that receives each new file twice, and answers only the second request."""
    put = MemoryStore.put_if_absent

    def put_twice(self: MemoryStore, path: str, data: bytes) -> None:
        put(self, path, data)
        put(self, path, data)

    monkeypatch.setattr(MemoryStore, "put_if_absent", put_twice)
    return MemoryStore(f"memory://{uuid.uuid4()}")


def test_statements_are_done_once(store: MemoryStore):
    table = DeltaTable(store)
    for version, statement in enumerate(STATEMENTS):
        assert run(parse_statement(statement), table, None).version == version
    snapshot = table.snapshot()
    assert sorted(snapshot.to_arrow().column("id").to_pylist()) == [1, 13]
    write_checkpoint(store, snapshot.state, snapshot.properties, 0)
    assert DeltaTable(store).snapshot().state.checkpoint_version == table.version()


def test_a_file_of_deletion_vectors_is_written(store: MemoryStore):
    vector = write_deletion_vector(store, range(0, 5000, 3), inline_below_bytes=0)
    assert vector.storage_type == "u"
