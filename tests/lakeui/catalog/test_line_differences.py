"""Lines added and removed between two lists, and the limit on those shown."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeui.catalog.definitions import MAX_LINES, DiffLine, section

WIDE = [f"column_{n:05} long" for n in range(50_000)]
TEXTS = st.lists(st.sampled_from(["a long", "a int", "b long", "  x int", "  x long", "c int"]))


def signs(before, after):
    return [line.sign + line.text for line in section("Schema", before, after).lines]


def test_a_changed_line_follows_its_old_form():
    before = ["a long", "b long", "c long"]
    assert signs(before, ["a int", "b long", "c int", "d int"]) == [
        "-a long", "+a int", " b long", "-c long", "+c int", "+d int",
    ]  # fmt: skip


def test_a_moved_line_is_removed_and_added():
    assert signs(["a", "b", "c"], ["c", "a", "b"]) == ["+c", " a", " b", "-c"]


def test_fields_of_two_structs_are_distinguished():
    before = ["p struct", "  x int", "q struct", "  x int"]
    after = ["n struct", "  x int", *before[:2], "q struct", "  x long"]
    assert signs(before, after) == [
        "+n struct", "+  x int", " p struct", "   x int", " q struct", "-  x int", "+  x long",
    ]  # fmt: skip


@given(TEXTS, TEXTS)
def test_both_sides_can_be_read_from_the_lines(before, after):
    lines = section("Schema", before, after).lines
    assert sorted(line.text for line in lines if line.sign != "+") == sorted(before)
    assert [line.text for line in lines if line.sign != "-"] == after
    assert section("Schema", before, before).changed is False


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    "after",
    [
        WIDE,
        [*WIDE, "new long"],
        [text.replace("long", "int") for text in WIDE],
        [text.replace("0 long", "0 int") for text in WIDE],
        [text.replace("column", "renamed") for text in WIDE],
        WIDE[::-1],
        [],
    ],
    ids=["equal", "one more", "all", "every tenth", "renamed", "backwards", "none"],
)
def test_tables_of_many_columns_are_compared_and_cut(after):
    compared = section("Schema", WIDE, after)
    assert sum(line.sign != "+" for line in compared.lines) == len(WIDE)
    assert len(compared.shown) <= 7 * MAX_LINES
    assert len(compared.shown) <= len(compared.lines)
    changed = sum(line.sign != " " for line in compared.lines)
    if changed > MAX_LINES:
        assert compared.shown[-1] == DiffLine("…", f"{changed - MAX_LINES:,} more changed")


def test_a_short_text_is_shown_whole():
    compared = section("Schema", WIDE[:200], WIDE[:199])
    assert len(compared.shown) == 200
    assert len(section("Schema", WIDE[:300], WIDE[:299]).shown) == 4
