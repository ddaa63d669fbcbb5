"""A null struct stays null in every operation that builds a struct from its fields."""

import pyarrow as pa
import pytest

from engine.commands.model import Append
from engine.commands.sources import ArrowSource
from engine.table import DeltaTable
from tests.engine.operations.conftest import Do

_COLUMNS = (
    "id INT, s STRUCT<a: INT, b: INT>, n STRUCT<i: STRUCT<a: INT, b: INT>>,"
    " l ARRAY<STRUCT<a: INT, b: INT>>, m MAP<STRING, STRUCT<a: INT, b: INT>>"
)
_FULL = {"a": 1, "b": 2}
_KEPT = {
    1: (None, {"i": None}, [None], {"k": None}),
    2: (_FULL, {"i": _FULL}, [_FULL], {"k": _FULL}),
}
_STRUCTS = {
    "in another order": ("STRUCT<b: INT, a: INT>", "named_struct('b', 2, 'a', 1)"),
    "to be cast": ("STRUCT<a: STRING, b: BIGINT>", "named_struct('a', '1', 'b', 2L)"),
    "with a new field": (
        "STRUCT<a: INT, b: INT, c: INT>",
        "named_struct('a', 1, 'b', 2, 'c', CAST(NULL AS INT))",
    ),
}
_WAYS = (
    "INSERT{evolves} INTO t BY NAME {rows}",
    "INSERT{evolves} INTO t {rows}",
    "MERGE{evolves} INTO t USING ({rows}) AS s ON t.id = s.id WHEN NOT MATCHED THEN INSERT *",
)
_REPLACED = (
    "MERGE{evolves} INTO t USING ({rows}) AS s ON t.id = s.id WHEN MATCHED THEN UPDATE SET *"
)


def _rows(kind: str, value: str) -> str:
    columns = (
        f"CASE WHEN id = 2 THEN {value} END AS s,"
        f" named_struct('i', CASE WHEN id = 2 THEN {value} END) AS n,"
        f" array(CASE WHEN id = 2 THEN {value} END) AS l,"
        f" map('k', CASE WHEN id = 2 THEN {value} END) AS m"
    )
    return f"SELECT CAST(id AS INT) AS id, {columns} FROM VALUES (1), (2) AS v (id)"  # noqa: S608 - of this test


def _content(table: DeltaTable) -> dict[int, tuple[object, ...]]:
    rows = table.snapshot().to_arrow().to_pylist(maps_as_pydicts="strict")
    return {row["id"]: tuple(_plain(row[name]) for name in "snlm") for row in rows}


def _plain(value: object) -> object:
    """Return the value without the new field, which is null everywhere."""
    if isinstance(value, dict):
        return {key: _plain(part) for key, part in value.items() if key != "c"}
    return [_plain(part) for part in value] if isinstance(value, list) else value


@pytest.mark.spark
def test_a_null_struct_stays_null_in_every_write_by_spark(do: Do, empty_table: DeltaTable) -> None:
    do(f"CREATE TABLE t ({_COLUMNS})")
    for shape, (kind, value) in _STRUCTS.items():
        evolves = " WITH SCHEMA EVOLUTION" if "new" in shape else ""
        for way in (*_WAYS, _REPLACED):
            if way != _REPLACED:
                do("DELETE FROM t")
            do(way.format(evolves=evolves, rows=_rows(kind, value)))
            assert _content(empty_table) == _KEPT, (shape, way)


def test_a_null_struct_stays_null_in_every_write_in_process(
    do_lightly: Do, empty_table: DeltaTable
) -> None:
    do_lightly(f"CREATE TABLE t ({_COLUMNS})")
    struct = pa.struct([("a", pa.int32()), ("b", pa.int32())])
    rows = pa.table(
        {
            "id": pa.array([1, 2], pa.int32()),
            "s": pa.array([None, _FULL], struct),
            "n": pa.array([{"i": None}, {"i": _FULL}], pa.struct([("i", struct)])),
            "l": pa.array([[None], [_FULL]], pa.list_(struct)),
            "m": pa.array([[("k", None)], [("k", _FULL)]], pa.map_(pa.string(), struct)),
        }
    )
    do_lightly(Append(ArrowSource(rows)))
    assert _content(empty_table) == _KEPT
    do_lightly("UPDATE t SET id = id + 2 - 2 WHERE id < 3")
    assert _content(empty_table) == _KEPT
