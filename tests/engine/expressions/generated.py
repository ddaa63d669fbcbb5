"""Generated rows and conditions over one schema of every atomic type, for property tests.

Extreme values are frequent: nulls, NaN, infinities, both zeros, the ends of integers, the empty
string, texts beyond ASCII, and moments around the epoch.
"""

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from engine.expressions.render import quote_string
from engine.schema.types import (
    BOOLEAN,
    BYTE,
    DATE,
    DOUBLE,
    FLOAT,
    INTEGER,
    LONG,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    DecimalType,
    StructField,
    StructType,
)

DECIMAL = DecimalType(10, 2)
SCHEMA = StructType(
    (
        StructField("b", BYTE),
        StructField("i", INTEGER),
        StructField("l", LONG),
        StructField("f", FLOAT),
        StructField("d", DOUBLE),
        StructField("n", DECIMAL),
        StructField("s", STRING),
        StructField("t", STRING),
        StructField("day", DATE),
        StructField("ts", TIMESTAMP),
        StructField("wall", TIMESTAMP_NTZ),
        StructField("ok", BOOLEAN),
        StructField("odd ` name", LONG),
        StructField("st", StructType((StructField("x", INTEGER), StructField("y", STRING)))),
    )
)
ARROW = pa.schema(
    [
        ("b", pa.int8()),
        ("i", pa.int32()),
        ("l", pa.int64()),
        ("f", pa.float32()),
        ("d", pa.float64()),
        ("n", pa.decimal128(10, 2)),
        ("s", pa.string()),
        ("t", pa.string()),
        ("day", pa.date32()),
        ("ts", pa.timestamp("us", "UTC")),
        ("wall", pa.timestamp("us")),
        ("ok", pa.bool_()),
        ("odd ` name", pa.int64()),
        ("st", pa.struct([("x", pa.int32()), ("y", pa.string())])),
    ]
)

_FLOATS = [0.0, -0.0, 1.5, -1.5, 0.1, 3.0, float("nan"), float("inf"), float("-inf"), 1e30]
_TEXTS = [
    "",
    "a",
    "A",
    "b",
    "ab",
    "a%b",
    "a_b",
    " a ",
    "ä",
    "\U0001f600",
    "zz",
    "5",
    "10",
    "it's",
    "\\",
]
_DAYS = [
    dt.date(1969, 12, 31),
    dt.date(1970, 1, 1),
    dt.date(2024, 2, 29),
    dt.date(2024, 3, 1),
    dt.date(2025, 1, 1),
]
_MOMENTS = [
    dt.datetime.fromisoformat("1969-12-31T23:59:59.999999"),
    dt.datetime.fromisoformat("1970-01-01T00:00:00"),
    dt.datetime.fromisoformat("2024-02-29T12:30:15.123456"),
    dt.datetime.fromisoformat("2024-02-29T00:00:00"),
    dt.datetime.fromisoformat("2024-03-01T00:00:00.000001"),
    dt.datetime.fromisoformat("2025-01-01T00:00:00"),
]


def _integers(bits: int) -> st.SearchStrategy[int]:
    ends = [-(2 ** (bits - 1)), 2 ** (bits - 1) - 1]
    return st.one_of(st.integers(-3, 10), st.sampled_from(ends))


_VALUES: dict[str, st.SearchStrategy[Any]] = {
    "b": _integers(8),
    "i": _integers(32),
    "l": st.one_of(_integers(64), st.sampled_from([2**53, 2**53 + 1])),
    "f": st.sampled_from(_FLOATS),
    "d": st.sampled_from([*_FLOATS, 1e300, 5e-324, 2.0**53]),
    "n": st.one_of(
        st.integers(-300, 900).map(lambda cents: Decimal(cents).scaleb(-2)),
        st.sampled_from([Decimal("99999999.99"), Decimal("-99999999.99")]),
    ),
    "s": st.sampled_from(_TEXTS),
    "t": st.sampled_from(_TEXTS),
    "day": st.sampled_from(_DAYS),
    "ts": st.sampled_from([moment.replace(tzinfo=dt.UTC) for moment in _MOMENTS]),
    "wall": st.sampled_from(_MOMENTS),
    "ok": st.booleans(),
    "odd ` name": _integers(8),
    "st": st.fixed_dictionaries(
        {"x": st.none() | st.integers(-3, 10), "y": st.none() | st.sampled_from(_TEXTS)}
    ),
}


def rows(max_size: int = 12) -> st.SearchStrategy[pa.Table]:
    """Generate tables of a few rows."""
    row = st.fixed_dictionaries({name: st.none() | values for name, values in _VALUES.items()})
    return st.lists(row, min_size=1, max_size=max_size).map(
        lambda made: pa.Table.from_pylist(made, schema=ARROW)
    )


def _pick(*options: str) -> st.SearchStrategy[str]:
    return st.sampled_from(options)


_INTEGER_LITERAL = _pick(
    "0", "1", "2", "5", "-1", "3", "127", "-128", "2147483647", "9223372036854775807", "7L", "NULL"
)
_NUMBER_LITERAL = st.one_of(
    _INTEGER_LITERAL,
    _pick(
        "0.0",
        "1.5",
        "-1.5",
        "0.10",
        "99999999.99",
        "1.5D",
        "0.1D",
        "1e30",
        "0.1F",
        "-0.0D",
        "CAST('NaN' AS DOUBLE)",
    ),
)
_NUMBER = st.one_of(
    _pick("b", "i", "l", "f", "d", "n", "`odd `` name`", "st.x"),
    _NUMBER_LITERAL,
)
_WHOLE = st.one_of(_pick("b", "i", "l", "st.x"), _INTEGER_LITERAL)
_TEXT = st.one_of(
    _pick("s", "t", "st.y"),
    st.sampled_from(_TEXTS).map(quote_string),
)
_DAY = st.one_of(_pick("day"), st.sampled_from(_DAYS).map(lambda day: f"DATE '{day}'"))
_MOMENT = st.one_of(
    _pick("ts", "wall", "day"),
    st.sampled_from(_MOMENTS).map(lambda wall: f"TIMESTAMP '{wall}'"),
    st.sampled_from(_MOMENTS).map(lambda wall: f"TIMESTAMP_NTZ '{wall}'"),
    st.sampled_from(_DAYS).map(lambda day: f"DATE '{day}'"),
)
_COMPARE = _pick("=", "<>", "<", "<=", ">", ">=", "<=>", "!=", "==")


def _join(template: str, *parts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.tuples(*parts).map(lambda texts: template.format(*texts))


_NUMBERS = st.one_of(
    _NUMBER,
    _join("({} {} {})", _NUMBER, _pick("+", "-", "*"), _NUMBER),
    _join("({} {} {})", _WHOLE, _pick("%", "DIV", "/"), _pick("2", "3", "-1", "7L")),
    _join("-({})", _pick("b", "i", "d", "n")),
    _join("{}({})", _pick("abs", "coalesce"), _NUMBER),
    _join(
        "{}({}, {})",
        _pick("coalesce", "greatest", "least", "nullif", "pmod"),
        _WHOLE,
        _pick("2", "3", "i"),
    ),
    _join(
        "{}({}, {})",
        _pick("greatest", "least", "coalesce"),
        _pick("f", "d"),
        _pick("d", "1.5D", "f"),
    ),
    _join("{}({})", _pick("length", "octet_length", "ascii", "crc32"), _TEXT),
    _join("nvl2({}, {}, {})", _pick("i", "s", "day"), _WHOLE, _WHOLE),
    _join("round({})", _pick("b", "i", "l")),
    _join("instr({}, {})", _TEXT, _TEXT),
    _join("{}({})", _pick("ceil", "floor"), _pick("d", "f", "i")),
    _join(
        "{}({})",
        _pick("year", "month", "day", "quarter", "dayofweek", "weekday", "dayofyear", "weekofyear"),
        _MOMENT,
    ),
    _join("{}({})", _pick("hour", "minute", "second"), _pick("ts", "wall")),
    _join("{}({})", _pick("unix_seconds", "unix_millis"), _pick("ts")),
    _join("datediff({}, {})", _DAY, _MOMENT),
    _join(
        "CAST({} AS {})", _pick("b", "i", "l", "n", "ok"), _pick("INT", "BIGINT", "DOUBLE", "FLOAT")
    ),
    _join("CAST({} AS {})", _NUMBER, _pick("DECIMAL(12,1)", "DECIMAL(20,4)", "TINYINT", "BIGINT")),
    _join("CAST({} AS {})", _TEXT, _pick("INT", "DOUBLE", "BIGINT")),
    _join("CASE WHEN {} = {} THEN {} ELSE {} END", _WHOLE, _WHOLE, _WHOLE, _WHOLE),
    _join("if({} > {}, {}, {})", _NUMBER, _NUMBER, _WHOLE, _WHOLE),
)
_STRINGS = st.one_of(
    _TEXT,
    _join(
        "{}({})", _pick("lower", "upper", "trim", "ltrim", "rtrim", "md5", "sha1", "reverse"), _TEXT
    ),
    _join("concat({}, {})", _TEXT, _TEXT),
    _join("{} || {}", _TEXT, _TEXT).map(lambda text: f"({text})"),
    _join(
        "substring({}, {}, {})",
        _TEXT,
        _pick("0", "1", "2", "-1", "-5", "9"),
        _pick("0", "1", "2", "-1", "9"),
    ),
    _join("{}({}, {})", _pick("left", "right"), _TEXT, _pick("0", "1", "2", "-1")),
    _join(
        "{}({}, {}, {})",
        _pick("lpad", "rpad"),
        _TEXT,
        _pick("0", "1", "4"),
        _pick("'x'", "'xy'", "''"),
    ),
    _join("replace({}, {}, {})", _TEXT, _TEXT, _TEXT),
    _join("translate({}, {}, {})", _TEXT, _TEXT, _TEXT),
    _join("split_part({}, {}, {})", _TEXT, _TEXT, _pick("1", "2", "-1", "-2", "9")),
    _join("coalesce({}, {})", _TEXT, _TEXT),
    _join("{}({}, {})", _pick("greatest", "least", "nullif"), _TEXT, _TEXT),
    _join("CAST({} AS STRING)", _pick("b", "i", "l", "n", "day", "ts", "wall", "ok", "d")),
    _join("sha2({}, {})", _TEXT, _pick("256", "0", "512")),
)
_MOMENTS_TEXT = st.one_of(
    _MOMENT,
    _join("CAST({} AS {})", _MOMENT, _pick("DATE", "TIMESTAMP", "TIMESTAMP_NTZ")),
    _join(
        "{}({}, {})", _pick("date_add", "date_sub", "add_months"), _DAY, _pick("0", "1", "-31", "i")
    ),
    _join(
        "({} {} INTERVAL {})",
        _MOMENT,
        _pick("+", "-"),
        _pick("1 DAY", "2 WEEKS", "1 MONTH", "'13' MONTH"),
    ),
    _join(
        "({} {} INTERVAL {})",
        _pick("ts", "wall"),
        _pick("+", "-"),
        _pick("5 HOURS", "'1.5' SECOND"),
    ),
    _join("trunc({}, '{}')", _DAY, _pick("year", "MM", "week", "quarter")),
    _join(
        "date_trunc('{}', {})",
        _pick("year", "month", "week", "day", "hour", "minute"),
        _pick("ts", "day"),
    ),
    _join("last_day({})", _DAY),
    _join("{}({})", _pick("to_date", "to_timestamp"), _MOMENT),
    _join("{}({})", _pick("timestamp_seconds", "timestamp_millis"), _pick("b", "i")),
)


def _comparisons() -> st.SearchStrategy[str]:
    alike = [
        _join("{} {} {}", side, _COMPARE, side) for side in (_NUMBERS, _STRINGS, _MOMENTS_TEXT)
    ]
    return st.one_of(
        *alike,
        _join("{} {} {}", _pick("ok", "(i = 1)"), _COMPARE, _pick("ok", "TRUE", "FALSE", "NULL")),
        _join("{} {} {}", _pick("i", "l", "d", "n"), _COMPARE, _pick("'5'", "'-1'", "' 10 '")),
        _join("{} {} {}", _pick("day", "ts"), _COMPARE, _pick("'2024-02-29'", "'1970-01-01'")),
        _join("{} IN ({}, {}, {})", _NUMBER, _NUMBER, _NUMBER, _NUMBER),
        _join("{} IN ({}, {})", _TEXT, _TEXT, _TEXT),
        _join("{} BETWEEN {} AND {}", _NUMBER, _NUMBER, _NUMBER),
        _join("{} NOT BETWEEN {} AND {}", _TEXT, _TEXT, _TEXT),
        _join("{} LIKE {}", _TEXT, _pick("'a%'", "'%b'", "'_'", "''", "'a\\\\%b'", "'%'", "'a__'")),
        _join("{}({}, {})", _pick("startswith", "endswith", "contains"), _TEXT, _TEXT),
        _join(
            "{} IS {}", _pick("i", "s", "d", "ok", "day", "st.x", "st"), _pick("NULL", "NOT NULL")
        ),
        _join("isnan({})", _pick("d", "f")),
        _pick("ok", "TRUE", "FALSE", "ok IS TRUE", "ok IS NOT FALSE", "i IS DISTINCT FROM 1"),
    )


def conditions(max_leaves: int = 6) -> st.SearchStrategy[str]:
    """Generate conditions as text."""
    return st.recursive(
        _comparisons(),
        lambda inner: st.one_of(
            _join("({} AND {})", inner, inner),
            _join("({} OR {})", inner, inner),
            _join("NOT ({})", inner),
        ),
        max_leaves=max_leaves,
    )


def skippable_conditions() -> st.SearchStrategy[str]:
    """Generate conditions that statistics can decide more often than random ones."""
    plain = st.one_of(
        _join("{} {} {}", _pick("b", "i", "l", "f", "d", "n", "st.x"), _COMPARE, _NUMBER_LITERAL),
        _join("{} {} {}", _NUMBER_LITERAL, _COMPARE, _pick("i", "l", "f", "d", "n")),
        _join("f {} {}", _COMPARE, _pick("0.1F", "0.1D", "0.1", "1e30F", "1e30", "3F", "-1.5F")),
        _join(
            "{} {} {}", _pick("s", "t", "st.y"), _COMPARE, st.sampled_from(_TEXTS).map(quote_string)
        ),
        _join("{} {} {}", _pick("day", "ts", "wall"), _COMPARE, _MOMENT),
        _join("{} {} {}", _pick("year(ts)", "year(day)"), _COMPARE, _pick("2024", "1970", "2025")),
        _join(
            "{} {} {}",
            _pick("date_trunc('month', ts)", "CAST(ts AS DATE)", "trunc(day, 'year')"),
            _COMPARE,
            _DAY,
        ),
        _join("{} IN ({}, {})", _pick("i", "d", "n"), _NUMBER_LITERAL, _NUMBER_LITERAL),
        _join("{} IS {}", _pick("i", "s", "d", "st.x", "ok"), _pick("NULL", "NOT NULL")),
        _join("{} LIKE {}", _pick("s"), _pick("'a%'", "'_'", "'zz'", "'a\\\\%b'")),
        _join("startswith(s, {})", st.sampled_from(_TEXTS).map(quote_string)),
        _pick("ok", "NOT ok", "ok = FALSE"),
    )
    return st.recursive(
        st.one_of(plain, plain, _comparisons()),
        lambda inner: st.one_of(
            _join("({} AND {})", inner, inner),
            _join("({} OR {})", inner, inner),
            _join("NOT ({})", inner),
        ),
        max_leaves=4,
    )
