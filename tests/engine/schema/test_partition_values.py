from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import EngineError, MalformedLogError
from engine.schema.partition_values import (
    YearOutOfRangeError,
    data_directory,
    epoch_micros,
    escape_path_name,
    format_partition_value,
    format_stored_moment,
    parse_partition_value,
    parse_stored_value,
    partition_directory,
    partition_fields,
    partition_text,
)
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
    ArrayType,
    DataType,
    DecimalType,
    StructField,
    StructType,
)


def _scale_to_38_digits(value: int) -> Decimal:
    sign, digits, _ = Decimal(value).as_tuple()
    return Decimal((sign, digits, -18))


MOMENTS = st.datetimes(timezones=st.just(UTC))
TYPED: st.SearchStrategy[tuple[DataType, Any]] = st.one_of(
    st.tuples(st.just(STRING), st.text(st.characters(codec="utf-8"), min_size=1)),
    st.tuples(st.just(LONG), st.integers(-(2**63), 2**63 - 1)),
    st.tuples(st.just(BYTE), st.integers(-128, 127)),
    st.tuples(st.just(BOOLEAN), st.booleans()),
    st.tuples(st.just(DOUBLE), st.floats(allow_nan=False)),
    st.tuples(st.just(DATE), st.dates()),
    st.tuples(st.just(TIMESTAMP), MOMENTS),
    st.tuples(st.just(TIMESTAMP_NTZ), st.datetimes()),
    st.tuples(st.just(DecimalType(20, 4)), st.decimals(-(10**15), 10**15, places=4)),
    st.tuples(
        st.just(DecimalType(38, 18)),
        st.integers(-(10**38) + 1, 10**38 - 1).map(_scale_to_38_digits),
    ),
    st.tuples(st.just(BINARY), st.text(st.characters(codec="utf-8"), min_size=1).map(str.encode)),
)


def test_a_decimal_of_38_digits_is_compared_with_all_of_them():
    text = "99999999999999999999.999999995000000000"
    assert parse_partition_value(text, DecimalType(38, 18)) == Decimal(text)


@given(TYPED)
def test_a_value_survives_its_text(typed: tuple[DataType, Any]):
    data_type, value = typed
    assert parse_partition_value(format_partition_value(value, data_type), data_type) == value


@given(
    st.text(max_size=30),
    st.sampled_from(
        [LONG, BYTE, BOOLEAN, DOUBLE, DATE, TIMESTAMP, TIMESTAMP_NTZ, DecimalType(9, 2), BINARY]
    ),
)
def test_any_text_is_a_value_or_a_typed_error(text: str, data_type: DataType):
    try:
        parse_partition_value(text, data_type)
    except EngineError:
        return


@pytest.mark.parametrize("text", [None, ""])
@pytest.mark.parametrize("data_type", [STRING, LONG, TIMESTAMP, DecimalType(9, 2)])
def test_null_and_the_empty_text_are_null(text: str | None, data_type: DataType):
    assert parse_partition_value(text, data_type) is None


@pytest.mark.parametrize(
    ("text", "data_type", "value"),
    [
        ("2024-01-02 03:04:05", TIMESTAMP, datetime(2024, 1, 2, 3, 4, 5, tzinfo=UTC)),
        (
            "2024-01-02 03:04:05.123456",
            TIMESTAMP,
            datetime(2024, 1, 2, 3, 4, 5, 123456, tzinfo=UTC),
        ),
        (
            "2024-01-02T03:04:05.123456Z",
            TIMESTAMP,
            datetime(2024, 1, 2, 3, 4, 5, 123456, tzinfo=UTC),
        ),
        ("2024-01-02T03:04:05+02:00", TIMESTAMP, datetime(2024, 1, 2, 1, 4, 5, tzinfo=UTC)),
        ("2024-01-02", TIMESTAMP, datetime(2024, 1, 2, tzinfo=UTC)),
        ("2024-01-02T03:04:05z", TIMESTAMP, datetime(2024, 1, 2, 3, 4, 5, tzinfo=UTC)),
        ("2024-01-02 03:04:05.1", TIMESTAMP_NTZ, datetime(2024, 1, 2, 3, 4, 5, 100000)),  # noqa: DTZ001
        ("2024-01-02", DATE, date(2024, 1, 2)),
        ("1", DecimalType(12, 2), Decimal("1.00")),
        ("-1.5", DecimalType(12, 2), Decimal("-1.50")),
        ("-9999999.99", DecimalType(9, 2), Decimal("-9999999.99")),
        ("TRUE", BOOLEAN, True),
        ("Infinity", DOUBLE, float("inf")),
        ("-32768", SHORT, -32768),
        ("1.5", FLOAT, 1.5),
        ("\x00\x01", BINARY, b"\x00\x01"),
    ],
)
def test_texts_that_writers_use_are_read(text: str, data_type: DataType, value: object):
    assert parse_partition_value(text, data_type) == value


@pytest.mark.parametrize(
    ("text", "data_type"),
    [
        ("x", LONG),
        ("1.5", INTEGER),
        ("128", BYTE),
        ("maybe", BOOLEAN),
        ("2024-13-01", DATE),
        ("yesterday", TIMESTAMP),
        ("2024-01-02 24:00:00", TIMESTAMP),
        ("2024-01-02 03:60:00", TIMESTAMP_NTZ),
        ("2024-02-30 03:00:00", TIMESTAMP_NTZ),
        ("NaN", DecimalType(9, 2)),
        ("10000000", DecimalType(9, 2)),
        ("-9999999.995", DecimalType(9, 2)),
        ("x", ArrayType(LONG)),
    ],
)
def test_a_text_of_another_type_is_refused(text: str, data_type: DataType):
    with pytest.raises(MalformedLogError):
        parse_partition_value(text, data_type)


DAYS = st.integers(-(2**31), 2**31 - 1)
MICROS = st.integers(-(2**63), 2**63 - 1)
STORED = st.one_of(
    st.tuples(st.just(DATE), DAYS),
    st.tuples(st.sampled_from([TIMESTAMP, TIMESTAMP_NTZ]), MICROS),
)


@given(STORED)
def test_a_date_of_any_year_survives_its_text(stored: tuple[DataType, int]):
    data_type, number = stored
    text = format_stored_moment(number, data_type)
    assert parse_stored_value(text, data_type) == number


@given(st.dates(), st.datetimes())
def test_dates_and_times_that_python_has_are_the_same_numbers(day: date, clock: datetime):
    assert parse_stored_value(str(day), DATE) == (day - date(1970, 1, 1)).days
    text = format_partition_value(clock, TIMESTAMP_NTZ)
    assert parse_stored_value(text, TIMESTAMP_NTZ) == epoch_micros(clock)
    assert format_stored_moment((day - date(1970, 1, 1)).days, DATE) == str(day)


@pytest.mark.parametrize(
    ("text", "data_type", "number"),
    [
        ("9999-12-31", DATE, 2_932_896),
        ("+10000-01-01", DATE, 2_932_897),
        ("10000-01-01", DATE, 2_932_897),
        ("0000-12-31", DATE, -719_163),
        ("-0001-12-31", DATE, -719_529),
        ("+10000-01-01 00:00:00.5", TIMESTAMP_NTZ, 253_402_300_800_500_000),
        ("9999-12-31 23:00:00-02:00", TIMESTAMP, 253_402_304_400_000_000),
    ],
)
def test_years_that_python_does_not_have_are_stored_and_not_compared(
    text: str, data_type: DataType, number: int
):
    assert parse_stored_value(text, data_type) == number
    if number != 2_932_896:
        with pytest.raises(YearOutOfRangeError, match="outside the years 1 to 9999"):
            parse_partition_value(text, data_type)


@pytest.mark.parametrize("text", ["+999999-01-01 00:00:00", "-999999-01-01 00:00:00"])
def test_a_moment_that_does_not_fit_a_file_is_refused(text: str):
    with pytest.raises(MalformedLogError, match="is not a timestamp"):
        parse_stored_value(text, TIMESTAMP)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["P"], "partition column P is spelled p in the table's schema"),
        (["p", "q", "r"], "table's schema lacks the partition columns q, r"),
    ],
)
def test_partition_columns_are_those_of_the_schema_letter_by_letter(names, message):
    schema = StructType((StructField("p", LONG), StructField("id", LONG)))
    assert partition_fields(schema, ["p"]) == schema.fields[:1]
    with pytest.raises(MalformedLogError, match=message):
        partition_fields(schema, names)


def test_a_value_given_for_another_spelling_is_refused():
    assert partition_text({"p": "1", "P": "2"}, "p") == "1"
    assert partition_text({}, "p") is None
    with pytest.raises(
        MalformedLogError, match="partition value for P, but the table's partition column is p"
    ):
        partition_text({"P": "1"}, "p")


@given(st.text(st.characters(codec="ascii"), min_size=1))
def test_an_escaped_name_has_no_separator_and_is_decoded_to_itself(name: str):
    escaped = escape_path_name(name)
    assert not set(escaped) & set("\0/\\=:?#*\"'{[]^")
    assert unquote(escaped) == name


def test_a_directory_names_its_partition():
    assert partition_directory({"a": "x/y", "b": None, "c": ""}, ["a", "b", "c"]) == (
        "a=x%2Fy/b=__HIVE_DEFAULT_PARTITION__/c=__HIVE_DEFAULT_PARTITION__"
    )


@pytest.mark.parametrize("value", ["x" * 300, "%" * 100, "é" * 150])
def test_a_directory_of_a_long_value_has_a_name_that_file_systems_accept(value):
    [name, other] = data_directory({"a": value, "b": "1"}, ["a", "b"]).split("/")
    assert 250 <= len(name.encode()) <= 255
    assert name.startswith("a=")
    assert other == "b=1"
