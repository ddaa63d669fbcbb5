"""Bounds written by other engines: years within INT96, and offsets without seconds."""

import json
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from engine.actions.statistics import may_lack_seconds
from engine.errors import MalformedLogError
from engine.log.checkpoint_writer import parse_statistics
from engine.protocol.properties import TableProperties
from engine.schema.types import TIMESTAMP, StructField, StructType
from engine.snapshot.snapshot import load_snapshot
from engine.storage.uri import open_store
from tests.engine.lying_logs import add_file, execute, make, read
from tests.engine.made_tables import LEGACY, metadata

MOMENT = pa.timestamp("us", "UTC")
MAP = pa.map_(pa.string(), pa.string())


def _checkpoint(root, add: dict, add_type: pa.DataType, made, **options):
    """Write version 0 as a checkpoint only."""
    protocol = pa.struct([("minReaderVersion", pa.int32()), ("minWriterVersion", pa.int32())])
    kind = pa.struct(
        [
            ("id", pa.string()),
            ("format", pa.struct([("provider", pa.string()), ("options", MAP)])),
            ("schemaString", pa.string()),
            ("partitionColumns", pa.list_(pa.string())),
            ("configuration", MAP),
        ]
    )
    told = {
        "id": "made",
        "format": {"provider": "parquet", "options": []},
        "schemaString": made.schema_string,
        "partitionColumns": made.partition_columns,
        "configuration": [],
    }
    versions = {"minReaderVersion": LEGACY.min_reader_version, "minWriterVersion": 2}
    rows = pa.table(
        {
            "protocol": pa.array([versions, None, None], protocol),
            "metaData": pa.array([None, told, None], kind),
            "add": pa.array([None, None, add], add_type),
        }
    )
    (root / "_delta_log").mkdir()
    pq.write_table(rows, root / "_delta_log" / f"{0:020}.checkpoint.parquet", **options)


def _add_type(*more: tuple[str, pa.DataType]) -> pa.DataType:
    fields = [("path", pa.string()), ("size", pa.int64()), ("modificationTime", pa.int64())]
    return pa.struct([*fields, ("dataChange", pa.bool_()), *more])


def _body(root, rows: pa.Table) -> dict:
    body = add_file(root, "a", rows)["add"]
    return {**body, "partitionValues": [], "dataChange": False}


@pytest.mark.parametrize("year", [1600, 2020, 9999])
def test_typed_bounds_as_int96_hold_every_year(tmp_path, year):
    at = datetime(year, 12, 31, tzinfo=UTC)
    rows = pa.table({"at": pa.array([datetime(2020, 1, 1, tzinfo=UTC), at], MOMENT)})
    bounds = pa.struct([("at", MOMENT)])
    stats = pa.struct([("numRecords", pa.int64()), ("minValues", bounds), ("maxValues", bounds)])
    low, high = sorted(rows["at"].to_pylist())
    said = {"numRecords": 2, "minValues": {"at": low}, "maxValues": {"at": high}}
    body = {**_body(tmp_path, rows), "stats_parsed": said}
    kind = _add_type(("partitionValues", MAP), ("stats_parsed", stats))
    made = metadata(StructType((StructField("at", TIMESTAMP),)))
    _checkpoint(tmp_path, body, kind, made, use_deprecated_int96_timestamps=True)
    assert len(read(tmp_path, f"at = TIMESTAMP '{year:04}-12-31 00:00:00Z'")) == 1


def test_a_checkpoint_without_the_values_of_partitions_is_refused(tmp_path):
    """Another column of the checkpoint has typed values, but no reader uses them instead."""
    parsed = pa.struct([("name", pa.string())])
    body = {**_body(tmp_path, pa.table({"id": [1]})), "partitionValues_parsed": {"name": "a"}}
    made = metadata(partition_columns=["name"])
    _checkpoint(tmp_path, body, _add_type(("partitionValues_parsed", parsed)), made)
    with pytest.raises(MalformedLogError, match="without their partitionValues"):
        load_snapshot(open_store(str(tmp_path)))


OFFSETS = [
    (timedelta(minutes=53, seconds=28), "+00:53"),
    (timedelta(minutes=9, seconds=21), "+00:09"),
    (-timedelta(hours=7, minutes=52, seconds=58), "-07:52"),
    (timedelta(hours=2, seconds=16), "+02:00"),
]


@pytest.mark.parametrize("offset", OFFSETS)
def test_an_offset_that_lost_its_seconds_hides_no_row(tmp_path, offset):
    exact, written = offset
    wall = datetime(1900, 1, 1, tzinfo=UTC)
    moment, bound = wall - exact, f"1900-01-01T00:00:00.000{written}"
    rows = pa.table({"at": pa.array([moment], MOMENT)})
    said = {"minValues": {"at": bound}, "maxValues": {"at": bound}, "nullCount": {"at": 0}}
    add = add_file(tmp_path, "a", rows, {"numRecords": 1, **said})
    make(tmp_path, add, fields=[("at", "timestamp")])
    shown = f"TIMESTAMP '{moment:%Y-%m-%d %H:%M:%S}Z'"
    for operator in ("=", "<=", ">="):
        assert len(read(tmp_path, f"at {operator} {shown}")) == 1
    assert read(tmp_path, "at > TIMESTAMP '1900-01-02 00:00:00Z'") == []
    execute(tmp_path, " ".join(["DELETE FROM t WHERE at =", shown]))
    assert read(tmp_path) == []


def test_a_bound_that_may_lack_seconds_is_not_made_a_typed_one():
    made = metadata(StructType((StructField("at", TIMESTAMP),)))
    bounds = ["1900-01-01T00:00:00.000+00:09", "2020-01-01T00:00:00.000+05:30"]
    texts = [json.dumps({"numRecords": 1, "minValues": {"at": bound}}) for bound in bounds]
    typed = parse_statistics(pa.chunked_array([texts]), made, TableProperties.parse({}))
    assert [row["minValues"]["at"] is None for row in typed.to_pylist()] == [True, False]


def test_only_offsets_of_local_mean_time_may_lack_seconds():
    lacking = [
        "1850-01-01T01:01:01.000+00:53",
        "-0044-01-01T00:00:00+0053",
        "1972-01-01T00:00:00-00:44",
    ]
    sound = [
        "1850-01-01T00:00:00.000Z",
        "1850-01-01",
        "2020-01-01T00:00:00.000+05:30",
        "1850-01-01T00:00:00",
    ]
    assert [may_lack_seconds(bound) for bound in lacking + sound] == [True] * 3 + [False] * 4
