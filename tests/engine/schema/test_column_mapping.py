from engine.schema.column_mapping import (
    ID_KEY,
    PHYSICAL_NAME_KEY,
    assign_mapping,
    field_id,
    physical_path,
    physical_schema,
)
from engine.schema.types import LONG, STRING, ArrayType, MapType, StructField, StructType

NESTED = StructType(
    (
        StructField("a", LONG),
        StructField("s", StructType((StructField("x", LONG), StructField("y", STRING)))),
        StructField("l", ArrayType(StructType((StructField("z", LONG),)))),
        StructField("m", MapType(STRING, StructType((StructField("v", LONG),)))),
    )
)


def every_field(schema: StructType) -> list[StructField]:
    fields = []
    for field in schema:
        fields.append(field)
        inner = field.type
        if isinstance(inner, ArrayType):
            inner = inner.element
        if isinstance(inner, MapType):
            inner = inner.value
        if isinstance(inner, StructType):
            fields += every_field(inner)
    return fields


def test_every_field_gets_an_id_and_a_physical_name_of_its_own():
    mapped, highest = assign_mapping(NESTED, max_id=10)
    fields = every_field(mapped)
    assert len({field_id(field) for field in fields}) == len(fields) == 8
    assert highest == max(field_id(field) or 0 for field in fields) == 18
    assert len({field.metadata[PHYSICAL_NAME_KEY] for field in fields}) == 8


def test_columns_that_are_mapped_keep_their_ids_and_names():
    mapped, highest = assign_mapping(NESTED)
    assert assign_mapping(mapped) == (mapped, highest)


def test_files_written_before_the_mapping_keep_their_names():
    mapped, _ = assign_mapping(NESTED, keep_names=True)
    assert physical_schema(mapped, "name").names == NESTED.names


def test_a_path_has_its_physical_names():
    metadata = {ID_KEY: 1, PHYSICAL_NAME_KEY: "col-1"}
    inner = StructType((StructField("x", LONG, metadata={ID_KEY: 2, PHYSICAL_NAME_KEY: "col-2"}),))
    schema = StructType((StructField("s", inner, metadata=metadata),))
    assert physical_path(schema, ("s", "x"), "name") == ("col-1", "col-2")
    assert physical_path(schema, ("s", "x"), "none") == ("s", "x")
    assert physical_path(schema, ("nope",), "name") == ("nope",)
