import json
import uuid
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable as OtherTable
from deltalake import write_deltalake
from hypothesis import given
from hypothesis import strategies as st

from engine.actions.files import RemoveFile
from engine.clock import CLOCK_SLACK_MS
from engine.errors import EngineError, MalformedLogError
from engine.log.checkpoint_reader import read_checkpoint
from engine.log.checkpoint_writer import write_checkpoint
from engine.log.cleanup import clean_log
from engine.log.paths import checkpoint_path, commit_path
from engine.log.replay import TableState, load_state, load_table_state
from engine.log.segment import list_log_files, list_segment, read_hint
from engine.protocol.properties import TableProperties
from engine.storage.base import FileStatus, Store
from engine.storage.local import LocalStore
from engine.storage.memory import MemoryStore
from engine.table import DeltaTable
from tests.engine.made_tables import SCHEMA, add, remove, write_commit, write_first

DAY = 24 * 3600 * 1000


def create_store(versions: int = 3) -> Store:
    store = MemoryStore(f"memory://{uuid.uuid4()}")
    write_first(store)
    for version in range(1, versions + 1):
        write_commit(store, version, add(f"f{version}"), remove(f"f{version - 2}"))
    return store


def state_of(store: Store, version: int | None = None) -> TableState:
    return load_state(store, list_segment(store, version))


def test_a_checkpoint_is_pointed_at():
    store = create_store()
    written = write_checkpoint(store, state_of(store), TableProperties(), now_ms=0)
    assert written.path == checkpoint_path(3)
    assert written.add_count == 2
    assert read_hint(store) == 3


def test_an_older_checkpoint_does_not_move_the_pointer_back():
    store = create_store()
    write_checkpoint(store, state_of(store), TableProperties(), now_ms=0)
    write_checkpoint(store, state_of(store, 1), TableProperties(), now_ms=0)
    assert read_hint(store) == 3


def test_tombstones_past_their_retention_are_left_out():
    store = create_store(0)
    write_commit(
        store, 1, remove("old", deletion_timestamp=0), remove("new", deletion_timestamp=8 * DAY)
    )
    by_another_clock = remove("just", deletion_timestamp=3 * DAY - CLOCK_SLACK_MS + 1)
    write_commit(store, 2, RemoveFile(path="timeless", data_change=True), by_another_clock)
    write_checkpoint(store, state_of(store), TableProperties(), now_ms=10 * DAY)
    assert state_of(store).tombstones.column("path").to_pylist() == ["new", "just"]


def test_the_columns_are_those_that_other_engines_read():
    store = create_store()
    write_checkpoint(store, state_of(store), TableProperties(), now_ms=0)
    with store.open_input(checkpoint_path(3)) as source:
        schema = pq.read_schema(source)
    assert schema.names == ["protocol", "metaData", "txn", "domainMetadata", "add", "remove"]
    vector = schema.field("add").type.field("deletionVector").type
    assert vector.field("offset").type == pa.int32()
    assert vector.field("sizeInBytes").type == pa.int32()
    assert vector.field("cardinality").type == pa.int64()


@pytest.mark.parametrize(
    "table",
    [
        pa.table({"x": [1]}),
        pa.table({"add": [1]}),
        pa.table(
            {"add": [{"path": 1}], "protocol": [{"minReaderVersion": 1, "minWriterVersion": 1}]}
        ),
        pa.table({"protocol": [{"minReaderVersion": "x"}]}),
        pa.table({"metaData": [{"id": "x"}]}),
        pa.table(
            {"sidecar": [{"path": "../../x.parquet", "sizeInBytes": 1, "modificationTime": 1}]}
        ),
        pa.table(
            {"sidecar": [{"path": "missing.parquet", "sizeInBytes": 1, "modificationTime": 1}]}
        ),
        pa.table({"add": [{"path": "x", "size": "many"}]}),
        pa.table({"add": [{"path": "x", "deletionVector": {"storageType": 1}}]}),
    ],
)
def test_a_file_that_is_no_checkpoint_is_refused(table: pa.Table):
    store = create_store()
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink)
    store.put(checkpoint_path(3), sink.getvalue().to_pybytes())
    with pytest.raises(EngineError):
        state_of(store)


def test_a_damaged_checkpoint_is_passed_over_where_the_commits_are_there():
    store = create_store(6)
    for version in (2, 4):
        write_checkpoint(store, state_of(store, version), TableProperties(), now_ms=0)
    expected = load_table_state(store)
    store.put(checkpoint_path(4), b"cut short")
    state = load_table_state(store)
    assert (expected.checkpoint_version, state.checkpoint_version) == (4, 2)
    assert sorted(state.files.column("path").to_pylist()) == sorted(
        expected.files.column("path").to_pylist()
    )
    store.put(checkpoint_path(2), b"this one too")
    assert load_table_state(store).checkpoint_version is None
    store.delete(commit_path(0))
    with pytest.raises(MalformedLogError, match=r"0{19}4\.checkpoint"):
        load_table_state(store)


@pytest.mark.parametrize("data", [b"", b"x", b"PAR1PAR1", b"PAR1" + b"\0" * 100 + b"PAR1"])
def test_damaged_bytes_are_refused_with_their_file(data: bytes):
    store = create_store()
    store.put(checkpoint_path(3), data)
    with pytest.raises(MalformedLogError, match=r"checkpoint\.parquet"):
        state_of(store)


@given(st.integers(0, 10**6), st.integers(0, 255))
def test_a_changed_byte_is_a_state_or_a_typed_error(at: int, value: int):
    data = bytearray(_CHECKPOINT)
    data[at % len(data)] = value
    store = MemoryStore(f"memory://{uuid.uuid4()}")
    store.put(checkpoint_path(3), bytes(data))
    checkpoint = list_segment(store).checkpoint
    assert checkpoint is not None
    try:
        read_checkpoint(store, checkpoint)
    except EngineError:
        return


def _one_checkpoint() -> bytes:
    store = create_store()
    write_checkpoint(store, state_of(store), TableProperties(), now_ms=0)
    return store.read(checkpoint_path(3))


_CHECKPOINT = _one_checkpoint()


class AgedStore(MemoryStore):
    """A store whose files are as old as their version: one day for each."""

    def list_all(self, prefix: str = ""):
        for file in super().list_all(prefix):
            digits = file.name[:20]
            yield replace_time(file, int(digits) * DAY if digits.isdigit() else file.modified_ms)


def replace_time(status: FileStatus, modified_ms: int) -> FileStatus:
    return replace(status, modified_ms=modified_ms)


def create_aged_store(versions: int, checkpoints: list[int]) -> Store:
    store = AgedStore(f"memory://{uuid.uuid4()}")
    write_first(store)
    for version in range(1, versions + 1):
        write_commit(store, version, add(f"f{version}"))
    for version in checkpoints:
        write_checkpoint(store, state_of(store, version), TableProperties(), now_ms=0)
    return store


def test_cleaning_keeps_everything_from_the_last_expired_checkpoint_on():
    store = create_aged_store(40, [10, 20, 30])
    before = state_of(store)
    deleted = clean_log(store, retention_ms=15 * DAY, now_ms=40 * DAY)
    assert deleted == sorted(deleted)
    assert min(log_file.version for log_file in list_log_files(store)) == 20
    assert state_of(store) == before
    assert state_of(store, 20).version == 20


def test_cleaning_without_an_expired_checkpoint_deletes_nothing():
    store = create_aged_store(40, [30])
    assert clean_log(store, retention_ms=30 * DAY, now_ms=40 * DAY) == []


def test_cleaning_the_log_twice_is_the_same_as_once():
    store = create_aged_store(40, [10, 20])
    assert clean_log(store, retention_ms=DAY, now_ms=40 * DAY)
    assert clean_log(store, retention_ms=DAY, now_ms=40 * DAY) == []


def test_files_that_dead_writers_left_are_cleaned_after_a_day(tmp_path):
    store = LocalStore(tmp_path)
    write_first(store)
    left = tmp_path / "_delta_log" / f".{1:020}.json.{uuid.uuid4().hex}.tmp"
    foreign = tmp_path / "_delta_log" / f".{1:020}.json.crc"
    for path in (left, foreign):
        path.write_text("x", "utf-8")
    written_ms = store.stat(f"_delta_log/{left.name}").modified_ms
    clean_log(store, DAY, written_ms + DAY + CLOCK_SLACK_MS)
    assert left.exists()
    clean_log(store, DAY, written_ms + DAY + CLOCK_SLACK_MS + 1)
    assert not left.exists()
    assert foreign.exists()
    assert store.stat(commit_path(0)) is not None


def test_a_checkpoint_of_deltalake_is_read(tmp_path):
    for number in range(3):
        write_deltalake(tmp_path, pa.table({"id": [number]}), mode="append")
    OtherTable(tmp_path).delete("id = 1")
    OtherTable(tmp_path).create_checkpoint()
    snapshot = DeltaTable.open(str(tmp_path)).snapshot()
    assert snapshot.state.checkpoint_version == 3
    assert sorted(snapshot.to_arrow().column("id").to_pylist()) == [0, 2]
    assert snapshot.state.tombstones.num_rows == 1


def test_a_checkpoint_whose_paths_are_required_has_no_file_for_its_other_rows(tmp_path):
    required = pa.struct(
        [
            pa.field("path", pa.string(), nullable=False),
            pa.field("size", pa.int64(), nullable=False),
            pa.field("modificationTime", pa.int64(), nullable=False),
            pa.field("dataChange", pa.bool_(), nullable=False),
        ]
    )
    store = LocalStore(tmp_path)
    write_first(store)
    write_commit(store, 1, add("a.parquet"))
    named = {"path": "a.parquet", "size": 1, "modificationTime": 1, "dataChange": False}
    _put_checkpoint(store, pa.array([None, None, named], required))
    snapshot = DeltaTable.open(str(tmp_path)).snapshot()
    assert snapshot.state.checkpoint_version == 1
    assert snapshot.files().column("path").to_pylist() == ["a.parquet"]


def test_statistics_that_are_null_as_text_are_taken_from_their_structs(tmp_path):
    store = LocalStore(tmp_path)
    write_first(store)
    write_commit(store, 1, add("a.parquet"))
    file = {"path": "a.parquet", "size": 1, "modificationTime": 1, "dataChange": False}
    parsed = {"numRecords": 3, "minValues": {"id": 1}, "maxValues": {"id": 4}}
    described = file | {"stats": None, "stats_parsed": parsed}
    kinds = pa.array([file | {"stats": "", "stats_parsed": parsed}]).type
    _put_checkpoint(store, pa.array([None, None, described], kinds))
    (stats,) = DeltaTable.open(str(tmp_path)).snapshot().files().column("stats").to_pylist()
    assert json.loads(stats) == parsed


def test_actions_of_a_checkpoint_whose_fields_are_all_null_are_none(tmp_path):
    store = LocalStore(tmp_path)
    write_first(store)
    write_commit(store, 1, add("a.parquet"))
    file = {"path": "a.parquet", "size": 1, "modificationTime": 1, "dataChange": False}
    txn = pa.struct({"appId": pa.string(), "version": pa.int64(), "lastUpdated": pa.int64()})
    nothing, said = dict.fromkeys(("appId", "version", "lastUpdated")), {"appId": "x", "version": 3}
    _put_checkpoint(
        store, pa.array([None, None, file]), txn=pa.array([nothing, said, nothing], txn)
    )
    snapshot = DeltaTable.open(str(tmp_path)).snapshot()
    assert snapshot.state.checkpoint_version == 1
    assert {name: txn.version for name, txn in snapshot.set_transactions.items()} == {"x": 3}


def _put_checkpoint(store: Store, adds: pa.Array, **others: pa.Array) -> None:
    described = {"id": "x", "schemaString": SCHEMA.to_json(), "partitionColumns": []}
    table = pa.table(
        {
            "protocol": pa.array([{"minReaderVersion": 1, "minWriterVersion": 2}, None, None]),
            "metaData": pa.array([None, described, None]),
            "add": adds,
            **others,
        }
    )
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink)
    store.put(checkpoint_path(1), sink.getvalue().to_pybytes())
