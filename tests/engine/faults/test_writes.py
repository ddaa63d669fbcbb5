"""An update as operations make it, with a fault at every call: data, a vector, change files.

The file that was being written at the fault may be left for VACUUM. The run's earlier files are gone
if nothing was committed, and exist if it was.
"""

import json
import uuid
from pathlib import PurePosixPath

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from engine.actions.files import AddCDCFile, AddFile
from engine.deletion_vectors.files import write_deletion_vector
from engine.errors import CommitOutcomeUnknownError, EngineError
from engine.operations.execution import Execution
from engine.operations.run_options import RunOptions
from engine.operations.write_rows import removal, replace_vector
from engine.schema.types import LONG, STRING, StructField, StructType
from engine.snapshot.change_feed import read_changes
from engine.storage.base import Store
from engine.table import DeltaTable
from tests.engine.faults.states import check_whole, commits_of, state_of
from tests.engine.faults.stores import FaultyStore, copy_store, faults
from tests.engine.transaction.tables import FakeClock

SCHEMA = StructType((StructField("id", LONG), StructField("name", STRING)))
PROPERTIES = {"delta.enableChangeDataFeed": "true", "delta.enableRowTracking": "true"}


def _put(store: Store, path: str, rows: dict[str, list[object]]) -> int:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(rows), sink)
    store.put_if_absent(path, data := sink.getvalue().to_pybytes())
    return len(data)


def _file(store: Store, rows: dict[str, list[object]]) -> AddFile:
    path = f"{uuid.uuid4()}.parquet"
    size = _put(store, path, rows)
    stats = json.dumps({"numRecords": len(rows["id"])})
    return AddFile(
        path=path,
        partition_values={},
        size=size,
        modification_time=1,
        data_change=True,
        stats=stats,
    )


def _changes(store: Store) -> AddCDCFile:
    path = f"_change_data/{uuid.uuid4()}.parquet"
    kinds = ["update_preimage", "update_postimage"]
    size = _put(store, path, {"id": [1, 1], "name": ["a", "new"], "_change_type": kinds})
    return AddCDCFile(path=path, partition_values={}, size=size)


def _update(store: Store, txn_id: str) -> None:
    """Rename row 1 of the only file."""
    table = DeltaTable(store, clock=FakeClock())
    execution = Execution(table, options=RunOptions(txn_id=txn_id))
    with execution.clean_up_on_failure():
        txn = execution.begin()
        snapshot = execution.snapshot_of(txn)
        txn.read_where("id = 1", every_match_changes=True)
        (old,) = snapshot.add_files()
        vector = write_deletion_vector(store, [0], inline_below_bytes=0)
        execution.wrote_vectors([vector])
        new = _file(store, {"id": [1], "name": ["new"]})
        execution.wrote([new])
        changes = _changes(store)
        execution.wrote([changes])
        stats = '{"numRecords":2,"tightBounds":false}'
        txn.stage(removal(old), replace_vector(old, vector, stats), new, changes)
        execution.commit(txn, "UPDATE", {"predicate": ["(id = 1)"]}, {"numUpdatedRows": 1})


@pytest.fixture
def base_store() -> Store:
    uri = f"memory://writes/{uuid.uuid4()}"
    table = DeltaTable.create(uri, SCHEMA, properties=PROPERTIES)
    txn = table.start_transaction()
    txn.stage(_file(table.store, {"id": [1, 2], "name": ["a", "b"]}))
    txn.commit("WRITE")
    return table.store


def _files(store: Store) -> set[str]:
    """Return data files, vectors and change files."""
    return {file.path for file in store.list_all() if not file.path.startswith("_delta_log")}


def _read_feed(store: Store) -> list[tuple[object, ...]]:
    rows = read_changes(DeltaTable(store), 2).to_pylist()
    return sorted((row["id"], row["name"], row["_change_type"]) for row in rows)


@pytest.mark.timeout(120)
def test_an_update_with_vectors_and_change_files_happens_completely_or_not_at_all(
    base_store: Store,
):
    before = state_of(DeltaTable(base_store).snapshot())
    whole = FaultyStore(copy_store(base_store, f"{base_store.root}-whole"))
    _update(whole, "once")
    after, fed = state_of(DeltaTable(whole).snapshot()), _read_feed(whole.inner)
    assert fed == [(1, "a", "update_preimage"), (1, "new", "update_postimage")]
    errors = []
    for number, (fail_at, mode) in enumerate(faults(whole.calls)):
        store = copy_store(base_store, f"{base_store.root}-{number}")
        error = None
        try:
            _update(FaultyStore(store, fail_at=fail_at, mode=mode), "mine")
        except EngineError as raised:
            error = raised
        errors.append(error)
        landed = bool(commits_of(store, "mine"))
        assert state_of(DeltaTable(store).snapshot()) == (after if landed else before)
        assert landed or error is not None
        assert not landed or error is None or isinstance(error, CommitOutcomeUnknownError)
        stray = _files(store) - _files(base_store)
        assert landed or len(stray) <= _count_unfinished(whole.calls[fail_at - 1], mode)
        if not landed:
            _update(store, "mine")
        assert state_of(DeltaTable(store).snapshot()) == after
        assert len(commits_of(store, "mine")) == 1
        assert _read_feed(store) == fed
        check_whole(store)
    assert any(errors)
    assert None in errors


def _count_unfinished(call: str, mode: str) -> int:
    """Return how many files may be left: the file whose write failed after its effect."""
    path = PurePosixPath(call.partition(" ")[2])
    return int(
        call.startswith("create") and path.parts[0] != "_delta_log" and mode.startswith("after")
    )
