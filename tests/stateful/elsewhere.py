"""The same table as deltalake and duckdb read it."""

import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC
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
from tests.stateful.arrow_files import FIXED
from tests.stateful.commands import State
from tests.stateful.typed_values import NAME as TYPED
from tests.stateful.typed_values import type_of

MEMORY = Path("/dev/shm")  # noqa: S108 - where there is one, files there cost no disk


def check_elsewhere(snapshot: Snapshot, state: State, *, by_duckdb: bool = True) -> None:
    """Raise AssertionError unless both read the rows that the engine reads."""
    typed = type_of(snapshot.schema)
    names = [*FIXED, *([state.extra] if state.extra else []), *([TYPED] if typed else [])]
    expected = _sort_rows(
        (key, *row[: 3 + (state.extra is not None)], *([typed.value(row[1], key)] if typed else []))
        for key, row in state.rows.items()
    )
    mapped_partitions = snapshot.partition_columns and snapshot.mapping_mode != "none"
    with _copy_to_disk(snapshot) as place:
        rows = _sort_rows(_rows_of(_deltalake_rows(place, names)))
        assert rows == expected, f"deltalake reads {rows}, the engine {expected}"
        if by_duckdb and not mapped_partitions:  # it reads those as null
            rows = _sort_rows(_rows_of(_duckdb_rows(place, names)))
            assert rows == expected, f"duckdb reads {rows}, the engine {expected}"


@contextmanager
def _copy_to_disk(snapshot: Snapshot) -> Iterator[str]:
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
    for status in store.list_all():
        target = place / status.path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(store.read(status.path))


def _sort_rows(rows: Iterable[tuple[object, ...]]) -> list[str]:
    return sorted(map(repr, rows))


def _rows_of(rows: pa.Table) -> Iterator[tuple[object, ...]]:
    """Yield rows as tuples, with times in UTC."""
    moments = [f.name for f in rows.schema if pa.types.is_timestamp(f.type)]
    for row in rows.to_pylist():
        for name in moments:
            row[name] = row[name] and row[name].astimezone(UTC)
        yield tuple(row.values())


def _deltalake_rows(place: str, names: Iterable[str]) -> pa.Table:
    query = f"SELECT {', '.join(names)} FROM t"  # noqa: S608 - the columns of a test
    return pa.table(QueryBuilder().register("t", OtherTable(place)).execute(query).read_all())


@cache
def _duckdb() -> duckdb.DuckDBPyConnection:
    root = Path(duckdb_extension_delta.__file__).parent
    extension = next(root.glob("extensions/*/delta.duckdb_extension"))
    connection = duckdb.connect(config={"allow_unsigned_extensions": "true", "threads": "1"})
    connection.execute(f"LOAD '{extension}'")
    return connection


def _duckdb_rows(place: str, names: Iterable[str]) -> pa.Table:
    query = f"SELECT {', '.join(names)} FROM delta_scan(?)"  # noqa: S608 - the columns of a test
    return _duckdb().execute(query, [place]).to_arrow_table()
