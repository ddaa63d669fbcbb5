"""Calls of every function, operator and cast, over edge values at which engines differ.

`calls_of` returns a function's calls: for each family of its parameters the columns of `EDGES`; calls
that need a literal are written out in `_WRITTEN`.
"""

import datetime as dt
from collections.abc import Iterator, Sequence
from decimal import Decimal
from itertools import islice, product
from math import gcd, prod
from typing import Any

import pyarrow as pa

from engine.expressions.functions import ARITHMETIC, COMPARISONS, Function
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
    MapType,
    StructField,
    StructType,
)

_MOST_ROWS = 400
_FLOATS = [0.0, -0.0, 0.5, -0.5, 2.5, 1e-7, 1e10, float("nan"), float("inf"), float("-inf"), None]
_TEXTS = [
    "",
    " ",
    "a",
    "ab",
    "aB c",
    "Straße ÄÖ",
    "\U0001f600x",
    "e\u0301",
    "a%b_c\\",
    "\n",
    "5",
    None,
]
_SPOKEN = [
    *("", " 7 ", "\t7", "+7", "-7", "7.5", "7.", ".5", "1e2", "1E-3", "0x1F", "7L", "7d", "NaN", "nan"),
    *("Infinity", "-inf", "9223372036854775807", "9223372036854775808", "2147483648", "128", "-129"),
    *("true", "T", "Yes", "off", "0", "1e400", "1.005", "-0.0", "99999999.995", "1_000", "٣"),
    *("2024-02-29", "2023-02-29", "2024-2-9", "2024", "2024-02", "2024-02-29 ", "2024-02-29T", "+2024-02-29"),
    *("0000-01-01", "0001-01-01", "9999-12-31", "10000-01-01", "-0001-01-01", "1582-10-10", "20240229"),
    *("2024-02-29 12:30", "2024-02-29T12:30:15.123456789", "2024-02-29 12:30:15.", "2024-02-29 24:00:00"),
    *("2024-02-29 12:30:15Z", "2024-02-29 12:30:15+02:00", "2024-02-29 12:30:15 Europe/Berlin", "12:30:15"),
    *("2024-02-29 12:30:15-0730", "2024-02-29 12:30:15+2", "2024-02-29 12:30:15 UTC+01:00", "2024-02-29 x"),
    *("2024-02-29 1:2:3", "2024-02-29 12", "epoch", "now", "2024-02-29 12:30:15 CET", "T12:30"),
]  # fmt: skip
_DAYS = [
    "0001-01-01",
    "1582-10-04",
    "1582-10-15",
    "1900-01-01",
    "1969-12-31",
    "1970-01-01",
    "2000-02-29",
]
_DAYS += ["2023-12-31", "2024-01-31", "2024-02-29", "2024-12-30", "9999-12-31"]
_MOMENTS = [
    "0001-01-01 00:00:00",
    "1582-10-15 00:00:00",
    "1899-12-31 23:59:59.999999",
    "1970-01-01 00:00:00",
]
_MOMENTS += [
    "1969-12-31 23:59:59.999999",
    "2024-02-29 12:30:15.123456",
    "2024-12-30 00:00:00.1",
    "2024-03-31 01:30:00",
]
_MOMENTS += ["9999-12-31 23:59:59.999999"]
_NAIVE = [dt.datetime.fromisoformat(text) for text in _MOMENTS]


def _whole(bits: int) -> list[Any]:
    return [0, 1, -1, 2, -3, 7, 2 ** (bits - 1) - 1, -(2 ** (bits - 1)), None]


_KINDS: dict[str, tuple[DataType, list[Any]]] = {
    "b": (BYTE, _whole(8)),
    "h": (SHORT, _whole(16)),
    "i": (INTEGER, _whole(32)),
    "l": (LONG, [*_whole(64), 2**53 + 1]),
    "f": (FLOAT, [*_FLOATS, 3.4028234663852886e38, 1.401298464324817e-45, 16777216.0]),
    "d": (DOUBLE, [*_FLOATS, 1e300, 5e-324, 2.0**53, 1e-5, 123456789.125, -1e18]),
    "n": (
        DecimalType(10, 2),
        [*map(Decimal, ("0.00", "1.50", "-2.50", "0.01", "99999999.99", "-99999999.99")), None],
    ),
    "w": (
        DecimalType(38, 10),
        [Decimal("1.0000000000"), Decimal("-9" * 1 + "9" * 27 + ".5"), None],
    ),
    "z": (DecimalType(5, 0), [Decimal(0), Decimal(-7), Decimal(99999), None]),
    "s": (STRING, _TEXTS),
    "p": (STRING, _SPOKEN),
    "x": (BINARY, [b"", b"a", b"\x00\xff", "ä".encode(), None]),
    "day": (DATE, [*map(dt.date.fromisoformat, _DAYS), None]),
    "ts": (TIMESTAMP, [*(moment.replace(tzinfo=dt.UTC) for moment in _NAIVE), None]),
    "wall": (TIMESTAMP_NTZ, [*_NAIVE, None]),
    "ok": (BOOLEAN, [True, False, None]),
    "arr": (ArrayType(INTEGER), [[], [1], [1, None, 1, -5], [None], None]),
    "m": (MapType(STRING, DOUBLE), [[], [("k", 1.0)], [("", None), ("k", 2.5)], None]),
    "st": (
        StructType((StructField("x", INTEGER), StructField("y", STRING))),
        [{"x": 1, "y": "a"}, {"x": None, "y": None}, None],
    ),
}
EDGES: dict[str, tuple[DataType, list[Any]]] = {
    name + twin: edge for name, edge in _KINDS.items() for twin in ("", "2", "3")
}
"""Columns by name, with their types and values; `i2` is another `i`, so that two may differ."""
SCHEMA = StructType(tuple(StructField(name, kind) for name, (kind, _) in EDGES.items()))

_FAMILIES: dict[str, tuple[str, ...]] = {
    "any": ("i", "d", "n", "s", "day", "ts", "ok"),
    "string": ("s",),
    "text": ("s", "x"),
    "number": ("b", "i", "l", "f", "d", "n", "w"),
    "integer": ("b", "i"),
    "long": ("b", "i", "l"),
    "float": ("f", "d"),
    "long or float": ("b", "h", "i", "l", "f", "d"),
    "boolean": ("ok",),
    "time": ("day", "ts", "wall"),
    "timestamp": ("ts", "wall"),
    "time or string": ("day", "ts", "wall", "p"),
    "array": ("arr",),
    "map": ("m",),
    "array or map": ("arr", "m"),
    "struct, array or map": ("st", "arr", "m"),
}
_TOGETHER = (
    "b i",
    "i l",
    "i d",
    "i n",
    "l f",
    "f d",
    "n d",
    "n z",
    "n w",
    "i p",
    "d p",
    "n p",
    "day p",
    "ts p",
)
_TOGETHER += (
    "ok p",
    "day ts",
    "wall ts",
    "day wall",
    "s x",
    "st st",
    "arr arr",
    "x x",
    "wall wall",
    "b h",
)
_UNITS = (
    "year",
    "YYYY",
    "yy",
    "quarter",
    "month",
    "mon",
    "mm",
    "week",
    "day",
    "dd",
    "hour",
    "minute",
    "second",
)
_UNITS += ("millisecond", "microsecond", "decade", "")
_PATTERNS = ("", "%", "_", "a%", "%b", "a_", "%a%b%", r"a\\%b\\_c%", "\n", "Stra_e%", "_x", "ab")


def _fill_template(template: str, *choices: Sequence[str]) -> list[str]:
    return [template.format(*chosen) for chosen in product(*choices)]


_ATOMS = ("b", "h", "i", "l", "f", "d", "n", "w", "z", "p", "x", "day", "ts", "wall", "ok")
_TYPES = (
    "TINYINT",
    "SMALLINT",
    "INT",
    "BIGINT",
    "FLOAT",
    "DOUBLE",
    "DECIMAL(4,1)",
    "DECIMAL(38,18)",
    "STRING",
)
_TYPES += ("BINARY", "DATE", "TIMESTAMP", "TIMESTAMP_NTZ", "BOOLEAN")
CASTS = _fill_template("CAST({} AS {})", _ATOMS, _TYPES) + _fill_template(
    "TRY_CAST({} AS {})", _ATOMS, _TYPES
)
_WRITTEN: dict[str, list[str]] = {
    "in": ["i IN (1, 2L, NULL)", "d IN (0.0D, 2.5D)", "n IN (1.5, 0)",
           "s IN ('a', 'ab', '')", "i IN (i2, 7)", "i NOT IN (1, NULL)", "day IN (DATE '2024-02-29', ts)",
           "i IN (1, 2, 3, 4, 5, 6, 7, 8, 9, NULL)", "s IN ('a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'ab')"],
    "and": ["ok AND ok2", "ok AND NULL", "ok AND ok2 AND ok3"],
    "or": ["ok OR ok2", "ok OR NULL"],
    "not": ["NOT ok"],
    "negative": ["-(b)", "-(i)", "-(l)", "-(d)", "-(n)", "-(f)", "-(w)"],
    "like": [*_fill_template("s LIKE '{}'", _PATTERNS), "s LIKE 'a!%b!_c%' ESCAPE '!'", "s LIKE s2", "s NOT LIKE '%b%'"],
    "ilike": _fill_template("s ILIKE '{}'", _PATTERNS),
    "case": ["CASE WHEN ok THEN i ELSE l END", "CASE WHEN ok THEN n WHEN i = 1 THEN 1.5 END", "CASE s WHEN 'a' THEN 1 END",
             "CASE WHEN ok THEN day WHEN ok2 THEN ts END", "CASE WHEN ok THEN i WHEN NOT ok THEN d END"],
    "get": ["arr[0]", "arr[i]", "m['k']", "m[s]"],
    "field": ["struct(i, s AS t).t"],
    "lambda": ["transform(arr, (x, n) -> x + n)"],
    "cast": CASTS,
    "div": ["i DIV i2", "l DIV b", "l DIV l2", "i DIV NULL"],
    "sha2": [*_fill_template("sha2({}, {})", ("s", "x"), ("0", "224", "256", "384", "512", "1", "NULL"))],
    "trunc": _fill_template("trunc({}, '{}')", ("day", "ts", "wall"), _UNITS),
    "date_trunc": _fill_template("date_trunc('{1}', {0})", ("day", "ts", "wall"), _UNITS),
    "lpad": [*_fill_template("lpad(s, {}, '{}')", ("-1", "0", "1", "3", "9"), ("", "x", "xyz", "ä")), "lpad(s, 4)", "lpad(s, 3, s2)"],
    "rpad": [*_fill_template("rpad(s, {}, '{}')", ("-1", "0", "1", "3", "9"), ("", "x", "xyz", "ä")), "rpad(s, 4)", "rpad(s, 3, s2)"],
    "round": _fill_template("round({}, {})", ("b", "i", "l", "f", "d"), ("0", "1", "-1", "-9")) + _fill_template("round({})", ("b", "i", "l", "f", "d")),
    "greatest": [*_fill_template("greatest({0}, {0}2, {0}3)", ("i", "d", "n", "s", "day", "ts")), "greatest(i, d)", "greatest(b, 5L)", "greatest(i, NULL)"],
    "least": [*_fill_template("least({0}, {0}2, {0}3)", ("i", "d", "n", "s", "day", "ts")), "least(i, d)", "least(n, i)", "least(f, d)"],
    "coalesce": ["coalesce(i, l)", "coalesce(n, i)", "coalesce(f, i)", "coalesce(day, ts)", "coalesce(s, 'x')", "coalesce(NULL, d, 1)"],
    "if": ["if(ok, i, l)", "if(ok, n, 1)", "if(ok, day, ts)", "if(ok, s, NULL)"],
    "nvl2": ["nvl2(i, s, 'x')", "nvl2(d, i, l)", "nvl2(day, day, ts)"],
    "isnull": _fill_template("{} IS NULL", ("i", "d", "s", "st", "arr", "st.x")),
    "isnotnull": _fill_template("{} IS NOT NULL", ("i", "d", "s", "st", "arr", "st.x")),
    "concat": [*_fill_template("s || {}", ("i", "l", "n", "ok", "day", "ts", "wall")), "concat(s, s2)", "concat(s)", "concat(s, NULL)", "s || s2 || 'x'", "concat(s, s2, s3)"],
    "substring": ["substring(s, i, i2)", "substring(s, i)", "substring(s, 0)", "substring(s, -2, 1)", "substring(s, 2, 2)"],
    "split_part": _fill_template("split_part(s, {}, {})", ("'a'", "''", "' '", "s2"), ("1", "-1", "2", "0", "i")),
    "replace": ["replace(s, s2, 'x')", "replace(s, 'a', s2)", "replace(s, 'a')", "replace(s, '', 'x')", "replace(s, s2)"],
    "translate": ["translate(s, s2, s3)", "translate(s, 'aab', 'xy')", "translate(s, '', 'x')"],
    "add_months": _fill_template("add_months({}, {})", ("day", "ts", "wall"), ("0", "1", "-1", "12", "b", "100000")),
    "to_date": _fill_template("to_date({})", ("day", "ts", "wall", "p")),
    "to_timestamp": _fill_template("to_timestamp({})", ("day", "ts", "wall", "p")),
    "+": ["day + i", "day + INTERVAL 1 MONTH", "day + INTERVAL 1 DAY", "day + INTERVAL 14 MONTHS",
          "ts + INTERVAL 1 DAY", "ts + INTERVAL 1 MONTH", "wall + INTERVAL 90 MINUTES", "day + INTERVAL 5 HOURS", "INTERVAL 1 DAY + day"],
    "-": ["day - i", "day - INTERVAL 1 MONTH", "ts - INTERVAL 1 YEAR", "wall - INTERVAL '5' HOURS", "ts - INTERVAL '1.5' SECOND"],
    "%": ["i % i2", "l % l2", "b % b2", "n % n2", "d % d2", "mod(i, 3)", "i % -1"],
    "pmod": ["pmod(i, i2)", "pmod(l, l2)", "pmod(b, 3)", "pmod(d, d2)", "pmod(n, 3)", "pmod(i, -3)"],
    "/": ["i / i2", "n / n2", "d / d2", "f / i", "l / 3", "n / 3"],
    "*": ["b * b2", "i * i2", "l * l2", "f * f2", "d * d2", "n * n2", "n * i", "n * d", "w * w2", "z * n"],
    "named_struct": ["named_struct('a', i)"],
    "map": ["map('a', i)"],
    "array": ["array(i, i2)"],
    "map_from_arrays": ["map_from_arrays(array('a'), array(1))"],
    "from_json": ["from_json(s, 'a INT')"],
    "to_json": ["to_json(st)"],
    "flatten": ["flatten(array(arr, arr))"],
    "array_join": ["array_join(array(s, s2), ',')"],
    "slice": ["slice(arr, 1, 2)"],
    "sort_array": ["sort_array(arr, false)"],
    "array_position": ["array_position(arr, 1)"],
    "array_remove": ["array_remove(arr, 1)"],
    "array_contains": ["array_contains(arr, 1)"],
    "map_contains_key": ["map_contains_key(m, 'k')"],
    "element_at": ["element_at(arr, 1)"],
    "transform": ["transform(arr, x -> x + 1)"],
    "filter": ["filter(arr, x -> x > 1)"],
    "exists": ["exists(arr, x -> x = 1)"],
    "forall": ["forall(arr, x -> x = 1)"],
    "aggregate": ["aggregate(arr, 0, (a, x) -> a + x)"],
    "zip_with": ["zip_with(arr, arr2, (x, y) -> x * y)"],
    "map_filter": ["map_filter(m, (k, v) -> v > 1)"],
    "transform_keys": ["transform_keys(m, (k, v) -> length(k))"],
    "transform_values": ["transform_values(m, (k, v) -> length(k))"],
    "regexp_like": ["regexp_like(s, '^a')"],
    "regexp_replace": ["regexp_replace(s, 'a', 'b')"],
    "regexp_extract": ["regexp_extract(s, '(a)', 1)"],
    "regexp_substr": ["regexp_substr(s, 'a')"],
    "regexp_count": ["regexp_count(s, 'a')"],
}  # fmt: skip


def calls_of(function: Function) -> list[str]:
    """Return a function's calls, by families and as written; some combinations have invalid types."""
    name = function.name
    written = _WRITTEN.get(name, [])
    if name in COMPARISONS or name in ARITHMETIC - {"pmod"}:
        pairs = [pair.split() for pair in _TOGETHER] + [
            [kind, kind] for kind in _KINDS if kind != "m"
        ]
        return written + [f"{one} {name} {other}2" for one, other in pairs]
    if written:
        return written
    return list(_iter_family_calls(function))


def _iter_family_calls(function: Function) -> Iterator[str]:
    families = [_FAMILIES[family] for family in function.parameters]
    least = len(families) - function.optional
    for count in range(least, len(families) + 1):
        for chosen in product(*families[:count]):
            arguments = (kind + ("", "2", "3")[i] for i, kind in enumerate(chosen))
            yield f"{function.name}({', '.join(arguments)})"


def rows_of(names: Sequence[str], arrow: pa.Schema) -> pa.Table:
    """Return all combinations of some columns' values, or a sample if there are many."""
    every = product(*(EDGES[name][1] for name in names))
    total = prod(len(EDGES[name][1]) for name in names)
    step = total // _MOST_ROWS + 1
    while step > 1 and gcd(step, total) > 1:
        step += 1  # or a column would keep some of its values
    chosen = list(islice(every, 0, None, step))
    columns = zip(*chosen, strict=True)
    arrays = [
        pa.array(values, arrow.field(name).type)
        for name, values in zip(names, columns, strict=True)
    ]
    return pa.Table.from_arrays(arrays, names=list(names))
