import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.log.checkpoint_reader import stats_as_json

TEXTS = st.text(st.characters(codec="utf-8"), max_size=10)
ROWS = st.lists(
    st.none()
    | st.fixed_dictionaries(
        {
            "numRecords": st.none() | st.integers(0, 2**63 - 1),
            "minValues": st.none()
            | st.fixed_dictionaries(
                {'a"b': st.none() | TEXTS, "n": st.none() | st.integers(-5, 5)}
            ),
        }
    ),
    max_size=5,
)
TYPE = pa.struct(
    [
        ("numRecords", pa.int64()),
        ("minValues", pa.struct([('a"b', pa.string()), ("n", pa.int32())])),
    ]
)


def drop_nulls(value: Any) -> Any:
    return (
        {k: drop_nulls(v) for k, v in value.items() if v is not None}
        if isinstance(value, dict)
        else value
    )


@given(ROWS)
def test_structs_become_the_json_they_mean(rows: list[dict[str, Any] | None]):
    column = pa.chunked_array([pa.array(rows, TYPE)])
    texts = stats_as_json(column).to_pylist()
    assert [None if text is None else json.loads(text) for text in texts] == [
        drop_nulls(row) for row in rows
    ]


@pytest.mark.parametrize("days", [2_932_897, -719_163, 40_000_000, 24_674_000 + 730_000])
@pytest.mark.parametrize("kind", [pa.date32(), pa.timestamp("us"), pa.timestamp("us", "UTC")])
def test_a_bound_of_a_year_that_no_text_says_is_left_out(days: int, kind: pa.DataType):
    number = days if kind == pa.date32() else days * 86_400_000_000
    value = pa.array([number, 0], pa.int32() if kind == pa.date32() else pa.int64()).view(kind)
    column = pa.StructArray.from_arrays([value], names=["x"])
    texts = stats_as_json(pa.chunked_array([column])).to_pylist()
    assert texts[0] == "{}"
    assert json.loads(texts[1])["x"].startswith("1970-01-01")


@pytest.mark.parametrize(
    ("value", "kind", "expected"),
    [
        (
            datetime(2024, 1, 2, 3, 4, 5, 678901, tzinfo=UTC),
            pa.timestamp("us", "UTC"),
            "2024-01-02T03:04:05.678901Z",
        ),
        (
            datetime(1960, 1, 2, 3, 4, 5, 678000, tzinfo=UTC),
            pa.timestamp("ms", "UTC"),
            "1960-01-02T03:04:05.678000Z",
        ),
        (datetime(2024, 1, 2), pa.timestamp("us"), "2024-01-02T00:00:00.000000"),  # noqa: DTZ001
        (date(2024, 1, 2), pa.date32(), "2024-01-02"),
        (Decimal("1.50"), pa.decimal128(9, 2), 1.5),
        (1.25, pa.float64(), 1.25),
        (float("nan"), pa.float64(), None),
        (float("inf"), pa.float32(), None),
        (True, pa.bool_(), True),
        (b"x", pa.binary(), None),
        ([1], pa.list_(pa.int64()), None),
        ('a\\"\n\t\x00é', pa.string(), 'a\\"\n\t\x00é'),
    ],
)
def test_a_value_is_written_as_json_has_it(value: object, kind: pa.DataType, expected: object):
    column = pa.chunked_array([pa.array([{"x": value}], pa.struct([("x", kind)]))])
    stats = json.loads(stats_as_json(column)[0].as_py())
    assert stats == ({} if expected is None else {"x": expected})
