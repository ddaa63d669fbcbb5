"""Tables whose columns, partitions and files have unusual names."""

from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa

from tests.engine.foreign.hand_writer import HandWriter, column, metadata_of, remove_of, struct_of
from tests.engine.foreign.tables import foreign_table

ID = column("id", "long")
MOMENT = datetime(2024, 1, 1, 10, 11, 12, 123456, tzinfo=UTC)


@foreign_table(tuple((number,) for number in range(9)))
def paths_with_odd_characters(writer: HandWriter) -> None:
    """Escape a path once more in the log than in the file's name; `+` is no space."""
    names = [
        "a b.parquet",
        "a+b.parquet",
        "a%20b.parquet",
        "a%2520b.parquet",
        "a#b?c.parquet",
        "a=1/b:2.parquet",
        "\u00fc\u00df\u4e2d.parquet",
        "it's,(a) [b].parquet",
        "deep/er/and/deep er.parquet",
    ]
    writer.create(
        *(writer.file(name, {"id": [number]}) for number, name in enumerate(names)), schema=[ID]
    )


@foreign_table(((1,), (2,)))
def paths_that_are_escaped_by_halves(writer: HandWriter) -> None:
    """Escape only a space, as some writers do, or nothing at all."""
    writer.create(
        writer.file("\u00fc (1).parquet", {"id": [1]}, logged="\u00fc%20(1).parquet"),
        writer.file("b c.parquet", {"id": [2]}, logged="b c.parquet"),
        schema=[ID],
    )


_TYPED = {
    "b": ("boolean", "true", True),
    "i": ("integer", "-7", -7),
    "f": ("double", "1.5E10", 1.5e10),
    "n": ("decimal(12,2)", "1.00", Decimal("1.00")),
    "d": ("date", "0001-01-01", date(1, 1, 1)),
    "t": ("timestamp", "2024-01-01 10:11:12.123456", MOMENT),
    "s": ("string", "a/b=c%d \u00fc'\"", "a/b=c%d \u00fc'\""),
    "x": ("binary", "\u0001\u0002", b"\x01\x02"),
}


@foreign_table(
    (
        (1, *(value for _, _, value in _TYPED.values())),
        (2, *(None for _ in _TYPED)),
        (3, *(None for _ in _TYPED)),
    ),
    readers=(),
)
def partitions_of_every_type(writer: HandWriter) -> None:
    """Take values from the log, never from the path; the empty text is null."""
    writer.create(
        writer.file(
            "b=other/f.parquet",
            {"id": [1]},
            partition={name: text for name, (_, text, _) in _TYPED.items()},
        ),
        writer.file("g.parquet", {"id": [2]}, partition=dict.fromkeys(_TYPED)),
        writer.file("h.parquet", {"id": [3]}, partition=dict.fromkeys(_TYPED, "")),
        schema=[ID, *(column(name, kind) for name, (kind, _, _) in _TYPED.items())],
        partition_columns=list(_TYPED),
    )


@foreign_table(
    (
        (1, MOMENT, datetime.fromisoformat("2024-01-01 01:00:00")),
        (2, MOMENT, datetime.fromisoformat("2024-01-01 00:00:00")),
        (3, datetime(2024, 1, 1, tzinfo=UTC), None),
        (
            4,
            datetime(2024, 1, 1, 8, 11, 12, 123456, tzinfo=UTC),
            datetime.fromisoformat("2024-01-01 01:00:00.500000"),
        ),
    ),
    readers=("deltalake",),
)
def partitions_of_moments(writer: HandWriter) -> None:
    """Write times with and without a fraction, with T and Z, with an offset, and as a plain date."""
    spelled = [
        ("2024-01-01 10:11:12.123456", "2024-01-01 01:00:00"),
        ("2024-01-01T10:11:12.123456Z", "2024-01-01 00:00:00.0"),
        ("2024-01-01 00:00:00", None),
        ("2024-01-01T10:11:12.123456+02:00", "2024-01-01 01:00:00.5"),
    ]
    writer.create(
        *(
            writer.file(f"f{number}.parquet", {"id": [number]}, partition={"t": t, "n": n})
            for number, (t, n) in enumerate(spelled, start=1)
        ),
        schema=[ID, column("t", "timestamp"), column("n", "timestamp_ntz")],
        partition_columns=["t", "n"],
        protocol=(3, 7, ["timestampNtz"]),
    )


@foreign_table(((1, "a"), (2, "b")))
def partitions_that_files_hold_too(writer: HandWriter) -> None:
    """Store the column in the files too, as Iceberg compatibility requires; the log's value counts."""
    writer.create(
        writer.file("f.parquet", {"p": ["stale"], "id": [1]}, partition={"p": "a"}),
        writer.file("g.parquet", {"id": [2]}, partition={"p": "b"}),
        schema=[ID, column("p", "string")],
        partition_columns=["p"],
    )


@foreign_table(((1, Decimal("1.00")),), readers=())
def partitions_of_a_decimal_that_grew(writer: HandWriter) -> None:
    """Keep a value from before the column had a fraction; readers of the kernel refuse it."""
    writer.create(
        writer.file("f.parquet", {"id": [1]}, partition={"n": "1"}),
        schema=[ID, column("n", "decimal(12,2)")],
        partition_columns=["n"],
    )


def _map_column(name: str, kind: object, number: int, physical: str) -> dict[str, object]:
    ids = {
        "delta__columnMapping__id": number,
        "delta__columnMapping__physicalName": physical,
    }
    return column(name, kind, **ids)


def _mapping_properties(mode: str) -> dict[str, str]:
    return {"delta.columnMapping.mode": mode, "delta.columnMapping.maxColumnId": "9"}


MAPPED = {
    0: ((1, "a", {"x": 5}),),
    1: ((1, "a", {"y": 5}),),
    2: ((1, "a", {"y": 5}, None), (2, "b", {"y": 6}, 7)),
}


def _map_columns(writer: HandWriter, mode: str, protocol: tuple[object, ...]) -> None:
    """Rename columns, including one inside a struct and a partition column; reuse a name."""

    def schema(names: tuple[str, str, str, str]) -> list[dict[str, object]]:
        inner = struct_of(_map_column(names[3], "long", 4, "col-x"))
        return [
            _map_column(names[0], "long", 1, "col-id"),
            _map_column(names[1], "string", 2, "col-p"),
            _map_column(names[2], inner, 3, "col-s"),
        ]

    def rows(number: int, inside: int, extra: int | None = None) -> pa.Table:
        def build_field(name: str, kind: pa.DataType, field_id: int) -> pa.Field:
            return pa.field(name, kind, metadata={"PARQUET:field_id": str(field_id)})

        inner = pa.struct([build_field("col-x", pa.int64(), 4)])
        fields = [build_field("col-s", inner, 3), build_field("col-id", pa.int64(), 1)]
        arrays = [pa.array([{"col-x": inside}], inner), pa.array([number])]
        if extra is not None:
            fields.append(build_field("col-new", pa.int64(), 5))
            arrays.append(pa.array([extra]))
        return pa.table(arrays, schema=pa.schema(fields))

    first, second = ("id", "p", "s", "x"), ("a;b", "part, q", "id", "y")
    writer.create(
        writer.file("f.parquet", rows(1, 5), partition={"col-p": "a"}),
        schema=schema(first),
        partition_columns=["p"],
        protocol=protocol,
        properties=_mapping_properties(mode),
    )
    writer.commit(
        1, {"metaData": metadata_of(schema(second), ["part, q"], _mapping_properties(mode))}
    )
    grown = [*schema(second), _map_column("x", "long", 5, "col-new")]
    writer.commit(
        2,
        {"metaData": metadata_of(grown, ["part, q"], _mapping_properties(mode))},
        writer.file("g.parquet", rows(2, 6, 7), partition={"col-p": "b"}),
    )


@foreign_table(MAPPED, readers=("deltalake",))
def name_mapping_without_feature(writer: HandWriter) -> None:
    """Imply the mapping by versions 2 and 5; readers that look for a list of features return nulls."""
    _map_columns(writer, "name", (2, 5))


@foreign_table(MAPPED, readers=("deltalake",))
def name_mapping(writer: HandWriter) -> None:
    _map_columns(writer, "name", (3, 7, ["columnMapping"]))


@foreign_table(MAPPED, readers=("deltalake",))
def id_mapping(writer: HandWriter) -> None:
    _map_columns(writer, "id", (3, 7, ["columnMapping"]))


@foreign_table(((1, 2),), readers=())
def id_mapping_under_other_names(writer: HandWriter) -> None:
    """Find columns by id, even if their names in a file are those of other columns.

    deltalake and duckdb go by the names, against the protocol.
    """
    fields = [
        pa.field("col-b", pa.int64(), metadata={"PARQUET:field_id": "1"}),
        pa.field("col-a", pa.int64(), metadata={"PARQUET:field_id": "2"}),
    ]
    rows = pa.table([pa.array([1]), pa.array([2])], schema=pa.schema(fields))
    writer.create(
        writer.file("f.parquet", rows),
        schema=[_map_column("a", "long", 1, "col-a"), _map_column("b", "long", 2, "col-b")],
        protocol=(2, 5),
        properties=_mapping_properties("id"),
    )


@foreign_table({0: ((1,),), 1: ((1,),)})
def late_mapping(writer: HandWriter) -> None:
    """Enable the mapping over existing files: their names stay physical."""
    writer.create(writer.file("f.parquet", {"id": [1]}), schema=[ID])
    writer.commit(
        1,
        {"protocol": {"minReaderVersion": 2, "minWriterVersion": 5}},
        {
            "metaData": metadata_of(
                [_map_column("key", "long", 1, "id")], (), _mapping_properties("name")
            )
        },
    )


@foreign_table({0: ((1, "A"),), 1: ((2, "B"),)})
def removals_without_partition_values(writer: HandWriter) -> None:
    schema = [ID, column("p", "string")]
    file = writer.file("p=A/f.parquet", {"id": [1]}, partition={"p": "A"})
    writer.create(file, schema=schema, partition_columns=["p"])
    writer.commit(
        1, remove_of(file), writer.file("p=B/g.parquet", {"id": [2]}, partition={"p": "B"})
    )
