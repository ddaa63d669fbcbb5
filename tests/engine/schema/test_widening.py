import pytest

from engine.errors import UnsupportedFeatureError
from engine.schema.evolution import is_wider, list_unsupported_changes
from engine.schema.types import (
    BYTE,
    DATE,
    DOUBLE,
    INTEGER,
    LONG,
    SHORT,
    STRING,
    TIMESTAMP_NTZ,
    ArrayType,
    DecimalType,
    StructField,
    StructType,
)
from engine.snapshot.snapshot import load_snapshot
from engine.storage.memory import MemoryStore
from tests.engine.made_tables import write_first


@pytest.mark.parametrize(
    ("before", "after", "wider"),
    [
        (INTEGER, LONG, True),
        (LONG, INTEGER, False),
        (LONG, DOUBLE, False),
        (INTEGER, DOUBLE, True),
        (DATE, TIMESTAMP_NTZ, True),
        (DecimalType(5, 2), DecimalType(7, 3), True),
        (DecimalType(5, 2), DecimalType(6, 4), False),
        (INTEGER, DecimalType(10, 0), True),
        (INTEGER, DecimalType(9, 0), False),
        (BYTE, DecimalType(10, 0), True),
        (BYTE, DecimalType(3, 0), False),
        (SHORT, DecimalType(11, 2), False),
        (LONG, DecimalType(20, 0), True),
        (LONG, DecimalType(20, 1), False),
        (STRING, LONG, False),
    ],
)
def test_only_the_changes_of_the_protocol_are_wider(before, after, wider):
    assert is_wider(before, after) is wider


def build_changed(before: object, after: object) -> StructType:
    note = {"fromType": before, "toType": after}
    inside = StructField("x", LONG, metadata={"delta.typeChanges": [note]})
    return StructType((StructField("a", ArrayType(StructType((inside,)))),))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("integer", "long"),
        ("byte", "decimal(12,2)"),
        ("long", "long"),
        ("int", "bigint"),
        ("tinyint", "int"),
        ("smallint", "integer"),
    ],
)
def test_changes_that_the_protocol_has_are_read(before, after):
    assert list_unsupported_changes(build_changed(before, after)) == []


@pytest.mark.parametrize(
    ("before", "after"), [("long", "double"), ("string", "long"), ("future", "long"), (None, 5)]
)
def test_a_table_with_another_change_is_refused_by_its_name(before, after):
    store = MemoryStore(f"memory://widening/{before}-{after}")
    write_first(store, build_changed(before, after))
    with pytest.raises(UnsupportedFeatureError, match=f"change of x from {before} to {after}"):
        load_snapshot(store)
