"""Duplicate files in a checkpoint: identical entries are one file, and different ones are an error."""

import uuid
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.actions.files import DeletionVectorDescriptor
from engine.actions.table import SetTransaction
from engine.errors import MalformedLogError
from engine.log.checkpoint_reader import last_of_each
from engine.log.checkpoint_writer import write_checkpoint
from engine.log.cleanup import clean_log
from engine.log.file_table import FILES, files_table, tombstones_table
from engine.log.paths import checkpoint_path, commit_path
from engine.log.replay import load_table_state
from engine.protocol.properties import TableProperties
from engine.storage.memory import MemoryStore
from engine.table import DeltaTable
from tests.engine.log.made_checkpoints import KINDS, write_kind
from tests.engine.made_tables import add, remove, write_commit, write_first, write_rows

LONG = st.text("ab/é", min_size=8, max_size=20)
KEYS = st.tuples(LONG | st.text("ab", max_size=3), st.none() | st.sampled_from("uv"))


@given(st.lists(st.lists(KEYS, max_size=6), min_size=1, max_size=3), st.integers(0, 3))
def test_every_file_is_kept_once_as_it_stood_last(chunks, skipped):
    parts = [
        pa.table({"path": [k[0] for k in chunk], "dv_id": [k[1] for k in chunk]}, _schema())
        for chunk in chunks
    ]
    rows = pa.concat_tables(parts).slice(skipped)
    rows = rows.append_column("place", pa.array(range(len(rows)), pa.int64()))
    keys = list(zip(rows["path"].to_pylist(), rows["dv_id"].to_pylist(), strict=True))
    places = sorted({key: place for place, key in enumerate(keys)}.values())
    assert last_of_each(rows).column("place").to_pylist() == places


@pytest.mark.parametrize("path", ["part-0000-of-a-usual-length.parquet", "short", "x" * 600])
def test_a_file_that_a_checkpoint_names_twice_is_counted_and_read_once(path):
    store = MemoryStore(f"memory://{uuid.uuid4()}")
    write_first(store)
    write_commit(store, 1, write_rows(store, path, {"id": [1, 2], "name": ["a", "b"]}))
    write_checkpoint(store, load_table_state(store), TableProperties(), now_ms=0)
    _name_twice(store, checkpoint_path(1))
    snapshot = DeltaTable(store).snapshot()
    assert (snapshot.file_count, snapshot.row_count) == (1, 2)
    assert snapshot.to_arrow().column("id").to_pylist() == [1, 2]


LIVE = "part-00001-that-lives.parquet"
VECTOR = DeletionVectorDescriptor("u", "vector", 4, 1)
CONTRADICTIONS = {
    "lives and was removed": ([add(LIVE), add("part-2.parquet")], [remove(LIVE)]),
    "of a short name": ([add("a")], [remove("a")]),
    "of two sizes": ([add(LIVE), add("b"), add(LIVE, size=7)], []),
    "of two partitions": ([add(LIVE, {"p": "1"}), add(LIVE, {"p": "2"})], []),
}


def _write_log(commits=3):
    store = MemoryStore(f"memory://{uuid.uuid4()}")
    write_first(store)
    for version in range(1, commits + 1):
        write_commit(store, version, add(f"file-number-{version}.parquet"))
    return store


@pytest.mark.parametrize("kind", list(KINDS))
@pytest.mark.parametrize("what", list(CONTRADICTIONS))
def test_a_checkpoint_that_contradicts_itself_is_passed_over_or_refused_by_name(what, kind, caplog):
    store = _write_log()
    expected = load_table_state(store)
    adds, removes = CONTRADICTIONS[what]
    state = replace(
        load_table_state(store, 2), files=files_table(adds), tombstones=tombstones_table(removes)
    )
    write_kind(store, state, kind)
    assert load_table_state(store).files.equals(expected.files)
    assert "contradicts itself" in caplog.text
    assert clean_log(store, retention_ms=0, now_ms=2**45) == []
    store.delete(commit_path(0))
    with pytest.raises(MalformedLogError, match=r"0{19}2\.checkpoint.* contradicts itself"):
        load_table_state(store)


@pytest.mark.parametrize("kind", ["without sidecars", "in parts"])
def test_a_checkpoint_that_says_two_things_of_one_application_is_passed_over(kind, caplog):
    store = _write_log()
    state = load_table_state(store, 2)
    said = [SetTransaction(app_id="x", version=version) for version in (1, 2)]
    write_kind(store, replace(state, set_transactions=dict(enumerate(said))), kind)
    assert load_table_state(store).set_transactions == {}
    assert "two different actions for the application x" in caplog.text


@pytest.mark.parametrize("kind", list(KINDS))
def test_a_file_restated_with_another_vector_is_no_contradiction(kind):
    store = _write_log()
    state = load_table_state(store, 2)
    live, dead = add(LIVE, deletion_vector=VECTOR), remove(LIVE)
    state = replace(state, files=files_table([live, live]), tombstones=tombstones_table([dead]))
    write_kind(store, state, kind)
    files = load_table_state(store).files
    assert files.column("path").to_pylist() == [LIVE, "file-number-3.parquet"]


def _schema():
    return pa.schema([FILES.field("path"), FILES.field("dv_id")])


def _name_twice(store, path):
    with store.open_input(path) as source:
        content = pq.read_table(source)
    adds = content.filter(pc.is_valid(content.column("add")))
    sink = pa.BufferOutputStream()
    pq.write_table(pa.concat_tables([content, adds]), sink)
    store.put(path, sink.getvalue().to_pybytes())
