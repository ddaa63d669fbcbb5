"""Tables of other engines with a file damaged: right, or refused with an error of ours."""

import re
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.errors import EngineError
from engine.storage.memory import MemoryStore
from engine.table import DeltaTable
from tests.shared import SHARED, shared_lines

if SHARED is None:
    pytest.skip("the tables of other engines are not beside this checkout", allow_module_level=True)

TABLES = SHARED / "tables"
NAMES = [shared_line["table"] for shared_line in shared_lines("tables/expected.jsonl")]
ODD_VALUES = [
    b"null",
    b"-1",
    b"1e400",
    b'"x"',
    b"{}",
    b"[]",
    b"true",
    b"9223372036854775808",
    b'""',
    b"\xff",
    b'"%2e%2e/%2e%2e"',
]
VALUE = re.compile(rb':("[^"]*"|[\d.]+|true|false|null|\{\}|\[\])')


@cache
def files_of(table: str) -> dict[str, bytes]:
    root = TABLES / table
    return {p.relative_to(root).as_posix(): p.read_bytes() for p in root.rglob("*") if p.is_file()}


def with_odd_value(data: bytes, draw: Any) -> bytes:
    values = list(VALUE.finditer(data))
    if not values:
        return data
    match = draw(st.sampled_from(values))
    return data[: match.start(1)] + draw(st.sampled_from(ODD_VALUES)) + data[match.end(1) :]


def with_other_byte(data: bytes, draw: Any) -> bytes:
    at = draw(st.integers(0, len(data) - 1))
    return data[:at] + bytes([draw(st.integers(0, 255))]) + data[at + 1 :]


def cut(data: bytes, draw: Any) -> bytes:
    return data[: draw(st.integers(0, len(data) - 1))]


def with_hole(data: bytes, draw: Any) -> bytes:
    at = draw(st.integers(0, len(data) - 1))
    return data[:at] + data[at + draw(st.integers(1, 30)) :]


def with_lines_moved(data: bytes, draw: Any) -> bytes:
    return b"\n".join(draw(st.permutations(data.split(b"\n")[:50])))


def read_everything(table: DeltaTable) -> None:
    snapshot = table.snapshot()
    _ = (snapshot.timestamp, snapshot.clustering_columns, snapshot.properties, snapshot.size_bytes)
    table.history()
    snapshot.files()
    snapshot.add_files()
    _ = snapshot.row_count
    snapshot.to_arrow()


@settings(max_examples=400, deadline=None)
@given(st.data())
def test_a_damaged_file_is_read_right_or_refused_by_name(data: Any):
    table = data.draw(st.sampled_from(NAMES))
    path = data.draw(st.sampled_from(sorted(files_of(table))))
    damage = data.draw(
        st.sampled_from([with_odd_value, with_other_byte, cut, with_hole, with_lines_moved])
    )
    store = MemoryStore(f"memory://damaged/{table}")
    for name, content in files_of(table).items():
        damaged = name == path and content
        store.put(name, damage(content, data.draw) if damaged else content)
    try:
        read_everything(DeltaTable.open(store.root))
    except EngineError:
        return
