"""Checkpoints with typed statistics and partition values, read back by this engine and others."""

import json
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import duckdb_extension_delta
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable as OtherTable
from deltalake import QueryBuilder

from engine.actions.table import Metadata, Protocol
from engine.log.checkpoint_writer import (
    choose_statistics_columns,
    parse_partition_columns,
    parse_statistics,
    write_checkpoint,
)
from engine.log.paths import SIDECAR_DIRECTORY, checkpoint_path, commit_path
from engine.log.replay import load_table_state
from engine.protocol.properties import TableProperties
from engine.schema.types import (
    BINARY,
    BOOLEAN,
    BYTE,
    DATE,
    DOUBLE,
    FLOAT,
    LONG,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    ArrayType,
    DataType,
    DecimalType,
    StructField,
    StructType,
)
from engine.snapshot.snapshot import load_snapshot
from engine.storage.local import LocalStore
from tests.engine.made_tables import LEGACY, metadata, write_commit, write_first, write_rows

INNER = StructType((StructField("x", LONG), StructField("tags", ArrayType(STRING, True))))
NAMES = {"delta.columnMapping.mode": "name"}


def parse_bounds(data_type: DataType, *values: Any) -> list[Any]:
    """Return the parsed lower bound of a column."""
    texts = [json.dumps({"numRecords": 1, "minValues": {"c": value}}) for value in values]
    schema = StructType((StructField("c", data_type),))
    statistics = parse_statistics(
        pa.chunked_array([texts], pa.string()), metadata(schema), TableProperties()
    )
    return [row["minValues"]["c"] for row in statistics.to_pylist()]


@pytest.mark.parametrize(
    ("data_type", "value", "expected"),
    [
        (LONG, 2**63 - 1, 2**63 - 1),
        (LONG, 2**63, None),
        (LONG, 1.5, None),
        (LONG, True, None),
        (LONG, "1", None),
        (BYTE, 300, None),
        (BYTE, -3, -3),
        (DOUBLE, 1, 1.0),
        (DOUBLE, 0.1, 0.1),
        (DOUBLE, "NaN", None),
        (FLOAT, 0.5, 0.5),
        (BOOLEAN, True, True),
        (BOOLEAN, 1, None),
        (STRING, "ä\x00", "ä\x00"),
        (STRING, 5, None),
        (DATE, "2024-02-29", date(2024, 2, 29)),
        (DATE, "2024-02-30", None),
        (DATE, 5, None),
        (TIMESTAMP, "2024-01-01T00:00:00.123Z", datetime(2024, 1, 1, 0, 0, 0, 123000, UTC)),
        (TIMESTAMP, "2024-01-01T02:00:00+02:00", datetime(2024, 1, 1, tzinfo=UTC)),
        (TIMESTAMP, "+12024-01-01T00:00:00Z", None),
        (TIMESTAMP_NTZ, "2024-01-01T00:00:00", datetime(2024, 1, 1)),  # noqa: DTZ001 - a wall clock
        (DecimalType(10, 2), 1.5, Decimal("1.50")),
        (DecimalType(10, 2), 1.555, None),
        (DecimalType(38, 2), "7", Decimal("7.00")),
        (DecimalType(38, 2), {}, None),
    ],
)
def test_a_bound_is_typed_or_left_out(data_type: DataType, value: Any, expected: Any):
    assert parse_bounds(data_type, value) == [expected]


def test_one_bad_bound_leaves_the_others():
    assert parse_bounds(LONG, 1, 2**70, 3) == [1, None, 3]


@pytest.mark.parametrize("text", [None, "", "null", "[]", "{", "7"])
def test_invalid_statistics_are_null(text: str | None):
    column = pa.chunked_array([[text, '{"numRecords":3}']], pa.string())
    statistics = parse_statistics(column, metadata(), TableProperties())
    first, second = statistics.to_pylist()
    assert first is None
    assert (second["numRecords"], second["tightBounds"]) == (3, None)


def columns_of(table: Metadata, **properties: Any) -> list[str]:
    return choose_statistics_columns(table, replace(TableProperties(), **properties)).names


def test_the_indexed_columns_are_the_first_leaves_or_those_named():
    schema = StructType(
        (
            StructField("a", LONG),
            StructField("p", STRING),
            StructField("in", INNER),
            StructField("b.c", LONG),
        )
    )
    table = metadata(schema, partition_columns=["P"])
    assert columns_of(table) == ["a", "in", "b.c"]
    assert columns_of(table, data_skipping_num_indexed_cols=-1) == ["a", "in", "b.c"]
    assert columns_of(table, data_skipping_num_indexed_cols=2) == ["a", "in"]
    assert columns_of(table, data_skipping_num_indexed_cols=0) == []
    named = choose_statistics_columns(
        table, TableProperties(data_skipping_stats_columns=(("in", "x"), ("p",)))
    )
    assert [field.name for field in named] == ["in"]
    assert named.fields[0].type.names == ["x"]


def test_a_column_without_order_has_a_null_count_alone():
    schema = StructType((StructField("b", BINARY), StructField("in", INNER)))
    text = '{"numRecords":2,"nullCount":{"b":1,"in":{"x":0,"tags":2}},"minValues":{"in":{"x":7}}}'
    column = pa.chunked_array([[text]], pa.string())
    statistics = parse_statistics(column, metadata(schema), TableProperties())
    (row,) = statistics.to_pylist()
    assert row["nullCount"] == {"b": 1, "in": {"x": 0, "tags": 2}}
    assert row["minValues"] == {"in": {"x": 7}}


def test_names_are_physical_and_partition_values_typed():
    keys = {"delta.columnMapping.id": 1, "delta.columnMapping.physicalName": "col-1"}
    table = metadata(
        StructType((StructField("day", DATE, True, keys), StructField("id", LONG))),
        partition_columns=["day"],
        configuration=NAMES,
    )
    pairs = [[("col-1", "2024-01-02")], [("col-1", None)], [], [("col-1", "soon")]]
    column = pa.chunked_array([pa.array(pairs, pa.map_(pa.string(), pa.string()))])
    values = parse_partition_columns(column, table)
    expected = [date(2024, 1, 2), None, None, None]
    assert [row["col-1"] for row in values.to_pylist()] == expected
    assert parse_partition_columns(column, metadata()) is None


# --- whole checkpoints ---

SCHEMA = StructType(
    (
        StructField("id", LONG),
        StructField("ts", TIMESTAMP),
        StructField("n", DecimalType(9, 2)),
        StructField("deep", StructType((StructField("x", LONG),))),
        StructField("day", DATE),
    )
)
V2 = Protocol(
    min_reader_version=3,
    min_writer_version=7,
    reader_features=["v2Checkpoint"],
    writer_features=["v2Checkpoint"],
)


def create_store(root: Path, policy: str, **configuration: str) -> LocalStore:
    store = LocalStore(root)
    keys = {"delta.checkpointPolicy": policy, **configuration}
    protocol = V2 if policy == "v2" else LEGACY
    write_first(store, SCHEMA, protocol, partition_columns=["day"], configuration=keys)
    for number in (1, 2):
        rows = pa.table(
            {
                "id": [number, number + 10],
                "ts": pa.array(
                    [datetime(2024, 1, number, tzinfo=UTC)] * 2, pa.timestamp("us", "UTC")
                ),
                "n": pa.array([Decimal("1.25")] * 2, pa.decimal128(9, 2)),
                "deep": pa.array([{"x": number}] * 2, pa.struct([("x", pa.int64())])),
            }
        )
        bounds = {"ts": f"2024-01-0{number}T00:00:00.000Z", "n": 1.25, "deep": {"x": number}}
        stats = {
            "numRecords": 2,
            "minValues": {"id": number, **bounds},
            "maxValues": {"id": number + 10, **bounds},
            "nullCount": {"id": 0, "ts": 0, "n": 0, "deep": {"x": 0}},
        }
        values = {"day": f"2024-01-0{number}"}
        file = write_rows(store, f"f{number}.parquet", rows, stats=json.dumps(stats))
        write_commit(store, number, replace_values(file, values))
    return store


def replace_values(file: Any, values: dict[str, str]) -> Any:
    return type(file)(
        **{**{f: getattr(file, f) for f in file.__struct_fields__}, "partition_values": values}
    )


def read_add_type(store: LocalStore) -> pa.StructType:
    """Write a checkpoint, delete the commits before it, and return the type of its `add` column."""
    snapshot = load_snapshot(store)
    write_checkpoint(store, snapshot.state, snapshot.properties, now_ms=0)
    for version in range(snapshot.version):
        store.delete(commit_path(version))
    sidecars = [file.path for file in store.list_all(SIDECAR_DIRECTORY)]
    with store.open_input(sidecars[0] if sidecars else checkpoint_path(snapshot.version)) as source:
        return pq.read_schema(source).field("add").type


def has(kind: pa.StructType, name: str) -> bool:
    return kind.get_field_index(name) >= 0


@pytest.mark.parametrize("policy", ["classic", "v2"])
@pytest.mark.parametrize("as_json", ["true", "false"])
@pytest.mark.parametrize("as_struct", ["true", "false"])
def test_statistics_are_written_as_the_properties_say_and_read_by_all(
    tmp_path: Path, policy: str, as_json: str, as_struct: str
):
    store = create_store(
        tmp_path,
        policy,
        **{
            "delta.checkpoint.writeStatsAsJson": as_json,
            "delta.checkpoint.writeStatsAsStruct": as_struct,
        },
    )
    before = load_snapshot(store)
    kind = read_add_type(store)
    assert has(kind, "stats") is (as_json == "true")
    assert has(kind, "stats_parsed") is (as_struct == "true")
    assert has(kind, "partitionValues_parsed") is (as_struct == "true")
    after = load_snapshot(store)
    assert after.state.checkpoint_version == 2
    has_stats = as_json == "true" or as_struct == "true"
    assert after.files("id > 11").num_rows == (1 if has_stats else 2)
    assert after.files("deep.x = 1").num_rows == (1 if has_stats else 2)
    assert after.files("n > 2").num_rows == (0 if has_stats else 2)
    assert after.row_count == 4
    assert sorted(after.to_arrow().to_pylist(), key=str) == sorted(
        before.to_arrow().to_pylist(), key=str
    )
    assert _ids_elsewhere(tmp_path, "id > 11") == [[12], [12]]
    assert _ids_elsewhere(tmp_path, "day = '2024-01-01'") == [[1, 11], [1, 11]]
    assert _ids_elsewhere(tmp_path, "ts > '2024-01-01 12:00:00'") == [[2, 12], [2, 12]]


def _ids_elsewhere(root: Path, where: str) -> list[list[int]]:
    query = f"SELECT id FROM t WHERE {where} ORDER BY id"  # noqa: S608 - the test's own text
    builder = QueryBuilder().register("t", OtherTable(str(root)))
    first = pa.table(builder.execute(query).read_all()).column("id").to_pylist()
    extension = next(
        (Path(duckdb_extension_delta.__file__).parent / "extensions").glob(
            "*/delta.duckdb_extension"
        )
    )
    with duckdb.connect(config={"allow_unsigned_extensions": "true"}) as connection:
        connection.execute(f"LOAD '{extension}'; SET TimeZone = 'UTC'")
        cursor = connection.execute(query.replace("FROM t", "FROM delta_scan(?)"), [str(root)])
        return [first, [row[0] for row in cursor.fetchall()]]


def test_structs_alone_contain_the_same_values_as_the_text(tmp_path: Path):
    store = create_store(tmp_path, "classic", **{"delta.checkpoint.writeStatsAsJson": "false"})
    before = load_table_state(store).files.column("stats").to_pylist()
    read_add_type(store)
    after = load_table_state(store).files.column("stats").to_pylist()
    assert [_load_microseconds(row) for row in before] == [json.loads(row) for row in after]


def _load_microseconds(text: str) -> Any:
    return json.loads(text.replace("00.000Z", "00.000000Z"))


def test_rows_are_counted_where_no_column_has_statistics(tmp_path):
    store = LocalStore(tmp_path)
    configuration = {
        "delta.dataSkippingNumIndexedCols": "0",
        "delta.checkpoint.writeStatsAsJson": "false",
    }
    write_first(store, configuration=configuration)
    write_commit(store, 1, write_rows(store, "f.parquet", {"id": [1, 2]}))
    state = load_table_state(store)
    write_checkpoint(store, state, TableProperties.parse(configuration), 0)
    store.delete(commit_path(0))
    snapshot = load_snapshot(store)
    assert snapshot.state.checkpoint_version == 1
    assert [json.loads(add_file.stats)["numRecords"] for add_file in snapshot.add_files()] == [2]
    assert len(OtherTable(str(tmp_path)).file_uris()) == 1
