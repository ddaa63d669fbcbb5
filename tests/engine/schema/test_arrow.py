import pyarrow as pa
import pytest

from engine.errors import InvalidSchemaError
from engine.schema.arrow import from_arrow_type, to_arrow_schema
from engine.schema.types import (
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    LONG,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    ArrayType,
    DecimalType,
    MapType,
    PrimitiveType,
    StructField,
    StructType,
)

EVERYTHING = StructType(
    tuple(
        StructField(f"c{number}", data_type, nullable=number % 2 == 0)
        for number, data_type in enumerate(
            [
                *(PrimitiveType(name) for name in ("byte", "short", "integer", "float", "void")),
                *(STRING, LONG, DOUBLE, BOOLEAN, BINARY, DATE, TIMESTAMP, TIMESTAMP_NTZ),
                DecimalType(38, 10),
                ArrayType(
                    MapType(
                        STRING, StructType((StructField("x", LONG),)), value_contains_null=False
                    )
                ),
                ArrayType(LONG, contains_null=False),
            ]
        )
    )
)


def test_a_schema_survives_arrow():
    assert from_arrow_type(pa.struct(list(to_arrow_schema(EVERYTHING)))) == EVERYTHING


@pytest.mark.parametrize(
    ("arrow", "delta"),
    [
        (pa.large_string(), STRING),
        (pa.string_view(), STRING),
        (pa.dictionary(pa.int32(), pa.string()), STRING),
        (pa.large_list(pa.int64()), ArrayType(LONG)),
        (pa.list_(pa.int64(), 3), ArrayType(LONG)),
        (pa.uint32(), LONG),
        (pa.timestamp("ns", "Europe/Berlin"), TIMESTAMP),
        (pa.decimal256(20, 2), DecimalType(20, 2)),
    ],
)
def test_other_arrow_types_find_their_delta_type(arrow: pa.DataType, delta: object):
    assert from_arrow_type(arrow) == delta


@pytest.mark.parametrize(
    "arrow", [pa.uint64(), pa.time64("us"), pa.duration("s"), pa.decimal256(60, 2)]
)
def test_types_that_delta_cannot_hold_are_refused(arrow: pa.DataType):
    with pytest.raises(InvalidSchemaError):
        from_arrow_type(arrow)
