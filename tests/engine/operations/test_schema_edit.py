from dataclasses import replace

import pytest

from engine.errors import InvalidSchemaError, UnknownColumnError
from engine.operations.define.alter import (
    change_field,
    drop_field,
    edit,
    insert_fields,
    move_field,
    widen_field,
)
from engine.schema.text_lengths import TEXT_TYPE, read_declared_type, render_declared_type
from engine.schema.types import (
    INTEGER,
    LONG,
    STRING,
    DecimalType,
    StructField,
    StructType,
)

INNER = StructType((StructField("x", LONG), StructField("y", LONG)))
SCHEMA = StructType((StructField("a", LONG), StructField("s", INNER), StructField("b", STRING)))


def test_columns_go_first_behind_another_or_last():
    new = [StructField("n", LONG)]
    for options, names in [
        ({"first": True, "after": ""}, ["n", "a", "s", "b"]),
        ({"first": False, "after": "A"}, ["a", "n", "s", "b"]),
        ({"first": False, "after": ""}, ["a", "s", "b", "n"]),
    ]:
        assert edit(SCHEMA, (), insert_fields(new, **options)).names == names


def test_fields_inside_structs_are_reached():
    after = edit(SCHEMA, ("s",), drop_field("x"))
    assert after.get("s").type.names == ["y"]
    assert after.names == SCHEMA.names


def test_columns_move_among_their_siblings():
    assert edit(SCHEMA, (), move_field("b", first=True, after="")).names == ["b", "a", "s"]


def test_existing_names_and_missing_columns_are_refused():
    with pytest.raises(InvalidSchemaError):
        edit(SCHEMA, (), insert_fields([StructField("A", LONG)], first=False, after=""))
    with pytest.raises(InvalidSchemaError):
        edit(SCHEMA, (), change_field("a", lambda field: StructField("B", field.type)))
    with pytest.raises(UnknownColumnError):
        edit(SCHEMA, (), drop_field("nowhere"))
    with pytest.raises(UnknownColumnError):
        edit(SCHEMA, ("a",), drop_field("x"))


def test_a_widened_column_remembers_its_types():
    field = widen_field(widen_field(StructField("a", INTEGER), LONG), DecimalType(20, 0))
    notes = [(n["fromType"], n["toType"]) for n in field.metadata["delta.typeChanges"]]
    assert notes == [("integer", "long"), ("long", "decimal(20,0)")]


LIMITED = StructType(
    (
        StructField(
            "s",
            StructType((StructField("in", StructType((StructField("x", STRING),))),)),
            metadata={TEXT_TYPE: "struct<in:struct<x:varchar(3)>>"},
        ),
    )
)


def _read_declared_type(schema):
    return render_declared_type(read_declared_type(schema.get("s")))


def test_a_field_inside_a_column_keeps_its_length_under_another_name():
    renamed = edit(LIMITED, ("s", "in"), change_field("x", lambda field: replace(field, name="y")))
    assert renamed.get("s").type.get("in").type == StructType((StructField("y", STRING),))
    assert _read_declared_type(renamed) == "struct<in:struct<y:varchar(3)>>"
    outer = edit(LIMITED, ("s",), change_field("in", lambda field: replace(field, name="out")))
    assert _read_declared_type(outer) == "struct<out:struct<x:varchar(3)>>"


def test_a_field_does_not_inherit_the_length_of_one_that_had_its_name():
    two = edit(LIMITED, ("s", "in"), insert_fields([StructField("n", LONG)], first=False, after=""))
    assert _read_declared_type(two) == "struct<in:struct<x:varchar(3),n:bigint>>"
    gone = edit(two, ("s", "in"), drop_field("x"))
    assert TEXT_TYPE not in gone.get("s").metadata
    anew = edit(gone, ("s", "in"), insert_fields([StructField("x", STRING)], first=True, after=""))
    assert _read_declared_type(anew) == "struct<in:struct<x:string,n:bigint>>"


def test_a_name_that_would_hide_a_length_is_refused():
    with pytest.raises(InvalidSchemaError, match="length"):
        edit(LIMITED, ("s", "in"), change_field("x", lambda field: replace(field, name="a:b")))
