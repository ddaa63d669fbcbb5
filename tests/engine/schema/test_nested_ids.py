"""Ids of elements, keys and values, as in the protocol's own example."""

from engine.schema.column_mapping import (
    ICEBERG_COMPAT_KEY,
    MAX_ID_KEY,
    MODE_KEY,
    NESTED_IDS_KEY,
    PHYSICAL_NAME_KEY,
    assign_nested_ids,
    field_id,
    map_columns,
    read_nested_ids,
)
from engine.schema.types import INTEGER, ArrayType, MapType, StructField, StructType, parse_schema

INTS = ArrayType(INTEGER)
SCHEMA = StructType(
    (
        StructField("col1", ArrayType(INTS)),
        StructField("col2", MapType(INTEGER, INTS)),
        StructField("col3", MapType(INTEGER, StructType((StructField("subcol1", INTS),)))),
        StructField("plain", INTEGER),
    )
)
BOTH = {MODE_KEY: "name", ICEBERG_COMPAT_KEY: "true"}


def test_ids_are_kept_by_the_nearest_field_under_the_paths_of_the_protocol():
    numbered, highest = assign_nested_ids(SCHEMA, 99, PHYSICAL_NAME_KEY)
    col1, col2, col3, plain = numbered.fields
    assert read_nested_ids(col1) == {"col1.element": 100, "col1.element.element": 101}
    assert read_nested_ids(col2) == {"col2.key": 102, "col2.value": 103, "col2.value.element": 104}
    assert read_nested_ids(col3) == {"col3.key": 105, "col3.value": 106}
    assert isinstance(col3.type, MapType)
    assert isinstance(col3.type.value, StructType)
    assert read_nested_ids(col3.type.value.fields[0]) == {"subcol1.element": 107}
    assert NESTED_IDS_KEY not in plain.metadata
    assert highest == 107


def test_existing_ids_stay_and_no_column_gets_one_of_them():
    mapped, configuration = map_columns(SCHEMA, BOTH)
    assert map_columns(mapped, configuration) == (mapped, configuration)
    assert parse_schema(mapped.to_json()) == mapped
    more = StructType((*mapped, StructField("late", INTS)))
    wider, after = map_columns(more, configuration)
    late = wider.fields[-1]
    assert field_id(late) == int(configuration[MAX_ID_KEY]) + 1
    assert list(read_nested_ids(late).values()) == [int(after[MAX_ID_KEY])]
    assert wider.fields[:-1] == mapped.fields


def test_paths_begin_with_the_physical_name():
    mapped, _ = map_columns(SCHEMA, BOTH)
    first = mapped.fields[0]
    physical = first.metadata[PHYSICAL_NAME_KEY]
    assert physical != "col1"
    assert list(read_nested_ids(first)) == [f"{physical}.element", f"{physical}.element.element"]


def test_a_table_without_iceberg_compatibility_gets_no_nested_ids():
    mapped, _ = map_columns(SCHEMA, {MODE_KEY: "name"})
    assert not any(read_nested_ids(field) for field in mapped)
    assert map_columns(SCHEMA, {ICEBERG_COMPAT_KEY: "true"})[0] == SCHEMA


def test_metadata_other_than_ids_is_ignored():
    for wrong in ("text", {"x.element": "5"}, {"x.element": True}, None):
        assert read_nested_ids(StructField("x", INTS, metadata={NESTED_IDS_KEY: wrong})) == {}
