"""Selected rows of a file, read by position."""

import uuid

import pyarrow as pa
import pytest
from pyroaring import BitMap64

from engine.deletion_vectors.files import write_deletion_vectors
from engine.errors import DataFileError
from engine.schema.types import LONG, StructField, StructType
from engine.snapshot.reader import ROW_INDEX
from engine.snapshot.row_lookup import read_rows_at
from engine.storage.uri import open_store
from engine.table import DeltaTable
from tests.engine.made_tables import WITH_VECTORS, write_commit, write_first, write_rows

SCHEMA = StructType((StructField("n", LONG), StructField("twice", LONG)))


def _snapshot(deleted: tuple[int, ...] = ()):
    store = open_store(f"memory://rows-at/{uuid.uuid4()}")
    write_first(store, SCHEMA, WITH_VECTORS)
    rows = pa.table({"n": range(100, 200), "twice": range(200, 400, 2)})
    vector = None
    if deleted:
        keyed = {("a.parquet", b""): BitMap64(deleted)}
        (vector,) = write_deletion_vectors(store, keyed).values()
    add = write_rows(store, "a.parquet", rows, deletion_vector=vector)
    write_commit(store, 1, add)
    return DeltaTable(store).snapshot()


@pytest.mark.parametrize("batch", [7, 65_536])
def test_rows_are_read_by_position_in_any_batches(batch: int):
    rows = read_rows_at(_snapshot(), "a.parquet", [61, 3, 60], ["twice"], batch_rows=batch)
    assert rows.to_pydict() == {"twice": [206, 320, 322], ROW_INDEX: [3, 60, 61]}


def test_deleted_rows_and_those_beyond_the_file_are_left_out():
    rows = read_rows_at(_snapshot((3,)), "a.parquet", [3, 4, 1000], ["n"])
    assert rows.to_pydict() == {"n": [104], ROW_INDEX: [4]}


def test_a_file_that_the_version_does_not_hold_is_named():
    with pytest.raises(DataFileError, match=r"Version 1 does not contain the file b\.parquet"):
        read_rows_at(_snapshot(), "b.parquet", [1], ["n"])
