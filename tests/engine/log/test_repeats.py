"""A file that a checkpoint names twice is one file."""

import uuid

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.log.checkpoint_writer import write_checkpoint
from engine.log.file_table import FILES
from engine.log.paths import checkpoint_path
from engine.log.repeats import without_repeats
from engine.log.replay import load_table_state
from engine.protocol.properties import TableProperties
from engine.storage.memory import MemoryStore
from engine.table import DeltaTable
from tests.engine.made_tables import write_commit, write_first, write_rows

LONG = st.text("ab/é", min_size=8, max_size=20)
KEYS = st.tuples(LONG | st.text("ab", max_size=3), st.none() | st.sampled_from("uv"))


@given(st.lists(st.lists(KEYS, max_size=6), min_size=1, max_size=3), st.integers(0, 3))
def test_every_file_is_kept_once_as_it_stood_last(chunks, skipped):
    parts = [
        pa.table({"path": [k[0] for k in each], "dv_id": [k[1] for k in each]}, _schema())
        for each in chunks
    ]
    rows = pa.concat_tables(parts).slice(skipped)
    rows = rows.append_column("place", pa.array(range(len(rows)), pa.int64()))
    keys = list(zip(rows["path"].to_pylist(), rows["dv_id"].to_pylist(), strict=True))
    wanted = sorted({key: place for place, key in enumerate(keys)}.values())
    assert without_repeats(rows).column("place").to_pylist() == wanted


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


def _schema():
    return pa.schema([FILES.field("path"), FILES.field("dv_id")])


def _name_twice(store, path):
    with store.open_input(path) as source:
        content = pq.read_table(source)
    adds = content.filter(pc.is_valid(content.column("add")))
    sink = pa.BufferOutputStream()
    pq.write_table(pa.concat_tables([content, adds]), sink)
    store.put(path, sink.getvalue().to_pybytes())
