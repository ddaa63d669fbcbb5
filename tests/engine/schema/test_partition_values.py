from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import EngineError, MalformedLogError
from engine.schema.partition_values import (
    escape_path_name,
    format_partition_value,
    parse_partition_value,
    partition_directory,
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
)


def _in_38_digits(value: int) -> Decimal:
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
        st.just(DecimalType(38, 18)), st.integers(-(10**38) + 1, 10**38 - 1).map(_in_38_digits)
    ),
    st.tuples(st.just(BINARY), st.binary(min_size=1)),
)


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
        ("2024-01-02 03:04:05.1", TIMESTAMP_NTZ, datetime(2024, 1, 2, 3, 4, 5, 100000)),  # noqa: DTZ001
        ("2024-01-02", DATE, date(2024, 1, 2)),
        ("1", DecimalType(12, 2), Decimal("1.00")),
        ("-1.5", DecimalType(12, 2), Decimal("-1.50")),
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
        ("NaN", DecimalType(9, 2)),
        ("x", ArrayType(LONG)),
    ],
)
def test_a_text_of_another_type_is_refused(text: str, data_type: DataType):
    with pytest.raises(MalformedLogError):
        parse_partition_value(text, data_type)


@given(st.text(st.characters(codec="ascii", exclude_characters="\0"), min_size=1))
def test_an_escaped_name_has_no_separator_and_is_decoded_to_itself(name: str):
    escaped = escape_path_name(name)
    assert not set(escaped) & set("/\\=:?#*\"'{[]^")
    assert unquote(escaped) == name


def test_a_directory_names_its_partition():
    assert partition_directory({"a": "x/y", "b": None, "c": ""}, ["a", "b", "c"]) == (
        "a=x%2Fy/b=__HIVE_DEFAULT_PARTITION__/c=__HIVE_DEFAULT_PARTITION__"
    )
