"""The same table in the eyes of deltalake and duckdb."""

import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import duckdb
import duckdb_extension_delta
import pyarrow as pa
from deltalake import DeltaTable as OtherTable
from deltalake import QueryBuilder

from engine.snapshot.snapshot import Snapshot
from engine.storage.base import Store
from engine.storage.uri import local_path
from tests.stateful.commands import State

MEMORY = Path("/dev/shm")  # noqa: S108 - where there is one, files there cost no disk


def check_elsewhere(snapshot: Snapshot, state: State, *, by_duckdb: bool = True) -> None:
    """Raise AssertionError unless both read the rows that the engine reads."""
    expected = _sorted(
        (key, *row[: 3 + (state.extra is not None)]) for key, row in state.rows.items()
    )
    mapped_partitions = snapshot.partition_columns and snapshot.mapping_mode != "none"
    with _on_disk(snapshot) as place:
        found = _sorted(_deltalake_rows(place))
        assert found == expected, f"deltalake reads {found}, the engine {expected}"
        if by_duckdb and not mapped_partitions:  # it reads those as null
            found = _sorted(_duckdb_rows(place))
            assert found == expected, f"duckdb reads {found}, the engine {expected}"


@contextmanager
def _on_disk(snapshot: Snapshot) -> Iterator[str]:
    """The table's place; one in memory is copied."""
    at = local_path(snapshot.table_uri)
    if at is not None:
        yield str(at)
        return
    place = Path(tempfile.mkdtemp(dir=MEMORY if MEMORY.is_dir() else None))
    try:
        _copy(snapshot.store, place)
        yield str(place)
    finally:
        shutil.rmtree(place)


def _copy(store: Store, place: Path) -> None:
    (place / "_delta_log").mkdir()
    for each in store.list_all():
        (place / each.path).write_bytes(store.read(each.path))


def _sorted(rows: Iterable[tuple[object, ...]]) -> list[tuple[object, ...]]:
    return sorted(rows, key=repr)


def _deltalake_rows(place: str) -> list[tuple[object, ...]]:
    found = QueryBuilder().register("t", OtherTable(place)).execute("SELECT * FROM t").read_all()
    return [tuple(row.values()) for row in pa.table(found).to_pylist()]


@cache
def _duckdb() -> duckdb.DuckDBPyConnection:
    root = Path(duckdb_extension_delta.__file__).parent
    extension = next(root.glob("extensions/*/delta.duckdb_extension"))
    connection = duckdb.connect(config={"allow_unsigned_extensions": "true", "threads": "1"})
    connection.execute(f"LOAD '{extension}'")
    return connection


def _duckdb_rows(place: str) -> list[tuple[object, ...]]:
    return _duckdb().execute("SELECT * FROM delta_scan(?)", [place]).fetchall()
