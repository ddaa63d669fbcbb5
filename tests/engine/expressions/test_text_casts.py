"""Casts of text: evaluated in this process only if Spark's cast gives the same value."""

import unicodedata
from itertools import product
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from engine.errors import CannotEvaluateError
from engine.expressions.arrow_cast import arrow_type, convert
from engine.expressions.literals import parse_timestamp
from engine.expressions.types import NAMED_TYPES
from engine.schema.types import STRING

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

_SPACES = [
    chr(code)
    for code in range(0x3001)
    if code <= 0x20 or 0x7F <= code <= 0xA0 or unicodedata.category(chr(code)) in {"Zs", "Zl", "Zp", "Cf"}
] + ["\ufeff", "\u2060"]  # fmt: skip
_NUMBERS = [
    "1_000",
    "٣",
    "\uff11\uff12",
    "1e5",
    "1.",
    ".5",
    "1d",
    "0x1F",
    "+7",
    "- 7",
    "NaN",
    "nan",
    "\u0131nf",
    "-Infinity",
]
_SAMPLES: dict[str, list[str]] = {
    "DATE": ["2020-01-01", "2020-1-1T!", "٢٠٢٠-01-01"],
    "TIMESTAMP": ["2020-01-01 10:00:00", "2020-01-01"],
    "TIMESTAMP_NTZ": ["2020-01-01T10:00:00.5"],
    "BOOLEAN": ["true", "Y", "\uff54", "Ye\u017f", "ON"],
    **{name: ["12", *_NUMBERS] for name in ("TINYINT", "SMALLINT", "INT", "BIGINT")},
    **{name: ["1.5", "Infinity", *_NUMBERS] for name in ("FLOAT", "DOUBLE")},
}
_CLOCKS = [
    "",
    "10:00",
    "10:0",
    "1:2:3",
    "10:00:00.1",
    "10:00:00.123456789",
    "24:00:00",
    "10",
    "10:60",
]
_ZONES = [
    *(
        "",
        "Z",
        "z",
        " Z",
        "  Z",
        "\tZ",
        "\u00a0Z",
        "UTC",
        " UTC",
        "gmt",
        "UTC+1",
        "GMT+01:00",
        "+1",
        "+0100",
    ),
    *(
        "530",
        "+530",
        "+0530",
        "+01:00",
        "  +01:00",
        "+1:00",
        "-18:00",
        "+18:01",
        "+05:60",
        "+\u06601:00",
        "UT",
    ),
    *(
        "Asia/Kathmandu",
        " America/New_York",
        "america/new_york",
        "EST",
        "CET",
        "Factory",
        "localtime",
    ),
]


def test_a_cast_of_a_text_gives_sparks_value_or_none(spark: SparkSession) -> None:
    for name, samples in _SAMPLES.items():
        spaced = [
            text
            for sample in samples
            for space in _SPACES
            for text in (sample, space + sample, sample + space, f"{sample[:1]}{space}{sample[1:]}")
        ]
        _compare(spark, name, spaced)


def test_a_time_in_a_text_is_read_as_spark_reads_it(spark: SparkSession) -> None:
    days = ["2020-1-1", "2020-02-30", "0001-01-01", "9999-12-31", "02020-01-01"]
    texts = [
        "".join(parts) for parts in product(days, ["T", " ", "  ", "t", " \t"], _CLOCKS, _ZONES)
    ]
    for name in ("DATE", "TIMESTAMP", "TIMESTAMP_NTZ"):
        assert _compare(spark, name, texts) > 30


def _compare(spark: SparkSession, name: str, texts: list[str]) -> int:
    """Check that this process reads texts as Spark does; return how many it reads."""
    cast = spark.createDataFrame([(text,) for text in texts], "text string")
    theirs = _list_values(cast.selectExpr(f"TRY_CAST(text AS {name}) AS value").toArrow().column(0))
    kind = NAMED_TYPES[name]
    read, wrong = 0, []
    for text, their in zip(texts, theirs, strict=True):
        try:
            value = convert(pa.array([text], arrow_type(STRING)), STRING, kind)
            mine = _list_values(value)[0]
        except (CannotEvaluateError, pa.ArrowException, OverflowError):
            continue
        read += 1
        if repr(mine) != repr(their):
            wrong.append((text, mine, their))
    assert wrong == [], f"{len(wrong)} of {read} as {name}: {wrong[:20]}"
    return read


def _list_values(values: Any) -> list[Any]:
    """Return Python values; times as numbers, because they may exceed Python's range."""
    is_time = pa.types.is_timestamp(values.type)
    listed: list[Any] = (values.cast(pa.int64()) if is_time else values).to_pylist()
    return listed


def test_the_history_of_a_region_is_sparks_alone() -> None:
    """Python and Java may have different copies of it: they differ by 40 minutes in Amsterdam in 1937."""
    for region in ("Europe/Amsterdam", " Africa/Accra"):
        for day, is_literal in (("1937-05-01", False), ("1969-12-31", False), ("2020-01-01", True)):
            text = f"{day} 12:00:00{region}"
            with pytest.raises(CannotEvaluateError):
                convert(pa.scalar(text), STRING, NAMED_TYPES["TIMESTAMP"])
            assert (parse_timestamp(text) is not None) is is_literal
