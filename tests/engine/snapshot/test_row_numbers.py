"""Rows get the same number exactly if they are equal, for all types."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.snapshot.row_pairs import occurrences, row_numbers

NAN = float("nan")
VALUES = {
    "double": pa.array([1.5, NAN, NAN, None, None]),
    "struct": pa.array([None, {"x": None}, {"x": None}, {"x": 1}, {"x": 1}]),
    "list": pa.array([[1, 2], [], [], None, None], pa.list_(pa.int32())),
    "lists": pa.array([[[1], [2]], [[1, 2]], [[1, 2]], [[], None], [[], None]]),
    "map": pa.array([None, [("a", None)], [("a", None)], [("a", 1)], [("a", 1)]], pa.map_(pa.string(), pa.int64())),
    "bool": pa.array([True, False, False, None, None]),
    "binary": pa.array([b"", b"\x00", b"\x00", None, None]),
    "days beyond Python": pa.array([0, 4_000_000, 4_000_000, None, None], pa.int32()).view(pa.date32()),
}  # fmt: skip


@pytest.mark.parametrize("kind", VALUES)
def test_equal_values_of_every_type_get_one_number_and_others_do_not(kind):
    first, second, same, third, alike = row_numbers(pa.table({"v": VALUES[kind]})).tolist()
    assert second == same
    assert third == alike
    assert len({first, second, third}) == 3


def test_a_null_list_is_no_empty_one_and_nulls_are_equal():
    lists = pa.array([None, [], None], pa.list_(pa.int64()))
    first, second, third = row_numbers(pa.table({"v": lists}))
    assert first == third != second
    assert set(row_numbers(pa.table({"v": pa.nulls(3)})).tolist()) == {0}


@given(st.lists(st.tuples(st.integers(0, 2) | st.none(), st.text("ab", max_size=1))))
def test_rows_are_equal_exactly_if_all_their_values_are(rows):
    columns = {"n": pa.array([n for n, _ in rows], pa.int64()), "t": pa.array([t for _, t in rows], pa.string())}  # fmt: skip
    numbers = row_numbers(pa.table(columns)).tolist()
    pairs = {(numbers[i], numbers[j], rows[i] == rows[j]) for i in range(len(rows)) for j in range(len(rows))}  # fmt: skip
    assert all((one == other) == equal for one, other, equal in pairs)


def test_equal_numbers_are_counted_in_order():
    assert occurrences(np.array([7, 0, 7, 7, 0])).tolist() == [0, 0, 1, 2, 1]
    assert occurrences(np.array([], dtype=np.int64)).tolist() == []
