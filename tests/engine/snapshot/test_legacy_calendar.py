"""Times that older Sparks wrote in the Julian calendar, and marked so, read as in delta-spark."""

import uuid
from datetime import UTC, date, datetime

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from engine.schema.types import DATE, TIMESTAMP, ArrayType, MapType, StructField, StructType
from engine.storage.memory import MemoryStore
from engine.table import DeltaTable
from tests.engine.made_tables import add, write_commit, write_first

INSIDE = StructType((StructField("d", DATE),))
SCHEMA = StructType(
    (
        StructField("d", DATE),
        StructField("at", TIMESTAMP),
        StructField("ds", ArrayType(INSIDE)),
        StructField("m", MapType(DATE, DATE)),
    )
)
DAYS = {  # as stored, in today's calendar → the date that was meant
    date(1500, 3, 10): date(1500, 3, 1),  # 29 February 1500 in the Julian calendar
    date(1500, 3, 11): date(1500, 3, 1),
    date(1582, 10, 14): date(1582, 10, 4),
    date(1582, 10, 15): date(1582, 10, 15),
    date(900, 1, 1): date(899, 12, 28),
    date(300, 2, 28): date(300, 2, 28),
    date(2024, 2, 29): date(2024, 2, 29),
}


def _read(marks: dict[str, str], *, int96: bool = False) -> pa.Table:
    store = MemoryStore(f"memory://calendar/{uuid.uuid4()}")
    stored = [*DAYS, None]
    moments = [datetime(d.year, d.month, d.day, 12, tzinfo=UTC) if d else None for d in stored]
    rows = pa.table(
        {
            "d": pa.array(stored, pa.date32()),
            "at": pa.array(moments, pa.timestamp("us", tz="UTC")),
            "ds": pa.array([[{"d": d}, None] for d in stored], pa.list_(pa.struct({"d": pa.date32()}))),
            "m": pa.array([[(d, d)] if d else None for d in stored], pa.map_(pa.date32(), pa.date32())),
        }
    )  # fmt: skip
    sink = pa.BufferOutputStream()
    marked = rows.replace_schema_metadata(marks)
    pq.write_table(marked, sink, use_deprecated_int96_timestamps=int96)
    store.put("a.parquet", sink.getvalue().to_pybytes())
    write_first(store, SCHEMA)
    write_commit(store, 1, add("a.parquet"))
    return DeltaTable.open(store.root).snapshot().to_arrow()


@pytest.mark.parametrize(
    ("marks", "julian"),
    [
        ({"org.apache.spark.legacyDateTime": "", "org.apache.spark.version": "3.5.0"}, True),
        ({"org.apache.spark.version": "2.4.8"}, True),
        ({"org.apache.spark.version": "3.0.1"}, False),
        ({"org.apache.spark.version": "4.0.0"}, False),
        ({"org.apache.spark.version": "nonsense"}, False),
        ({}, False),
    ],
)
def test_the_calendar_named_in_a_file_is_used(marks: dict[str, str], julian: bool):
    table = _read(marks)
    expected = [*(DAYS.values() if julian else DAYS), None]
    assert table.column("d").to_pylist() == expected
    assert [at and at.date() for at in table.column("at").to_pylist()] == expected
    assert [ds[0]["d"] for ds in table.column("ds").to_pylist()] == expected
    assert [m and m[0] for m in table.column("m").to_pylist()] == [d and (d, d) for d in expected]


@pytest.mark.parametrize(
    ("marks", "julian"),
    [
        ({"org.apache.spark.legacyINT96": "", "org.apache.spark.version": "3.5.0"}, True),
        ({"org.apache.spark.version": "3.0.1"}, True),
        ({"org.apache.spark.version": "3.1.0"}, False),
    ],
)
def test_moments_kept_as_int96_have_a_mark_of_their_own(marks: dict[str, str], julian: bool):
    table = _read(marks, int96=True)
    expected = [*(DAYS.values() if julian else DAYS), None]
    assert [at and at.date() for at in table.column("at").to_pylist()] == expected
    assert table.column("d").to_pylist() == [*DAYS, None]
