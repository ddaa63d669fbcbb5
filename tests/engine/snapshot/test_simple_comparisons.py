"""The fast check for data skipping never skips a file that holds a match."""

import json
import uuid
from datetime import date, timedelta
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.expressions.evaluate import find_matches
from engine.expressions.parse import parse_condition
from engine.schema.types import DATE, LONG, STRING, StructField, StructType
from engine.snapshot.scan import parse_comparison, prune_by
from engine.snapshot.snapshot import load_snapshot
from engine.storage.memory import MemoryStore
from tests.engine.made_tables import add, write_commit, write_first, write_rows

SCHEMA = StructType((StructField("n", LONG), StructField("s", STRING), StructField("d", DATE)))
NUMBERS = st.integers(-5, 5)
TEXTS = st.text(st.sampled_from("ab\U0001f600\ufffd"), max_size=3) | st.just("a" * 40)
DATES = st.integers(0, 20).map(lambda days: date(2024, 1, 1) + timedelta(days))
ROWS = st.lists(
    st.fixed_dictionaries(
        {"n": st.none() | NUMBERS, "s": st.none() | TEXTS, "d": st.none() | DATES}
    ),
    max_size=4,
)
CONDITIONS = st.one_of(
    st.builds(
        "{} {} {}".format, st.just("n"), st.sampled_from(["=", "<", "<=", ">", ">="]), NUMBERS
    ),
    st.builds(
        "{} {} {}".format, NUMBERS, st.sampled_from(["=", "<", "<=", ">", ">="]), st.just("n")
    ),
    st.builds("n in ({}, {})".format, NUMBERS, NUMBERS),
    st.builds("s {} '{}'".format, st.sampled_from(["=", "<", "<=", ">", ">="]), TEXTS),
    st.builds("d {} DATE'{}'".format, st.sampled_from(["=", "<", ">="]), DATES),
)


def statistics(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return statistics as delta-spark writes them: a long text truncated, the upper bound raised."""
    stats: dict[str, Any] = {
        "numRecords": len(rows),
        "minValues": {},
        "maxValues": {},
        "nullCount": {},
    }
    for name in ("n", "s", "d"):
        values = [row[name] for row in rows if row[name] is not None]
        stats["nullCount"][name] = len(rows) - len(values)
        if values:
            low, high = (min(values), max(values)) if name != "s" else text_bounds(values)
            stats["minValues"][name], stats["maxValues"][name] = low, high
    return stats


def text_bounds(values: list[str]) -> tuple[str, str]:
    low, high = min(values), max(values)
    return low[:32], high if len(high) <= 32 else high[:32] + "\U0010ffff"


@given(ROWS, CONDITIONS)
def test_a_file_with_a_match_is_never_ruled_out(rows: list[dict[str, Any]], text: str):
    store = MemoryStore(f"memory://{uuid.uuid4()}")
    write_first(store, SCHEMA)
    write_commit(store, 1, add("f", stats=json.dumps(statistics(rows), default=str)))
    snapshot = load_snapshot(store)
    tree = parse_condition(text, SCHEMA)
    comparison = parse_comparison(tree, SCHEMA, "none")
    assert comparison is not None
    kept = prune_by(snapshot.files(), [comparison]).num_rows == 1
    data = load_data(rows)
    matches = any(find_matches(tree, data).to_pylist())
    assert kept or not matches


def load_data(rows: list[dict[str, Any]]) -> Any:
    store = MemoryStore(f"memory://{uuid.uuid4()}")
    write_first(store, SCHEMA)
    columns = {name: [row[name] for row in rows] for name in SCHEMA.names}
    write_commit(store, 1, write_rows(store, "f", columns))
    return load_snapshot(store).to_arrow() if rows else load_snapshot(store).to_arrow(limit=0)


@pytest.mark.parametrize(
    ("stats", "kept"),
    [
        ('{"numRecords":3,"minValues":{"n":1},"maxValues":{"n":4}}', False),
        ('{"numRecords":3,"minValues":{"n":1},"maxValues":{"n":5}}', True),
        ('{"numRecords":3,"minValues":{"n":6},"maxValues":{"n":9}}', False),
        ('{"numRecords":3,"nullCount":{"n":3}}', False),
        ('{"numRecords":3,"nullCount":{"n":2}}', True),
        ('{"numRecords":3,"minValues":{"n":"1"},"maxValues":{"n":"4"}}', True),
        ('{"numRecords":3,"minValues":{"n":1}}', True),
        ('{"numRecords":3,"minValues":[1],"maxValues":{"n":4}}', True),
        ('{"numRecords":"x","minValues":{"n":1},"maxValues":{"n":4}}', True),
        ("null", True),
        ("not json", True),
        (None, True),
    ],
)
def test_statistics_rule_out_only_proven_cases(stats: str | None, kept: bool):
    store = MemoryStore(f"memory://{uuid.uuid4()}")
    write_first(store, SCHEMA)
    write_commit(store, 1, add("f", stats=stats))
    assert (load_snapshot(store).files("n = 5").num_rows == 1) is kept


@pytest.mark.parametrize(
    "text",
    [
        "n = '5'",
        "n = 5.5",
        "n + 1 = 5",
        "n = n",
        "s = 5",
        "not n = 5",
        "n is null",
        "d = '2024-01-01'",
        "n in (1, null)",
    ],
)
def test_conditions_beyond_comparisons_are_left_to_others(text: str):
    assert parse_comparison(parse_condition(text, SCHEMA), SCHEMA, "none") is None


@pytest.mark.parametrize("high", ["\U0001f600" * 16, "m\ufffd"])
def test_a_text_cut_by_utf16_units_is_no_upper_bound(high: str):
    store = MemoryStore(f"memory://{uuid.uuid4()}")
    write_first(store, SCHEMA)
    stats = json.dumps({"numRecords": 1, "minValues": {"s": "a"}, "maxValues": {"s": high}})
    write_commit(store, 1, add("f", stats=stats))
    assert load_snapshot(store).files("s = '\U0001f601'").num_rows == 1


@pytest.mark.parametrize(("length", "kept"), [(31, False), (32, True), (33, True)])
def test_a_text_that_may_have_been_cut_is_no_upper_bound(length: int, kept: bool):
    store = MemoryStore(f"memory://{uuid.uuid4()}")
    write_first(store, SCHEMA)
    stats = json.dumps({"numRecords": 1, "minValues": {"s": "a"}, "maxValues": {"s": "b" * length}})
    write_commit(store, 1, add("f", stats=stats))
    assert (load_snapshot(store).files(f"s = '{'b' * 40}'").num_rows == 1) is kept


@pytest.mark.parametrize(
    "name", ['q"x', "back\\slash", "tab\tbed", "nul\0x", "\u202ertl", "a`b", "😀"]
)
@pytest.mark.parametrize("ask", ["{} = 3", "{} = 3 OR {} IS NULL"])
def test_a_column_of_any_name_is_queried_and_its_statistics_count(name, ask):
    store = MemoryStore(f"memory://{uuid.uuid4().hex}")
    write_first(store, StructType((StructField(name, LONG),)))
    files = []
    for path, values in (("a", [1, 2]), ("b", [3, 4])):
        said = {"minValues": {name: values[0]}, "maxValues": {name: values[1]}}
        stats = json.dumps({"numRecords": 2, "nullCount": {name: 0}} | said)
        files.append(write_rows(store, path, {name: pa.array(values)}, stats=stats))
    write_commit(store, 1, *files)
    quoted = f"`{name.replace('`', '``')}`"
    snapshot = load_snapshot(store)
    where = parse_condition(ask.format(quoted, quoted), snapshot.schema)
    assert [file.path for file in snapshot.add_files(where)] == ["b"]
    assert snapshot.to_arrow(condition=where).column(0).to_pylist() == [3]
