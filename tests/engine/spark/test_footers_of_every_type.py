"""Bounds and null counts in footers, compared with the rows of the same files."""

import contextlib
import datetime as dt
import itertools
import json
from decimal import Decimal
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from engine.delta.tables import DeltaTable
from engine.errors import EngineError
from engine.protocol.indexed_columns import IndexedColumns
from engine.schema.arrow import to_arrow_type
from engine.schema.types import (
    BINARY,
    BOOLEAN,
    BYTE,
    DATE,
    DOUBLE,
    FLOAT,
    INTEGER,
    LONG,
    SHORT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    DecimalType,
    StructField,
    StructType,
)
from engine.snapshot.legacy_calendar import legacy_times
from engine.snapshot.snapshot import load_snapshot
from engine.spark.footer_statistics import FooterStatistics
from engine.storage.local import LocalStore
from tests.engine.made_tables import add, write_commit, write_first

UTC = dt.UTC
NOON = dt.datetime(2020, 1, 2, 12, 0, 0, 123_456, tzinfo=UTC)
EARLY = dt.datetime(1500, 1, 1, 0, 0, 0, 1, tzinfo=UTC)
TYPES = (
    *(BINARY, BOOLEAN, BYTE, DATE, DOUBLE, FLOAT, INTEGER, LONG, SHORT, STRING),
    *(TIMESTAMP, TIMESTAMP_NTZ, DecimalType(9, 2), DecimalType(18, 0), DecimalType(38, 10)),
)
ALL = IndexedColumns(-1)
JULIAN = (
    {},
    {b"org.apache.spark.version": b"2.4.5"},
    {b"org.apache.spark.version": b"3.0.1", b"org.apache.spark.legacyDateTime": b""},
    {b"org.apache.spark.version": b"3.5.0", b"org.apache.spark.legacyINT96": b""},
)
WRITTEN_AS = (
    {},
    {"version": "1.0"},
    {"store_schema": False, "store_decimal_as_integer": True},
    {"coerce_timestamps": "ms", "allow_truncated_timestamps": True},
    {"use_deprecated_int96_timestamps": True},
)


def _columns():
    """Yield an array of every type that Arrow writes into Parquet."""
    signed = (pa.int8(), pa.int16(), pa.int32(), pa.int64())
    for kind in (*signed, pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()):
        edge = 2 ** (kind.bit_width - (kind in signed)) - 1
        yield pa.array([-edge - 1 if kind in signed else 0, None, 5, edge], kind)
    for kind in (pa.float16(), pa.float32(), pa.float64()):
        yield pa.array([1.5, None, -0.0, 7.25], kind)
        yield pa.array([float("nan"), float("inf"), -1.0, 2.0], kind)
    texts = ["ä" * 40, None, "", "\U0010ffff" * 35]
    for kind in (pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.large_binary()):
        yield pa.array(texts, pa.string()).cast(kind)
    yield pa.array(["A", None, '{"a":1}', "b"], pa.json_())
    yield pa.array([b"a" * 16, None, b"\xff" * 16, b"0" * 16], pa.uuid())
    yield pa.array([b"a" * 4, None, b"\xff" * 4, b"0" * 4], pa.binary(4))
    yield pa.array(["x", None, "y", "x"]).dictionary_encode()
    yield pa.array([True, None, False, True])
    yield pa.nulls(4)
    for kind in (pa.date32(), pa.date64()):
        yield pa.array([EARLY.date(), None, NOON.date(), dt.date(9999, 12, 31)], kind)
    yield from _moments()
    for kind in (pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns")):
        yield pa.array([dt.time(23, 59, 59), None, dt.time(), dt.time(1)], kind)
    yield pa.array([1, None, -5, 2], pa.duration("us"))
    for precision, scale in ((4, 2), (9, 2), (18, 0), (18, 2), (38, 2), (38, 38)):
        digits = Decimal(10 ** min(precision, 30) - 1).scaleb(-scale)
        kind = pa.decimal128(precision, scale)
        yield pa.array([-digits, None, digits, Decimal(0)], kind)


def _moments():
    for unit in ("s", "ms", "us", "ns"):
        for zone in (None, "UTC", "America/New_York"):
            moments = [NOON, None, NOON + dt.timedelta(microseconds=1001), NOON]
            early = [EARLY, None, NOON, dt.datetime(9999, 12, 31, 23, 59, 59, 999_999, UTC)]
            for values in (moments, early) if unit != "ns" else (moments,):
                micros = pa.array(values, pa.timestamp("us", "UTC"))
                floored = pc.floor_temporal(micros, unit="second") if unit == "s" else micros
                yield floored.cast(pa.timestamp(unit, "UTC"), safe=False).cast(
                    pa.timestamp(unit, zone)
                )


def _read_bounds(data, kind, *, with_nan=None):
    footer = pq.read_metadata(data)
    schema = StructType((StructField("c", kind),))
    stats = json.loads(FooterStatistics(schema, ALL).to_json(footer, with_nan), parse_float=Decimal)
    assert stats["numRecords"] == footer.num_rows
    sides = (stats["minValues"], stats["maxValues"])
    assert len({"c" in side for side in sides}) == 1
    return [side.get("c") for side in sides], stats["nullCount"].get("c")


def _scan(directory, kind):
    """Return the column as a table of that type holds it, None if it cannot."""
    store = LocalStore(directory)
    write_first(store, StructType((StructField("c", kind),)))
    write_commit(store, 1, add("f.parquet", stats=None))
    with contextlib.suppress(EngineError, pa.ArrowException):
        return load_snapshot(store).to_arrow().column("c")
    return None


def _check(directory, kind):
    """Compare the footer of `f.parquet` with a column's rows; return whether the column is bounded."""
    (low, high), nulls = _read_bounds(directory / "f.parquet", kind)
    if low is None:
        return False
    column = _scan(directory, kind)
    assert column is not None, f"bounds of {kind} where nothing can be read"
    assert nulls in {None, column.null_count}
    arrow_type = to_arrow_type(kind)
    for value in column.drop_null():
        if pa.types.is_decimal(arrow_type) or pa.types.is_integer(arrow_type):
            assert low <= value.as_py() <= high
        elif pa.types.is_string(arrow_type):
            assert low.encode() <= value.as_py().encode() <= high.encode()
        else:
            first, last = (dt.datetime.fromisoformat(text) for text in (low, high))
            zoned = (
                first.replace(tzinfo=first.tzinfo or UTC),
                last.replace(tzinfo=last.tzinfo or UTC),
            )
            found = value.as_py()
            if not isinstance(found, dt.datetime):
                found = dt.datetime(found.year, found.month, found.day, tzinfo=UTC)
            assert zoned[0] <= found.replace(tzinfo=UTC) <= zoned[1]
    return True


def test_bounds_of_every_type_that_arrow_writes_hold_for_the_rows_as_any_type(tmp_path):
    bounded = set()
    for number, array in enumerate(_columns()):
        for mode, options in enumerate(WRITTEN_AS):
            for marks, calendar in enumerate(JULIAN):
                if calendar and not pa.types.is_temporal(array.type):
                    continue
                directory = tmp_path / f"{number}-{mode}-{marks}"
                directory.mkdir()
                with contextlib.suppress(pa.ArrowException):
                    schema = pa.schema([("c", array.type)], metadata=calendar)
                    pq.write_table(
                        pa.Table.from_arrays([array], schema=schema),
                        directory / "f.parquet",
                        row_group_size=2,
                        **options,
                    )
                    for kind in TYPES:
                        (directory / "_delta_log").is_dir() and _remove_log(directory)
                        if _check(directory, kind):
                            bounded.add(str(kind))
    assert {str(kind) for kind in TYPES} - bounded == {
        str(kind) for kind in (BINARY, BOOLEAN, DOUBLE, FLOAT)
    }


def _remove_log(directory):
    for file in (directory / "_delta_log").iterdir():
        file.unlink()


def test_bounds_of_every_type_that_duckdb_writes_hold_for_the_rows(tmp_path):
    values = (
        *("1::TINYINT", "1::UTINYINT", "1::SMALLINT", "1::USMALLINT", "1::INTEGER", "1::UINTEGER"),
        *("1::BIGINT", "1::UBIGINT", "1::HUGEINT", "1::FLOAT", "1::DOUBLE", "true", "'x'::BLOB"),
        *("'ab'::VARCHAR", "'{}'::JSON", "uuid()", "1.5::DECIMAL(4,1)", "1.5::DECIMAL(18,2)"),
        *("1.5::DECIMAL(38,2)", "DATE '1500-01-01'", "TIME '12:00:00'", "INTERVAL 3 MONTH"),
        *("TIMESTAMP '1500-01-01 00:00:00.000001'", "TIMESTAMPTZ '2020-01-01 00:00:00+00'"),
        *("TIMESTAMP_S '2020-01-01 00:00:00'", "TIMESTAMP_MS '2020-01-01 00:00:00.001'"),
        *("TIMESTAMP_NS '2020-01-01 00:00:00.000000001'", "'a'::ENUM('a', 'b')"),
    )
    for number, value in enumerate(values):
        for version in ("V1", "V2"):
            directory = tmp_path / f"{number}-{version}"
            directory.mkdir()
            with duckdb.connect() as connection:
                connection.execute(
                    f"COPY (SELECT {value} AS c UNION ALL SELECT NULL)"
                    f" TO '{directory}/f.parquet' (FORMAT parquet, PARQUET_VERSION {version})"
                )
            for kind in TYPES:
                (directory / "_delta_log").is_dir() and _remove_log(directory)
                _check(directory, kind)


def test_columns_are_found_by_their_path_and_not_by_their_place(tmp_path):
    def struct(**fields):
        return StructType(tuple(StructField(name, kind) for name, kind in fields.items()))

    schema = StructType(
        (
            StructField("s", struct(a=INTEGER, b=INTEGER)),
            StructField("s.a", INTEGER),
            StructField("z", INTEGER),
            StructField("l", INTEGER),
        )
    )
    rows = {
        "l": pa.array([[9]], pa.list_(pa.int32())),
        "z": pa.array([1], pa.int32()),
        "s": pa.array([{"b": 3, "a": 2}], pa.struct([("b", pa.int32()), ("a", pa.int32())])),
        "s.a": pa.array([7], pa.int32()),
    }
    for names, expected in (
        (("l", "z", "s", "s.a"), {"s": {"a": 2, "b": 3}, "s.a": 7, "z": 1}),
        (("s.a", "z"), {"s.a": 7, "z": 1}),
        (("s",), {"s": {"a": 2, "b": 3}}),
        (("l",), {}),
    ):
        pq.write_table(pa.table({name: rows[name] for name in names}), tmp_path / "f.parquet")
        footer = pq.read_metadata(tmp_path / "f.parquet")
        assert json.loads(FooterStatistics(schema, ALL).to_json(footer))["minValues"] == expected


def test_files_in_the_julian_calendar_have_no_bounds_of_times(tmp_path):
    days = pa.array([dt.date(1000, 1, 1)])
    for calendar in JULIAN:
        schema = pa.schema([("c", pa.date32())], metadata=calendar)
        pq.write_table(pa.Table.from_arrays([days], schema=schema), tmp_path / "f.parquet")
        legacy = legacy_times(pq.read_metadata(tmp_path / "f.parquet"))
        is_julian = legacy is not None and legacy.dates
        bounds, nulls = _read_bounds(tmp_path / "f.parquet", DATE)
        assert bounds == ([None, None] if is_julian else ["1000-01-01"] * 2)
        assert nulls == 0


@pytest.mark.spark
@pytest.mark.timeout(300)
def test_bounds_of_every_type_that_spark_writes_hold_for_the_rows(spark, tmp_path):
    values = (
        *("CAST(-5 AS BYTE)", "CAST(-5 AS SHORT)", "-5", "-5L", "CAST(1.5 AS FLOAT)", "1.5D"),
        *("'ä'", "true", "CAST(-1.5 AS DECIMAL(4,1))", "CAST(-1.5 AS DECIMAL(18,2))"),
        *("CAST(-1.5 AS DECIMAL(38,2))", "DATE '1000-01-01'", "DATE '1582-10-15'"),
        *("TIMESTAMP '1000-01-01 00:00:00Z'", "TIMESTAMP '2020-01-01 00:00:00.001Z'"),
        *("TIMESTAMP_NTZ '1000-01-01 00:00:00'", "TIMESTAMP '1890-01-01 00:00:00Z'"),
    )
    listed = ", ".join(f"{value} AS c{number}" for number, value in enumerate(values))
    condition = " AND ".join(f"c{number} = {value}" for number, value in enumerate(values))
    frame, bounded = spark.sql(f"SELECT {listed}").coalesce(1), set()
    calendars, forms = ("LEGACY", "CORRECTED"), ("INT96", "TIMESTAMP_MICROS", "TIMESTAMP_MILLIS")
    for calendar, form, legacy in itertools.product(calendars, forms, ("false", "true")):
        place = str(tmp_path / f"{calendar}-{form}-{legacy}")
        with _settings(
            spark,
            {
                "spark.sql.parquet.datetimeRebaseModeInWrite": calendar,
                "spark.sql.parquet.int96RebaseModeInWrite": calendar,
                "spark.sql.parquet.outputTimestampType": form,
                "spark.sql.parquet.writeLegacyFormat": legacy,
            },
        ):
            frame.write.parquet(place)
        table = DeltaTable.convertToDelta(spark, f"parquet.`{place}`")
        assert table.toDF().where(condition).count() == 1, (calendar, form, legacy)
        (added,) = load_snapshot(LocalStore(Path(place))).add_files()
        bounded |= json.loads(added.stats)["minValues"].keys()
    unbounded = {f"c{values.index(value)}" for value in ("1.5D", "true", "CAST(1.5 AS FLOAT)")}
    assert {f"c{number}" for number in range(len(values))} - bounded == {
        *unbounded,
        f"c{values.index('CAST(-1.5 AS DECIMAL(38,2))')}",
    }


@contextlib.contextmanager
def _settings(spark, settings):
    before = {name: spark.conf.get(name) for name in settings}
    try:
        for name, value in settings.items():
            spark.conf.set(name, value)
        yield
    finally:
        for name, value in before.items():
            spark.conf.set(name, value)
