"""A file is skipped only with proof."""

import datetime as dt
import json
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.actions.files import AddFile
from engine.actions.statistics import parse_stats
from engine.conflicts.reads import may_hold
from engine.errors import CannotEvaluateError, ExpressionError
from engine.expressions.evaluate import find_matches
from engine.expressions.parse import parse_condition
from engine.log.file_table import files_table
from engine.schema.partition_values import format_partition_value
from engine.schema.types import (
    DATE,
    DOUBLE,
    FLOAT,
    LONG,
    STRING,
    TIMESTAMP,
    DecimalType,
    PrimitiveType,
    StructField,
    StructType,
)
from engine.snapshot.data_skipping import Skipper, prune
from tests.engine.expressions.generated import SCHEMA, rows, skippable_conditions

PHYSICAL = "delta.columnMapping.physicalName"
MAPPED = StructType(
    tuple(replace(plain, metadata={PHYSICAL: f"col-{n}"}) for n, plain in enumerate(SCHEMA.fields))
)


# --- what a writer would say of a table's rows ---


def may_match(condition, partition_values, stats, schema, partition_columns, mode):
    return Skipper(condition, schema, partition_columns, mode).may_match(partition_values, stats)


@st.composite
def habits(draw: st.DrawFn) -> dict[str, Any]:
    """Return the ways in which a writer takes statistics."""
    return {
        "left_out": draw(st.frozensets(st.sampled_from(SCHEMA.names), max_size=4)),
        "nan_is_maximum": draw(st.booleans()),
        "cut": draw(st.sampled_from([0, 1, 32])),
        "no_counts": draw(st.booleans()),
    }


def _statistic(value: Any, *, upper: bool, habit: dict[str, Any]) -> Any:  # noqa: PLR0911
    if isinstance(value, dt.datetime):
        floored = value.replace(microsecond=value.microsecond // 1000 * 1000, tzinfo=None)
        return floored.isoformat(timespec="milliseconds") + "Z"
    if isinstance(value, dt.date):
        return value.isoformat()
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, float) and abs(value) == float("inf"):
        return "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, str) and habit["cut"] and len(value) > habit["cut"]:
        return value[: habit["cut"]] + (chr(0x10FFFF) if upper else "")
    return value


def _bounds(values: list[Any], habit: dict[str, Any]) -> tuple[Any, Any]:
    numbers = [value for value in values if value is not None and value == value]
    low = _statistic(min(numbers), upper=False, habit=habit) if numbers else None
    high = _statistic(max(numbers), upper=True, habit=habit) if numbers else None
    nan = any(value is not None and value != value for value in values)
    return low, "NaN" if nan and habit["nan_is_maximum"] else high


def stats_of(table: pa.Table, schema: StructType, habit: dict[str, Any]) -> str:
    """Return statistics in JSON, taken in these ways."""
    stats: dict[str, Any] = {"numRecords": table.num_rows}
    low: dict[str, Any] = {}
    high: dict[str, Any] = {}
    nulls: dict[str, Any] = {}
    for field in schema:
        if field.name in habit["left_out"]:
            continue
        key = field.metadata.get(PHYSICAL, field.name)
        values = table.column(field.name).to_pylist()
        if isinstance(field.type, StructType):
            parts = {
                child.name: [None if row is None else row[child.name] for row in values]
                for child in field.type
            }
            pairs = {name: _bounds(part, habit) for name, part in parts.items()}
            low[key] = {name: pair[0] for name, pair in pairs.items() if pair[0] is not None}
            high[key] = {name: pair[1] for name, pair in pairs.items() if pair[1] is not None}
            nulls[key] = {name: part.count(None) for name, part in parts.items()}
            continue
        least, most = _bounds(values, habit)
        if least is not None:
            low[key] = least
        if most is not None:
            high[key] = most
        nulls[key] = values.count(None)
    stats |= {"minValues": low, "maxValues": high}
    if not habit["no_counts"]:
        stats["nullCount"] = nulls
    return json.dumps(stats)


def _matches(text: str, table: pa.Table, schema: StructType) -> tuple[Any, bool]:
    """Return the condition and whether a row of the table matches, None if that is unknown."""
    try:
        tree = parse_condition(text, schema, now_ms=0)
        return tree, bool(pc.any(find_matches(tree, table)).as_py())
    except (ExpressionError, CannotEvaluateError):
        return None, False


@given(rows(4), skippable_conditions(), habits())
def test_a_file_that_holds_a_match_is_never_denied(table, text, habit):
    tree, matches = _matches(text, table, SCHEMA)
    if tree is not None and matches:
        stats = parse_stats(stats_of(table, SCHEMA, habit))
        assert may_match(tree, {}, stats, SCHEMA, (), "none")


def _file_of_number(number: int, stats: str | None) -> AddFile:
    return AddFile(
        path=str(number),
        partition_values={},
        size=1,
        modification_time=0,
        data_change=True,
        stats=stats,
    )


@given(st.lists(rows(3), min_size=2, max_size=5), skippable_conditions(), habits())
def test_many_files_are_judged_as_each_alone(tables, text, habit):
    try:
        tree = parse_condition(text, SCHEMA, now_ms=0)
    except ExpressionError:
        return
    texts = [*(stats_of(table, SCHEMA, habit) for table in tables), None, "{", '{"minValues": 7}']
    adds = [_file_of_number(number, stat) for number, stat in enumerate(texts)]
    alone = [may_hold(Skipper(tree, SCHEMA, (), "none"), add) for add in adds]
    assert prune(files_table(adds), tree, SCHEMA, (), "none").to_pylist() == alone


@pytest.mark.parametrize("text", ["1 / id = 1", "id + 1 = 3", "abs(id) = 2", "id % 2 = 0"])
def test_a_file_on_which_a_function_fails_does_not_affect_other_files(text):
    bounds = [0, 2, 2**63 - 1, 1]
    stats = [
        json.dumps(
            {
                "numRecords": 1,
                "minValues": {"id": bound},
                "maxValues": {"id": bound},
                "nullCount": {"id": 0},
            }
        )
        for bound in bounds
    ]
    tree = parse_condition(text, TABLE)
    adds = [_file_of_number(number, stat) for number, stat in enumerate(stats)]
    alone = [may_hold(Skipper(tree, TABLE, (), "none"), add) for add in adds]
    assert prune(files_table(adds), tree, TABLE, (), "none").to_pylist() == alone
    assert not all(alone)


@given(
    rows(4),
    skippable_conditions(),
    habits(),
    st.sampled_from(["b", "l", "n", "s", "day", "ts", "wall", "ok", "f", "d"]),
)
def test_a_partition_that_holds_a_match_is_never_denied(table, text, habit, column):
    index = table.schema.get_field_index(column)
    value = table.column(index)[0].as_py()
    value = None if value == "" else value
    arrow_type = table.schema.field(index).type
    table = table.set_column(index, column, pa.array([value] * table.num_rows, arrow_type))
    tree, matches = _matches(text, table, MAPPED)
    if tree is None or not matches:
        return
    field = MAPPED.get(column)
    key = field.metadata[PHYSICAL]
    values = {key: format_partition_value(value, field.type)}
    stats = stats_of(table, MAPPED, {**habit, "left_out": habit["left_out"] | {column}})
    assert may_match(tree, values, parse_stats(stats), MAPPED, (column,), "name")
    add = AddFile(
        path="a",
        partition_values=values,
        size=1,
        modification_time=0,
        data_change=True,
        stats=stats,
    )
    assert may_hold(Skipper(tree, MAPPED, (column,), "name"), add)
    assert prune(files_table([add]), tree, MAPPED, (column,), "name").to_pylist() == [True]


# --- what is ruled out, and what only seems to be ---

TABLE = StructType(
    (
        StructField("id", LONG),
        StructField("date", DATE),
        StructField("country", STRING),
        StructField("name", STRING),
        StructField("ts", TIMESTAMP),
        StructField("d", DOUBLE),
        StructField("f", FLOAT),
        StructField("inner", StructType((StructField("x", LONG),))),
    )
)
PARTITION = {"date": "2026-11-02", "country": None}
STATS = {
    "numRecords": 10,
    "minValues": {
        "id": 5,
        "name": "b",
        "ts": "2024-01-01T00:00:00.000Z",
        "d": 1.5,
        "f": 0.1,
        "inner": {"x": 3},
    },
    "maxValues": {
        "id": 9,
        "name": "d",
        "ts": "2024-01-02T00:00:00.000Z",
        "d": 2.5,
        "f": 0.1,
        "inner": {"x": 4},
    },
    "nullCount": {"id": 0, "name": 3, "ts": 0, "d": 0, "f": 0, "inner": {"x": 0}},
}

_ROWS = [
    ("id = 4", False),
    ("id = 5", True),
    ("id > 9", False),
    ("id >= 9", True),
    ("id < 5", False),
    ("4 >= id", False),
    ("id <> 5", True),
    ("NOT id >= 5", False),
    ("NOT (id >= 5 AND id <= 9)", False),
    ("id IN (1, 2, 3)", False),
    ("id IN (1, 7)", True),
    ("id NOT IN (5)", True),
    ("id BETWEEN 10 AND 20", False),
    ("id = '4'", False),
    ("id = 4.5", False),
    ("id = 8.5", True),
    ("id IS NULL", False),
    ("id <=> NULL", False),
    ("id = NULL", False),
    ("NULL", False),
    ("FALSE", False),
    ("1 = 2", False),
    ("name IS NULL", True),
    ("name = 'a'", False),
    ("name LIKE 'x%'", False),
    ("name LIKE 'c%'", True),
    ("name LIKE '%x'", True),
    ("startswith(name, 'e')", False),
    ("upper(name) = 'X'", True),
    ("ts < TIMESTAMP '2024-01-01 00:00:00'", False),
    ("ts > TIMESTAMP '2024-01-02 00:00:00'", True),
    ("ts > TIMESTAMP '2024-01-02 00:00:00.001'", False),
    ("CAST(ts AS DATE) = DATE '2023-12-31'", False),
    ("year(ts) = 2023", False),
    ("year(ts) = 2024", True),
    ("ts >= '2024-02-01'", False),
    ("d = 3", False),
    ("d < 1", False),
    ("d > 3", True),
    ("d = CAST('NaN' AS DOUBLE)", True),
    ("f > 0.1", True),
    ("f = 0.2D", False),
    ("f = 0.1F", True),
    ("f = 0.1D", False),
    ("f <= 0.1D", False),
    ("f > 0.1D", True),
    ("f IN (0.1F)", True),
    ("inner.x = 9", False),
    ("inner.x IS NULL", True),
    ("date = '2026-11-02'", True),
    ("date = DATE '2026-11-03'", False),
    ("date >= '2026-11-03' OR id = 5", True),
    ("date >= '2026-11-03' AND id = 5", False),
    ("date_add(date, 1) = '2026-11-02'", False),
    ("month(date) = 12", False),
    ("date_format(date, 'yyyy') = '1999'", True),
    ("country IS NULL", True),
    ("country IS NOT NULL", False),
    ("country = 'DE'", False),
    ("country <> 'DE'", False),
    ("coalesce(country, 'DE') = 'DE'", True),
    ("coalesce(country, 'DE') = 'FR'", False),
    ("rand() < 0 AND id = 5", True),
    ("rand() < 0 AND id = 4", False),
    ("rand() < 0 OR id = 4", True),
    ("1 / 0 = 1 OR id = 4", True),
]


@pytest.mark.parametrize(("text", "expected"), _ROWS, ids=[text for text, _ in _ROWS])
def test_a_file_is_ruled_out_where_it_can_be(text, expected):
    tree = parse_condition(text, TABLE)
    assert may_match(tree, PARTITION, STATS, TABLE, ("date", "country"), "none") is expected


@pytest.mark.parametrize(
    "stats", [None, {}, {"numRecords": 3}, {"minValues": None, "maxValues": 7}]
)
def test_without_statistics_only_partitions_rule_out(stats):
    condition = parse_condition("id = 4", TABLE)
    assert may_match(condition, PARTITION, stats, TABLE, ("date", "country"), "none")
    partition = parse_condition("date = '2000-01-01' AND id = 4", TABLE)
    assert not may_match(partition, PARTITION, stats, TABLE, ("date", "country"), "none")


@pytest.mark.parametrize("text", [None, "", "null", "[]", "7", "{", '"x"', "[" * 100_000])
def test_absent_statistics_prove_nothing(text):
    assert parse_stats(text) is None


@pytest.mark.parametrize(
    "bad",
    [
        {"id": "x"},
        {"id": True},
        {"id": None},
        {"id": {"a": 1}},
        {"id": [1]},
        {"ts": "yesterday"},
        {"ts": 7},
        {"d": "x"},
        {"inner": 5},
        {"name": 5},
    ],
)
def test_a_statistic_of_the_wrong_type_is_no_bound(bad):
    stats = {"numRecords": 1, "minValues": bad, "maxValues": bad}
    for text in ("id = 1", "ts = TIMESTAMP '2000-01-01'", "d = 1", "inner.x = 1", "name = 'a'"):
        assert may_match(parse_condition(text, TABLE), {}, stats, TABLE, (), "none")


def test_an_absent_partition_value_is_not_null_but_unknown():
    condition = parse_condition("country = 'DE'", TABLE)
    assert may_match(condition, {}, None, TABLE, ("country",), "none")
    assert not may_match(condition, {"country": ""}, None, TABLE, ("country",), "none")


def test_a_partition_of_floats_is_of_single_precision():
    schema = StructType((StructField("f", FLOAT),))
    for text, expected in (("f = 0.1F", True), ("f > 0.1D", True), ("f = 0.1D", False)):
        condition = parse_condition(text, schema)
        assert may_match(condition, {"f": "0.1"}, None, schema, ("f",), "none") is expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("CAST(d AS STRING) = 'NaN'", True),
        ("CAST(d AS STRING) LIKE 'N%'", True),
        ("CAST(d AS BOOLEAN)", True),
        ("CAST(d AS FLOAT) < 5", False),
    ],
)
@pytest.mark.parametrize("kind", [FLOAT, DOUBLE])
def test_a_partition_of_nan_is_a_value_of_other_types(
    text: str, expected: bool, kind: PrimitiveType
):
    schema = StructType((StructField("d", kind),))
    condition = parse_condition(text, schema)
    assert may_match(condition, {"d": "NaN"}, None, schema, ("d",), "none") is expected


def test_a_partition_value_that_cannot_be_read_is_unknown():
    condition = parse_condition("date = '2000-01-01'", TABLE)
    assert may_match(condition, {"date": "soon"}, None, TABLE, ("date",), "none")


def test_a_file_of_nulls_matches_only_conditions_that_nulls_match():
    stats = {"numRecords": 4, "nullCount": {"id": 4}}
    for text, expected in (("id = 1", False), ("id IS NULL", True), ("NOT id = 1", False)):
        assert may_match(parse_condition(text, TABLE), {}, stats, TABLE, (), "none") is expected


def test_a_truncated_maximum_does_not_rule_out_the_full_value():
    longest = "m" * 32
    stats = {"numRecords": 1, "minValues": {"name": longest}, "maxValues": {"name": longest}}
    for text, expected in ((longest + "zz", True), ("m" * 31 + "n" + "a", False)):
        condition = parse_condition(f"name = '{text}'", TABLE)
        assert may_match(condition, {}, stats, TABLE, (), "none") is expected


@pytest.mark.parametrize(
    ("value", "maximum"),
    [
        ("m" * 32 + "\U0001f600", "m" * 32 + "\ufffd"),
        ("\U0001f600" * 17, "\U0001f600" * 16 + "\ufffd"),
        ("\U0001f600" * 17, "\U0001f600" * 16),
        ("m" * 31 + "\U0001f600", "m" * 31 + "?\ufffd"),
        ("mm\U0001f600", "m\ufffd"),
    ],
)
def test_a_maximum_truncated_by_utf16_units_does_not_rule_out_the_full_value(
    value: str, maximum: str
):
    stats = {"numRecords": 1, "minValues": {"name": "a"}, "maxValues": {"name": maximum}}
    for text in (f"name = '{value}'", f"NOT name < '{value}'"):
        assert may_match(parse_condition(text, TABLE), {}, stats, TABLE, (), "none")


def test_a_decimal_that_went_through_a_double_keeps_its_neighbors():
    schema = StructType((StructField("n", DecimalType(38, 2)),))
    stats = parse_stats(
        '{"numRecords": 1, "minValues": {"n": 1.2345678901234568e16}, "maxValues": {"n": 1.2345678901234568e16}}'
    )
    condition = parse_condition("n = 12345678901234567.89", schema)
    assert may_match(condition, {}, stats, schema, (), "none")


@pytest.mark.parametrize("micros", [-1, -999, -1000, -1500])
def test_a_minimum_truncated_towards_1970_does_not_rule_out_the_full_value(micros: int):
    epoch = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
    held = epoch + dt.timedelta(microseconds=micros)
    cut = epoch - dt.timedelta(milliseconds=-micros // 1000)
    said = cut.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    stats = {"numRecords": 1, "minValues": {"t": said}, "maxValues": {"t": said}}
    schema = StructType((StructField("t", TIMESTAMP),))
    condition = parse_condition(f"t = TIMESTAMP'{held.isoformat()}'", schema)
    assert may_match(condition, {}, stats, schema, (), "none")


def test_names_in_statistics_are_physical():
    schema = StructType(
        (
            StructField("a", LONG, True, {PHYSICAL: "b"}),
            StructField("b", LONG, True, {PHYSICAL: "a"}),
        )
    )
    stats = {"numRecords": 1, "minValues": {"a": 1, "b": 2}, "maxValues": {"a": 1, "b": 2}}
    assert may_match(parse_condition("a = 2", schema), {}, stats, schema, (), "name")
    assert not may_match(parse_condition("a = 1", schema), {}, stats, schema, (), "name")


def test_pruning_parses_statistics_only_where_the_partition_stays():
    adds = [
        AddFile(
            path=str(n),
            partition_values={"date": f"2026-11-0{n % 3 + 1}", "country": "DE"},
            size=1,
            modification_time=0,
            data_change=True,
            stats=json.dumps({"numRecords": 1, "minValues": {"id": n}, "maxValues": {"id": n}}),
        )
        for n in range(9)
    ]
    condition = parse_condition("date = '2026-11-02' AND id > 3", TABLE)
    kept = prune(files_table(adds), condition, TABLE, ("date", "country"), "none")
    assert [n for n, keep in enumerate(kept.to_pylist()) if keep] == [4, 7]


@pytest.mark.parametrize("text", ["d > 0.1", "d < -0.1", "d = CAST(0.1F AS DOUBLE)", "s.d > 0.1"])
def test_a_float_that_became_a_double_is_not_denied_by_its_short_text(text: str):
    history = {"delta.typeChanges": [{"fromType": "float", "toType": "double"}]}
    widened = StructField("d", DOUBLE, metadata=history)
    schema = StructType((widened, StructField("s", StructType((widened,)))))
    bounds = {"d": 0.1, "s": {"d": 0.1}} if "-" not in text else {"d": -0.1}
    stats = {"numRecords": 1, "minValues": bounds, "maxValues": bounds}
    assert may_match(parse_condition(text, schema), {}, stats, schema, (), "none")


@pytest.mark.parametrize(
    ("data_type", "value", "said"),
    [
        (DecimalType(38, 0), "9" * 38, "9223372036854775807"),  # deltalake's largest number
        (DecimalType(38, 0), "-" + "9" * 38, "-9223372036854775808"),
        (DecimalType(38, 0), "9" * 38, "1e38"),
        (DecimalType(38, 19), "0.1000000000000000055", "0.1"),
        (DecimalType(20, 2), "123456789012345678.91", "123456789012345680.0"),
        (DecimalType(9, 2), "1234567.89", "1234567.89"),
    ],
)
def test_a_decimal_is_not_denied_by_bounds_that_a_writer_rounded(
    data_type: DecimalType, value: str, said: str
):
    schema = StructType((StructField("n", data_type),))
    bounds = {"n": Decimal(said)}
    stats = {"numRecords": 1, "minValues": bounds, "maxValues": bounds, "nullCount": {"n": 0}}
    for operator in ("=", ">=", "<="):
        assert may_match(
            parse_condition(f"n {operator} {value}", schema), {}, stats, schema, (), "none"
        )
    other = parse_condition("n = 5", schema)
    saturated = said.lstrip("-").startswith("92233720368547758")
    assert may_match(other, {}, stats, schema, (), "none") is False or saturated
