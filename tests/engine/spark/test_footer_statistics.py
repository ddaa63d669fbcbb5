import datetime as dt
import json
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from engine.actions.statistics import loosen_bounds
from engine.expressions.possible_values import upper_bound
from engine.protocol.properties import TableProperties, validate_properties
from engine.schema.arrow import from_arrow_type
from engine.schema.types import StructType
from engine.spark.footer_statistics import FooterStatistics, IndexedColumns

UTC = dt.UTC


def _stats(tmp_path, table, indexed=None, unbounded=frozenset()):
    path = tmp_path / "f.parquet"
    pq.write_table(table, path, row_group_size=2)
    schema = from_arrow_type(pa.struct(list(table.schema)))
    statistics = FooterStatistics(schema, indexed or IndexedColumns())
    return json.loads(statistics.to_json(pq.read_metadata(path), unbounded))


def test_bounds_and_null_counts_come_from_every_row_group(tmp_path):
    stats = _stats(tmp_path, pa.table({"a": [5, 1, None, 9, 3], "b": pa.nulls(5, pa.int64())}))
    assert stats["numRecords"] == 5
    assert (stats["minValues"], stats["maxValues"]) == ({"a": 1}, {"a": 9})
    assert stats["nullCount"] == {"a": 1, "b": 5}
    assert stats["tightBounds"] is True


def test_long_text_is_cut_so_that_the_bounds_still_hold(tmp_path):
    text = "é" * 40
    stats = _stats(tmp_path, pa.table({"a": [text]}))
    assert text.startswith(stats["minValues"]["a"])
    assert stats["maxValues"]["a"] > text


def test_the_table_says_how_much_of_a_text_its_bounds_keep(tmp_path):
    texts = ["abcdefgh" * 8, "b\U0010ffff\U0010ffffz", "", "\U0010ffff" * 3]
    for length in (0, 1, 8, 32, 64, 100):
        given = {"delta.dataSkippingStringPrefixLength": str(length)}
        validate_properties(given)
        properties = TableProperties.parse(given)
        indexed = IndexedColumns.from_properties(StructType(()), "none", properties)
        for text in texts:
            stats = _stats(tmp_path, pa.table({"a": [text]}), indexed)
            low, high = stats["minValues"]["a"], stats["maxValues"]["a"]
            assert low == text[:length]
            assert high == text or length < len(text)
            assert text.encode() <= high.encode(), "by the order of UTF-8, as Parquet has it"
            skipped_below = upper_bound(high)
            assert skipped_below is None or text.encode() <= skipped_below.encode()


@pytest.mark.parametrize(
    "rest",
    [
        "",
        "a",
        "\U0010ffff",
        "\U0010ffff\U0010ffffz",
        "\U0010ffff" * 3,
        "😀" * 5,
        "\uffff\uffff",
        "\ud7ff",
    ],
    ids=ascii,
)
@pytest.mark.parametrize(
    "head", ["a" * 31, "a" * 32, "😀" * 32, "\U0010ffff" * 32], ids=["31", "32", "pairs", "last"]
)
def test_cut_text_still_bounds_every_text_that_begins_like_it(tmp_path, head, rest):
    text = head + rest
    stats = _stats(tmp_path, pa.table({"a": [text, head]}))
    low, high = stats["minValues"]["a"].encode(), stats["maxValues"]["a"].encode()
    assert low <= head.encode() <= text.encode() <= high, "by the order of UTF-8, as Parquet has it"
    assert len(stats["minValues"]["a"]) <= 32


def test_moments_are_rounded_outwards_to_milliseconds(tmp_path):
    moment = dt.datetime(2024, 1, 1, 0, 0, 0, 123456, tzinfo=UTC)
    before = dt.datetime(1960, 1, 1, 0, 0, 0, 999999)  # noqa: DTZ001 - a wall clock
    table = pa.table(
        {
            "t": pa.array([moment], pa.timestamp("us", "UTC")),
            "n": pa.array([before], pa.timestamp("us")),
        }
    )
    stats = _stats(tmp_path, table)
    assert stats["minValues"]["t"] == "2024-01-01T00:00:00.123Z"
    assert stats["maxValues"]["t"] == "2024-01-01T00:00:00.124Z"
    assert stats["minValues"]["n"] == "1960-01-01T00:00:00.999"
    assert stats["maxValues"]["n"] == "1960-01-01T00:00:01.000"


def test_filters_beyond_json_or_order_are_left_out(tmp_path):
    table = pa.table(
        {
            "inf": [float("inf"), 1.0],
            "bool": [True, False],
            "bytes": [b"a", b"b"],
            "far": pa.array([2**62, 0], pa.timestamp("us")),
            "list": [[1], [2]],
        }
    )
    stats = _stats(tmp_path, table)
    assert stats["maxValues"] == {}
    assert set(stats["nullCount"]) == {"inf", "bool", "bytes", "far"}


def test_columns_that_hold_nan_get_no_bounds(tmp_path):
    stats = _stats(tmp_path, pa.table({"v": [1.0, 2.0]}), unbounded=frozenset({("v",)}))
    assert "v" not in stats["maxValues"]


def test_decimals_keep_their_digits_when_bounds_are_loosened(tmp_path):
    value = Decimal("12345678901234567890.123456789012345678")
    stats = _stats(tmp_path, pa.table({"d": pa.array([value], pa.decimal128(38, 18))}))
    assert stats["nullCount"] == {"d": 0}
    text = '{"numRecords":1,"minValues":{"d":12345678901234567890.123456789012345678}}'
    loose = loosen_bounds(text, 1)
    assert "12345678901234567890.123456789012345678" in loose
    assert '"tightBounds":false' in loose


def test_fields_of_structs_count_as_columns_and_so_do_lists_as_wholes(tmp_path):
    table = pa.table({"l": [[1, 2]], "s": [{"x": 1, "y": "b"}], "z": [7]})
    for count, indexed in ((1, {}), (2, {"s": {"x": 1}}), (3, {"s": {"x": 1, "y": "b"}})):
        assert _stats(tmp_path, table, IndexedColumns(count))["minValues"] == indexed
    named = _stats(tmp_path, table, IndexedColumns(32, (("z",), ("s", "y"))))
    assert named["minValues"] == {"s": {"y": "b"}, "z": 7}


@pytest.mark.parametrize("count", [0, -1])
def test_none_or_all_columns_can_be_indexed(tmp_path, count):
    stats = _stats(tmp_path, pa.table({f"c{i}": [i] for i in range(40)}), IndexedColumns(count))
    assert len(stats["minValues"]) == (40 if count else 0)
