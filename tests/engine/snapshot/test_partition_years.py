"""Partitions by years outside Python's calendar: read as files store them, and harmless to other rows."""

import uuid

import numpy as np
import pyarrow as pa
import pytest

from engine.actions.table import Protocol
from engine.errors import ConcurrentAppendException
from engine.log.checkpoint_writer import write_checkpoint
from engine.protocol.properties import TableProperties
from engine.schema.types import DATE, LONG, TIMESTAMP, TIMESTAMP_NTZ, StructField, StructType
from engine.snapshot.snapshot import Snapshot, load_snapshot
from engine.storage.memory import MemoryStore
from engine.table import DeltaTable
from tests.engine.made_tables import add, remove, write_commit, write_first, write_rows

NTZ = Protocol(
    min_reader_version=3,
    min_writer_version=7,
    reader_features=["timestampNtz"],
    writer_features=["timestampNtz"],
)
YEARS = ["2020", "+10000", "-0001", "0000", "+200000"]
TYPES = {"date": (DATE, ""), "timestamp": (TIMESTAMP, " 00:00:00"), "ntz": (TIMESTAMP_NTZ, " 00:00:00")}  # fmt: skip


@pytest.fixture(params=list(TYPES))
def snapshot(request: pytest.FixtureRequest) -> Snapshot:
    """Return a table with a file for each year; `id` is the index of the year."""
    kind, rest = TYPES[request.param]
    store = MemoryStore(f"memory://{uuid.uuid4()}")
    schema = StructType((StructField("id", LONG), StructField("p", kind)))
    write_first(store, schema, NTZ, partition_columns=["p"])
    for place, year in enumerate(YEARS):
        values = {"p": f"{year}-01-01{rest}"}
        rows = write_rows(store, f"{place}.parquet", {"id": [place]}, partition_values=values)
        write_commit(store, place + 1, rows)
    return load_snapshot(store)


def ids(snapshot: Snapshot, condition: str | None = None) -> list[int]:
    return sorted(snapshot.to_arrow(condition=condition).column("id").to_pylist())


def test_every_row_is_read_with_its_value(snapshot: Snapshot):
    rows = snapshot.to_arrow().sort_by("id")
    storage = pa.int32() if pa.types.is_date(rows.schema.field("p").type) else pa.int64()
    numbers = rows.column("p").cast(storage).to_pylist()
    a_day = 1 if storage == pa.int32() else 86_400_000_000
    days = [np.datetime64(f"{year.strip('+')}-01-01", "D").astype(int) for year in YEARS]
    assert [number // a_day for number in numbers] == days


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("id = 1", [1]),
        ("p = '2020-01-01'", [0]),
        ("p > '2019-01-01'", [0, 1, 4]),
        ("p < '2020-01-01'", [2, 3]),
        ("p <> '2020-01-01' AND id < 3", [1, 2]),
        ("p IS NULL", []),
        ("p IS NOT NULL", [0, 1, 2, 3, 4]),
    ],
)
def test_conditions_select_partitions_of_any_year(
    snapshot: Snapshot, condition: str, expected: list[int]
):
    assert ids(snapshot, condition) == expected


def test_a_checkpoint_holds_partitions_of_any_year(snapshot: Snapshot):
    typed = TableProperties.parse({"delta.checkpoint.writeStatsAsStruct": "true"})
    write_checkpoint(snapshot.store, snapshot.state, typed, now_ms=0)
    read = load_snapshot(snapshot.store)
    assert read.state.checkpoint_version == read.version
    assert ids(read) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("condition", ["p = '2020-01-01'", "p > '2020-01-01'", "id = 0"])
def test_a_winning_commit_to_a_partition_of_any_year_is_checked_not_refused(
    snapshot: Snapshot, condition: str
):
    table = DeltaTable.open(snapshot.store.root)
    txn = table.start_transaction()
    txn.read_where(condition)
    txn.stage(remove("0.parquet", partition_values={"p": "2020-01-01"}))
    (there,) = snapshot.add_files(paths=["1.parquet"])
    values = dict(there.partition_values)
    winner = add("new.parquet", values, stats='{"numRecords":1}')
    write_commit(snapshot.store, len(YEARS) + 1, winner)
    with pytest.raises(ConcurrentAppendException):
        txn.commit("DELETE")
