import uuid

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.deletion_vectors.files import write_deletion_vector
from engine.errors import DeletionVectorError
from engine.schema.column_mapping import ID_KEY, PHYSICAL_NAME_KEY, assign_mapping
from engine.schema.types import (
    DATE,
    INTEGER,
    LONG,
    STRING,
    TIMESTAMP,
    ArrayType,
    MapType,
    StructField,
    StructType,
)
from engine.snapshot.reader import ROW_INDEX, iter_file, read_file
from engine.snapshot.snapshot import Snapshot, load_snapshot
from engine.storage.memory import MemoryStore
from engine.table import DeltaTable
from tests.engine.made_tables import SCHEMA, WITH_VECTORS, write_commit, write_first, write_rows


def create_store(schema: StructType = SCHEMA, **values) -> MemoryStore:
    store = MemoryStore(f"memory://{uuid.uuid4()}")
    write_first(store, schema, WITH_VECTORS, **values)
    return store


def snapshot_of_rows(count: int, deleted: list[int]) -> Snapshot:
    store = create_store()
    vector = write_deletion_vector(store, deleted) if deleted else None
    write_commit(
        store, 1, write_rows(store, "f", {"id": list(range(count))}, deletion_vector=vector)
    )
    return load_snapshot(store)


def test_positions_are_those_of_the_file():
    snapshot = snapshot_of_rows(5, [1, 3])
    rows = read_file(snapshot, snapshot.add_files()[0], ["id"], with_positions=True)
    assert rows.to_pydict() == {"id": [0, 2, 4], ROW_INDEX: [0, 2, 4]}


@given(st.integers(1, 30), st.sets(st.integers(0, 29)), st.integers(1, 12))
def test_batches_are_the_file_in_pieces(count: int, deleted: set[int], batch_rows: int):
    snapshot = snapshot_of_rows(count, sorted(row for row in deleted if row < count))
    add = snapshot.add_files()[0]
    whole = read_file(snapshot, add, with_positions=True)
    pieces = list(iter_file(snapshot, add, with_positions=True, batch_rows=batch_rows))
    assert pa.concat_tables(pieces).equals(whole)
    assert all(piece.num_rows <= batch_rows for piece in pieces)
    assert snapshot.to_arrow(limit=3).equals(snapshot.to_arrow()[:3])


def test_a_vector_past_the_end_is_refused_in_batches_too():
    snapshot = snapshot_of_rows(5, [7])
    with pytest.raises(DeletionVectorError):
        list(iter_file(snapshot, snapshot.add_files()[0], batch_rows=2))


NESTED = StructType(
    (
        StructField("s", StructType((StructField("x", LONG), StructField("y", STRING)))),
        StructField("l", ArrayType(StructType((StructField("z", LONG), StructField("new", DATE))))),
        StructField("m", MapType(STRING, StructType((StructField("v", INTEGER),)))),
        StructField("ll", ArrayType(ArrayType(LONG))),
    )
)


@pytest.mark.parametrize("mode", ["name", "id"])
def test_nested_columns_are_found_by_the_mapping(mode: str):
    mapped, _ = assign_mapping(NESTED)
    store = create_store(mapped, configuration={"delta.columnMapping.mode": mode})
    s, items, m, ll = mapped.fields
    table = pa.table(
        {
            physical(ll): pa.array([[[1], None, []], None]),
            physical(s): struct_array(s, {"y": ["a", None]}, [False, True], mode),
            physical(m): pa.array([[("k", {inner(m).metadata[NAME]: 7})], None], map_type(m, mode)),
            physical(items): pa.array(
                [[{inner(items).metadata[NAME]: 5}, None], []], list_type(items, mode)
            ),
        }
    )
    fields = [table.schema.field(i) for i in range(4)]
    by_physical = {physical(field): field for field in mapped}
    schema = pa.schema([add_field_id(f, by_physical[f.name], mode) for f in fields])
    write_commit(store, 1, write_rows(store, "f", table.cast(schema)))
    assert load_snapshot(store).to_arrow().to_pylist(maps_as_pydicts="strict") == [
        {
            "s": {"x": None, "y": "a"},
            "l": [{"z": 5, "new": None}, None],
            "m": {"k": {"v": 7}},
            "ll": [[1], None, []],
        },
        {"s": None, "l": [], "m": None, "ll": None},
    ]


NAME = "delta.columnMapping.physicalName"


def physical(field: StructField) -> str:
    return field.metadata[NAME]


def inner(field: StructField) -> StructField:
    kind = field.type
    if isinstance(kind, ArrayType):
        kind = kind.element
    if isinstance(kind, MapType):
        kind = kind.value
    assert isinstance(kind, StructType)
    return kind.fields[0]


def add_field_id(field: pa.Field, field_: StructField, mode: str) -> pa.Field:
    return (
        field
        if mode == "name"
        else field.with_metadata(
            {"PARQUET:field_id": str(field_.metadata["delta.columnMapping.id"])}
        )
    )


def arrow_field(field: StructField, kind: pa.DataType, mode: str) -> pa.Field:
    return add_field_id(pa.field(physical(field), kind), field, mode)


def struct_array(field: StructField, values: dict, missing: list[bool], mode: str) -> pa.Array:
    fields = {f.name: f for f in field.type.fields}
    children = [arrow_field(fields[name], pa.string(), mode) for name in values]
    return pa.StructArray.from_arrays(
        [pa.array(v) for v in values.values()], fields=children, mask=pa.array(missing)
    )


def list_type(field: StructField, mode: str) -> pa.DataType:
    return pa.list_(pa.struct([arrow_field(inner(field), pa.int64(), mode)]))


def map_type(field: StructField, mode: str) -> pa.DataType:
    return pa.map_(pa.string(), pa.struct([arrow_field(inner(field), pa.int32(), mode)]))


@pytest.mark.parametrize("unit", ["ns", "us", "ms"])
@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Berlin"])
def test_moments_of_every_unit_become_microseconds(unit: str, zone: str | None):
    store = create_store(StructType((StructField("t", TIMESTAMP),)))
    ticks = {"ns": -1_000_001_000_001, "us": -1_000_001_001, "ms": -1_000_001}[unit]
    column = pa.array([ticks], pa.int64()).cast(pa.timestamp(unit, zone))
    write_commit(store, 1, write_rows(store, "f", {"t": column}))
    times = load_snapshot(store).to_arrow().column("t")
    assert times.type == pa.timestamp("us", "UTC")
    expected = {"ns": -1_000_001_001, "us": -1_000_001_001, "ms": -1_000_001_000}[unit]
    assert times.cast(pa.int64()).to_pylist() == [expected]


@pytest.mark.parametrize(
    "kind", [pa.large_list(pa.int64()), pa.list_view(pa.int64()), pa.list_(pa.int64(), 2)]
)
def test_lists_of_every_layout_are_lists(kind: pa.DataType):
    store = create_store(StructType((StructField("l", ArrayType(LONG)),)))
    write_commit(store, 1, write_rows(store, "f", {"l": pa.array([[1, 2], None, [3, 4]], kind)}))
    assert load_snapshot(store).to_arrow().to_pydict() == {"l": [[1, 2], None, [3, 4]]}


def test_text_of_every_layout_is_text():
    store = create_store()
    one = write_rows(store, "one", {"id": [1], "name": pa.array(["a"], pa.large_string())})
    two = write_rows(store, "two", {"id": [2], "name": pa.array(["b"]).dictionary_encode()})
    three = write_rows(store, "three", {"ID": [3], "NAME": pa.array(["c"], pa.string_view())})
    write_commit(store, 1, one, two, three)
    assert load_snapshot(store).to_arrow().to_pydict() == {"id": [1, 2, 3], "name": ["a", "b", "c"]}


def test_names_that_differ_in_case_alone_are_columns_of_their_own():
    pair = (StructField("x", LONG), StructField("X", LONG))
    schema = StructType((*pair, StructField("s", StructType(pair))))
    store = MemoryStore(f"memory://{uuid.uuid4()}")
    write_first(store, schema)
    either = pa.table({"x": [1], "s": pa.array([{"x": 2}])})
    both = pa.table({"X": [3], "x": [4], "s": pa.array([{"X": 5, "x": 6}])})
    write_commit(store, 1, write_rows(store, "a", either), write_rows(store, "b", both))
    assert DeltaTable.open(store.root).snapshot().to_arrow().to_pylist() == [
        {"x": 1, "X": None, "s": {"x": 2, "X": None}},
        {"x": 4, "X": 3, "s": {"x": 6, "X": 5}},
    ]


@pytest.mark.parametrize("mode", ["name", "id"])
def test_fields_that_took_each_others_names_keep_their_values(mode: str):
    def map_field(name: str, physical: str, number: int) -> StructField:
        return StructField(name, LONG, metadata={PHYSICAL_NAME_KEY: physical, ID_KEY: number})

    inside = StructType((map_field("x", "y", 2), map_field("y", "x", 1)))
    identity = {PHYSICAL_NAME_KEY: "s", ID_KEY: 3}
    schema = StructType((StructField("s", ArrayType(inside), metadata=identity),))
    fields = [
        pa.field(name, pa.int64(), metadata={"PARQUET:field_id": str(number)})
        for name, number in (("x", 1), ("y", 2))
    ]
    kind = pa.list_(pa.struct(fields))
    column = pa.field("s", kind, metadata={"PARQUET:field_id": "3"})
    rows = pa.table({"s": pa.array([[{"x": 1, "y": 2}]], kind)}, schema=pa.schema([column]))
    store = create_store(schema, configuration={"delta.columnMapping.mode": mode})
    write_commit(store, 1, write_rows(store, "a", rows))
    assert load_snapshot(store).to_arrow().to_pylist() == [{"s": [{"x": 2, "y": 1}]}]
