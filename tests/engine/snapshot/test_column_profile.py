"""Column profiles: nulls, distinct values, minimum and maximum, for any type."""

from datetime import date
from uuid import uuid4

import pyarrow as pa
import pytest

from engine.errors import UnknownColumnError
from engine.schema.types import parse_schema
from engine.snapshot.column_profile import ProfileLimits, profile_column
from engine.storage.memory import MemoryStore
from engine.table import DeltaTable
from tests.engine.made_tables import write_commit, write_first, write_rows

COLUMNS = {
    "n": ("long", pa.array([3, None, 1, 3], pa.int64()), (1, 2, [1, 3])),
    "d": ("double", pa.array([float("nan"), 1.0, 1.0, None]), (1, 2, None)),
    "s": ("string", pa.array(["b", "Z", "é", "b"]), (0, 3, ["Z", "é"])),
    "day": ("date", pa.array([date(2026, 1, 2), None, None, None]), (3, 1, [date(2026, 1, 2)] * 2)),
    "ok": ("boolean", pa.array([True, False, None, None]), (2, 2, None)),
    "raw": ("binary", pa.array([b"a", b"a", None, None], pa.binary()), (2, 1, None)),
    "none": ("string", pa.array([None] * 4, pa.string()), (4, 0, None)),
    "tags": (
        {"type": "array", "elementType": "long", "containsNull": True},
        pa.array([[1], None, [1], [2]], pa.list_(pa.int64())),
        (1, None, None),
    ),
}


@pytest.fixture
def snapshot():
    store = MemoryStore(f"memory://{uuid4()}")
    fields = [
        {"name": name, "type": kind, "nullable": True, "metadata": {}}
        for name, (kind, _, _) in COLUMNS.items()
    ]
    write_first(store, parse_schema({"type": "struct", "fields": fields}))
    rows = pa.table({name: values for name, (_, values, _) in COLUMNS.items()})
    parts = [write_rows(store, f"{n}.parquet", rows.slice(n, 1)) for n in range(4)]
    write_commit(store, 1, *parts)
    return DeltaTable(store).snapshot()


@pytest.mark.parametrize("name", COLUMNS)
def test_nulls_different_values_and_bounds_are_those_of_all_rows(snapshot, name):
    profile = profile_column(snapshot, name.upper())
    nulls, distinct, bounds = COLUMNS[name][2]
    assert (profile.row_count, profile.null_count, profile.distinct_count) == (4, nulls, distinct)
    assert profile.is_whole
    if name == "d":  # above every number, as Spark orders it
        assert str(profile.bounds.to_pylist()) == "[1.0, nan]"
    else:
        assert (profile.bounds and profile.bounds.to_pylist()) == bounds


def test_a_condition_excludes_rows_and_an_unknown_column_is_reported(snapshot):
    assert profile_column(snapshot, "s", "n = 3").distinct_count == 1
    with pytest.raises(UnknownColumnError):
        profile_column(snapshot, "nowhere")


def test_reading_and_remembering_stop_at_their_limits(snapshot):
    cut = profile_column(snapshot, "s", limits=ProfileLimits(rows=2))
    assert (cut.row_count, cut.is_whole) == (2, False)
    many = profile_column(snapshot, "s", limits=ProfileLimits(distinct_bytes=1))
    assert (many.distinct_count, many.is_whole) == (None, True)
    assert many.bounds.to_pylist() == ["Z", "é"]
