"""Tables whose data files hold values as other writers store them."""

from datetime import UTC, date, datetime
from decimal import Decimal

import duckdb
import pyarrow as pa

from tests.engine.foreign.hand_writer import HandWriter, column, metadata_of, struct_of
from tests.engine.foreign.tables import foreign_table

ID = column("id", "long")


@foreign_table(
    (
        (1, datetime(1, 1, 1, tzinfo=UTC)),
        (2, datetime(1500, 6, 1, 1, 2, 3, 4, tzinfo=UTC)),
        (3, datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)),
        (4, None),
        (5, datetime(2024, 2, 29, 12, tzinfo=UTC)),
    ),
)
def moments_as_int96(writer: HandWriter) -> None:
    """Store times beyond the years that nanoseconds reach, where readers wrap around."""
    moments = [
        datetime(1, 1, 1, tzinfo=UTC),
        datetime(1500, 6, 1, 1, 2, 3, 4, tzinfo=UTC),
        datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
        None,
        datetime(2024, 2, 29, 12, tzinfo=UTC),
    ]
    rows = pa.table({"id": [1, 2, 3, 4, 5], "at": pa.array(moments, pa.timestamp("us", "UTC"))})
    writer.create(
        writer.file("f.parquet", rows, parquet={"use_deprecated_int96_timestamps": True}),
        schema=[ID, column("at", "timestamp")],
    )


@foreign_table(
    {
        0: ((1, datetime.fromisoformat("2024-01-01 01:00:00")), (2, None)),
    },
)
def moments_without_a_zone(writer: HandWriter) -> None:
    rows = pa.table(
        {
            "id": [1, 2],
            "at": pa.array(
                [datetime.fromisoformat("2024-01-01 01:00:00"), None], pa.timestamp("us")
            ),
        }
    )
    writer.create(
        writer.file("f.parquet", rows),
        schema=[ID, column("at", "timestamp_ntz")],
        protocol=(3, 7, ["timestampNtz"]),
    )


@foreign_table(
    (
        (1, datetime(2024, 1, 1, 1, 2, 3, 456000, tzinfo=UTC)),
        (2, datetime(1969, 12, 31, 23, 59, 59, 999000, tzinfo=UTC)),
    ),
)
def moments_in_milliseconds(writer: HandWriter) -> None:
    moments = [
        datetime(2024, 1, 1, 1, 2, 3, 456000, tzinfo=UTC),
        datetime(1969, 12, 31, 23, 59, 59, 999000, tzinfo=UTC),
    ]
    writer.create(
        writer.file(
            "f.parquet", {"id": [1, 2], "at": pa.array(moments, pa.timestamp("ms", "UTC"))}
        ),
        schema=[ID, column("at", "timestamp")],
    )


@foreign_table(((1, datetime(2024, 1, 1, 1, 2, 3, 456789, tzinfo=UTC)),))
def moments_in_nanoseconds(writer: HandWriter) -> None:
    moments = [datetime(2024, 1, 1, 1, 2, 3, 456789, tzinfo=UTC)]
    rows = {"id": [1], "at": pa.array(moments, pa.timestamp("ns", "UTC"))}
    writer.create(
        writer.file("f.parquet", rows, parquet={"version": "2.6"}),
        schema=[ID, column("at", "timestamp")],
    )


@foreign_table(
    (
        (Decimal("-0.01"), Decimal("99999999999999.9999"), Decimal("1" + "0" * 37)),
        (Decimal("9999999.99"), None, Decimal("-1" + "0" * 37)),
    ),
)
def decimals_as_integers(writer: HandWriter) -> None:
    """Store INT32, INT64 and bytes of a fixed length, by the number of digits."""
    rows = pa.table(
        {
            "a": pa.array([Decimal("-0.01"), Decimal("9999999.99")], pa.decimal128(9, 2)),
            "b": pa.array([Decimal("99999999999999.9999"), None], pa.decimal128(18, 4)),
            "c": pa.array(
                [Decimal("1" + "0" * 37), Decimal("-1" + "0" * 37)], pa.decimal128(38, 0)
            ),
        }
    )
    writer.create(
        writer.file("f.parquet", rows, parquet={"store_decimal_as_integer": True}),
        schema=[
            column("a", "decimal(9,2)"),
            column("b", "decimal(18,4)"),
            column("c", "decimal(38,0)"),
        ],
    )


_WIDE = pa.table(
    {
        "t": pa.array([-128, None, 127], pa.int8()),
        "s": pa.array([-(2**15), None, 2**15 - 1], pa.int16()),
        "i": pa.array([-(2**31), None, 2**31 - 1], pa.int32()),
        "l": pa.array([-(2**63), None, 2**63 - 1], pa.int64()),
        "f": pa.array([-0.0, None, float("inf")], pa.float32()),
        "d": pa.array([5e-324, None, float("-inf")], pa.float64()),
        "b": [True, None, False],
        "x": [b"", None, b"\x00\xff"],
        "u": ["", None, "\u00e4\U0001f600\u0000"],
        "y": pa.array([date(1, 1, 1), None, date(9999, 12, 31)], pa.date32()),
    }
)
_KINDS = (
    "byte",
    "short",
    "integer",
    "long",
    "float",
    "double",
    "boolean",
    "binary",
    "string",
    "date",
)


@foreign_table(tuple(tuple(row.values()) for row in _WIDE.to_pylist()) * 3)
def primitives_in_other_encodings(writer: HandWriter) -> None:
    """Use version 2 pages, other codecs, small row groups, no dictionary, delta and split encodings."""
    delta = {"i": "DELTA_BINARY_PACKED", "l": "DELTA_BINARY_PACKED", "u": "DELTA_BYTE_ARRAY"}
    split = {"f": "BYTE_STREAM_SPLIT", "d": "BYTE_STREAM_SPLIT", "x": "DELTA_LENGTH_BYTE_ARRAY"}
    writer.create(
        writer.file(
            "a.parquet", _WIDE, parquet={"data_page_version": "2.0", "compression": "zstd"}
        ),
        writer.file(
            "b.parquet",
            _WIDE,
            parquet={
                "use_dictionary": False,
                "column_encoding": delta | split,
                "compression": "gzip",
                "row_group_size": 1,
            },
        ),
        writer.file("c.parquet", _WIDE, parquet={"compression": "none", "write_statistics": False}),
        schema=[column(name, kind) for name, kind in zip(_WIDE.column_names, _KINDS, strict=True)],
    )


@foreign_table(
    (
        (1, date(2024, 2, 29), Decimal("1.50"), ["a", None], {"k": 1}),
        (2, None, None, [], {}),
        (3, None, None, None, None),
    ),
)
def parquet_by_duckdb(writer: HandWriter) -> None:
    """Store columns in another order, and one that the table does not have."""
    target = writer.root / "f.parquet"
    with duckdb.connect() as connection:
        connection.execute(
            "CREATE TABLE t AS SELECT * FROM (VALUES "
            "(MAP {'k': 1}, ['a', NULL], 1.50::DECIMAL(10,2), DATE '2024-02-29', 7, 1::BIGINT), "
            "(MAP {}, [], NULL, NULL, 8, 2), (NULL, NULL, NULL, NULL, 9, 3)) "
            "AS r(m, l, price, day, extra, id)"
        )
        connection.execute(f"COPY t TO '{target}' (FORMAT parquet, PARQUET_VERSION v2)")
    strings = {"type": "array", "elementType": "string", "containsNull": True}
    numbers = {
        "type": "map",
        "keyType": "string",
        "valueType": "integer",
        "valueContainsNull": True,
    }
    size = target.stat().st_size
    add = {"path": "f.parquet", "partitionValues": {}, "size": size, "modificationTime": 1}
    writer.create(
        {"add": {**add, "dataChange": True}},
        schema=[
            ID,
            column("day", "date"),
            column("price", "decimal(10,2)"),
            column("l", strings),
            column("m", numbers),
        ],
    )


@foreign_table(
    (
        (1, {"a": 1, "b": {"c": "x", "d": [{"e": 5}, None]}}, {"k": [1, None]}),
        (2, {"a": None, "b": None}, {}),
        (3, None, None),
    ),
)
def values_within_values(writer: HandWriter) -> None:
    rows = pa.table(
        {
            "id": pa.array([1, 2, 3]),
            "s": [
                {"a": 1, "b": {"c": "x", "d": [{"e": 5}, None]}},
                {"a": None, "b": None},
                None,
            ],
            "m": pa.array(
                [[("k", [1, None])], [], None], pa.map_(pa.string(), pa.list_(pa.int64()))
            ),
        }
    )
    inner = struct_of(column("e", "long"))
    structs = {"type": "array", "elementType": inner, "containsNull": True}
    numbers = {"type": "array", "elementType": "long", "containsNull": True}
    deep = struct_of(
        column("a", "long"), column("b", struct_of(column("c", "string"), column("d", structs)))
    )
    kind = {"type": "map", "keyType": "string", "valueType": numbers, "valueContainsNull": True}
    writer.create(
        writer.file("f.parquet", rows, parquet={"use_compliant_nested_type": False}),
        schema=[ID, column("s", deep), column("m", kind)],
    )


@foreign_table(
    {
        0: ((1, 1.5, date(2024, 1, 1), Decimal("1.0"), {"n": 1}),),
        1: (
            (1, 1.5, datetime.fromisoformat("2024-01-01 00:00:00"), Decimal("1.000"), {"n": 1}),
            (
                2**40,
                1e300,
                datetime.fromisoformat("2024-01-01 01:00:00"),
                Decimal("12345678.125"),
                {"n": 2**40},
            ),
        ),
    },
    readers=("duckdb",),
)
def types_that_grew(writer: HandWriter) -> None:
    """Keep the narrower type in older files; widen nested fields too."""
    narrow = pa.table(
        {
            "i": pa.array([1], pa.int32()),
            "f": pa.array([1.5], pa.float32()),
            "d": [date(2024, 1, 1)],
            "p": pa.array([Decimal("1.0")], pa.decimal128(4, 1)),
            "s": pa.array([{"n": 1}], pa.struct({"n": pa.int16()})),
        }
    )
    wide = pa.table(
        {
            "i": [2**40],
            "f": [1e300],
            "d": pa.array([datetime.fromisoformat("2024-01-01 01:00:00")], pa.timestamp("us")),
            "p": pa.array([Decimal("12345678.125")], pa.decimal128(12, 3)),
            "s": [{"n": 2**40}],
        }
    )
    protocol = (3, 7, ["typeWidening", "timestampNtz"])
    on = {"delta.enableTypeWidening": "true"}

    def change(before: str, after: str) -> list[dict[str, str]]:
        return [{"fromType": before, "toType": after}]

    writer.create(
        writer.file("narrow.parquet", narrow),
        schema=[
            column("i", "integer"),
            column("f", "float"),
            column("d", "date"),
            column("p", "decimal(4,1)"),
            column("s", struct_of(column("n", "short"))),
        ],
        protocol=protocol,
        properties=on,
    )
    grown = [
        column("i", "long", delta__typeChanges=change("integer", "long")),
        column("f", "double", delta__typeChanges=change("float", "double")),
        column("d", "timestamp_ntz", delta__typeChanges=change("date", "timestamp_ntz")),
        column("p", "decimal(12,3)", delta__typeChanges=change("decimal(4,1)", "decimal(12,3)")),
        column("s", struct_of(column("n", "long", delta__typeChanges=change("short", "long")))),
    ]
    writer.commit(
        1, {"metaData": metadata_of(grown, properties=on)}, writer.file("wide.parquet", wide)
    )


@foreign_table(
    ((1, {"metadata": b"\x01\x00\x00", "value": b"\x0c\x05"}), (2, None)), readers=("deltalake",)
)
def variants(writer: HandWriter) -> None:
    """Store a variant as a struct of two binaries; this one is the number 5 in one byte."""
    stored = pa.struct(
        [
            pa.field("value", pa.binary(), nullable=False),
            pa.field("metadata", pa.binary(), nullable=False),
        ]
    )
    five = {"value": b"\x0c\x05", "metadata": b"\x01\x00\x00"}
    writer.create(
        writer.file("f.parquet", pa.table({"id": [1, 2], "v": pa.array([five, None], stored)})),
        schema=[ID, column("v", "variant")],
        protocol=(3, 7, ["variantType"]),
    )
