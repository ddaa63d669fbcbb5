"""Tables that Iceberg clients can read, and those that they cannot."""

import pytest

from engine.protocol.iceberg_compat import faults_of, has_nested_ids, partitions_fault
from engine.schema.types import (
    LONG,
    STRING,
    VARIANT,
    ArrayType,
    MapType,
    PrimitiveType,
    StructField,
    StructType,
)

MAPPED = {"delta.columnMapping.mode": "name"}


def build_widened(before, after):
    metadata = {"delta.typeChanges": [{"fromType": before, "toType": after}]}
    return StructType((StructField("x", LONG, metadata=metadata),))


def faults(schema, **more):
    return list(faults_of(schema, MAPPED | more))


def test_a_mapped_table_of_known_types_has_no_fault():
    nested = ArrayType(StructType((StructField("m", MapType(STRING, LONG)),)))
    assert faults(StructType((StructField("a", nested),))) == []


@pytest.mark.parametrize("kind", [VARIANT, PrimitiveType("void")], ids=str)
def test_types_that_iceberg_lacks_are_found_at_any_depth(kind):
    deep = ArrayType(StructType((StructField("x", MapType(STRING, kind)),)))
    (fault,) = faults(StructType((StructField("a", deep),)))
    assert kind.name in fault


@pytest.mark.parametrize(
    ("configuration", "words"),
    [
        ({"delta.columnMapping.mode": "none"}, "column mapping is off"),
        ({"delta.enableDeletionVectors": "true"}, "vectors"),
        ({"delta.enableIcebergCompatV1": "true"}, "CompatV1"),
    ],
)
def test_properties_that_do_not_go_with_it_are_named(configuration, words):
    (fault,) = faults(StructType((StructField("a", LONG),)), **configuration)
    assert words in fault


@pytest.mark.parametrize(
    ("before", "after", "is_known"),
    [
        ("integer", "long", True),
        ("byte", "short", True),
        ("int", "bigint", True),
        ("float", "double", True),
        ("decimal(5,2)", "decimal(9,2)", True),
        ("decimal(5,2)", "decimal(9,3)", False),
        ("integer", "double", False),
        ("integer", "decimal(12,0)", False),
        ("date", "timestamp_ntz", False),
        ("decimal(x)", "decimal()", False),
    ],
)
def test_only_promotions_that_iceberg_knows_pass(before, after, is_known):
    assert (faults(build_widened(before, after)) == []) is is_known


def test_partition_columns_cannot_change_under_iceberg_compatibility():
    assert partitions_fault(["a"], ["a"]) is None
    assert partitions_fault([], ["a"]) is None
    assert "partition columns cannot change" in str(partitions_fault(["a"], []))


def test_elements_without_ids_are_found():
    assert has_nested_ids(StructType((StructField("a", LONG),)))
    assert not has_nested_ids(StructType((StructField("a", ArrayType(LONG)),)))
