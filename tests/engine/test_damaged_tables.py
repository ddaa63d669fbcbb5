"""Tables of other engines with a file damaged: right, or refused with an error of ours."""

import re
import uuid
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import EngineError
from engine.storage.memory import MemoryStore
from engine.table import DeltaTable
from tests.engine.foreign.every_table import FOREIGN_TABLES

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


def files_below(root: Path) -> dict[str, bytes]:
    return {p.relative_to(root).as_posix(): p.read_bytes() for p in root.rglob("*") if p.is_file()}


def put_odd_value(data: bytes, draw: Any) -> bytes:
    values = list(VALUE.finditer(data))
    if not values:
        return data
    match = draw(st.sampled_from(values))
    return data[: match.start(1)] + draw(st.sampled_from(ODD_VALUES)) + data[match.end(1) :]


def change_byte(data: bytes, draw: Any) -> bytes:
    at = draw(st.integers(0, len(data) - 1))
    return data[:at] + bytes([draw(st.integers(0, 255))]) + data[at + 1 :]


def cut(data: bytes, draw: Any) -> bytes:
    return data[: draw(st.integers(0, len(data) - 1))]


def cut_hole(data: bytes, draw: Any) -> bytes:
    at = draw(st.integers(0, len(data) - 1))
    return data[:at] + data[at + draw(st.integers(1, 30)) :]


def shuffle_lines(data: bytes, draw: Any) -> bytes:
    return b"\n".join(draw(st.permutations(data.split(b"\n")[:50])))


def read_everything(table: DeltaTable) -> None:
    snapshot = table.snapshot()
    _ = (snapshot.timestamp, snapshot.clustering_columns, snapshot.properties, snapshot.size_bytes)
    table.history()
    snapshot.files()
    snapshot.add_files()
    _ = snapshot.row_count
    snapshot.to_arrow()


def assert_right_or_refused(files: dict[str, bytes], data: st.DataObject) -> None:
    path = data.draw(st.sampled_from(sorted(files)))
    damage = data.draw(st.sampled_from([put_odd_value, change_byte, cut, cut_hole, shuffle_lines]))
    store = MemoryStore(f"memory://damaged/{uuid.uuid4()}")
    for name, content in files.items():
        damaged = name == path and content
        store.put(name, damage(content, data.draw) if damaged else content)
    try:
        read_everything(DeltaTable.open(store.root))
    except EngineError:
        return


@pytest.fixture(scope="module")
def foreign(tmp_path_factory) -> list[dict[str, bytes]]:
    """The files of every table that is written as another engine does."""
    place = tmp_path_factory.mktemp("foreign")
    return [files_below(table.make(place)) for table in FOREIGN_TABLES.values()]


@pytest.fixture(scope="module")
def real(reference) -> list[dict[str, bytes]]:
    """The files of every table that another engine wrote."""
    roots = sorted((reference / "tables").glob("*/*/_delta_log"))
    return [files_below(root.parent) for root in roots]


@given(st.data())
def test_a_damaged_file_is_read_right_or_refused_by_name(foreign, data: st.DataObject):
    assert_right_or_refused(data.draw(st.sampled_from(foreign)), data)


@given(st.data())
def test_a_damaged_file_of_a_real_table_is_read_right_or_refused_by_name(real, data: st.DataObject):
    assert_right_or_refused(data.draw(st.sampled_from(real)), data)
