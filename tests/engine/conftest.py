"""What the engine's tests share: one SparkSession, tables in fresh directories, other readers."""

import logging
from collections.abc import Callable, Iterator
from pathlib import Path

import duckdb
import duckdb_extension_delta
import pyarrow as pa
import pytest
from deltalake import DeltaTable as OtherTable
from deltalake import QueryBuilder
from pyspark.sql import SparkSession

from engine.spark.session import build_session
from engine.storage.uri import open_store
from engine.table import DeltaTable


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """One session for all tests: two cores, few partitions."""
    logging.getLogger("py4j").setLevel(logging.WARNING)  # it speaks after the streams are closed
    scratch = tmp_path_factory.mktemp("spark")
    session = build_session(
        "tests",
        master="local[2]",
        settings={"spark.sql.shuffle.partitions": "2", "spark.local.dir": str(scratch)},
    )
    yield session
    session.stop()


@pytest.fixture
def empty_table(tmp_path: Path) -> DeltaTable:
    """A handle on a place where there is no table yet; its path has a space."""
    return DeltaTable(open_store(str(tmp_path / "a table")))


@pytest.fixture(scope="session")
def rows_elsewhere() -> Callable[[DeltaTable], dict[str, list[tuple[object, ...]]]]:
    """The rows of a table as the engine, deltalake and duckdb read them, each sorted."""

    def read(table: DeltaTable) -> dict[str, list[tuple[object, ...]]]:
        return {
            "engine": _sorted(table.snapshot().to_arrow().to_pylist()),
            "deltalake": _sorted(_deltalake_rows(table.uri)),
            "duckdb": _sorted(_duckdb_rows(table.uri)),
        }

    return read


def _sorted(rows: list[dict[str, object]]) -> list[tuple[object, ...]]:
    return sorted((tuple(row.values()) for row in rows), key=repr)


def _deltalake_rows(uri: str) -> list[dict[str, object]]:
    found = QueryBuilder().register("t", OtherTable(uri)).execute("SELECT * FROM t").read_all()
    return pa.table(found).to_pylist()


def _duckdb_rows(uri: str) -> list[dict[str, object]]:
    root = Path(duckdb_extension_delta.__file__).parent
    extension = next(root.glob("extensions/*/delta.duckdb_extension"))
    with duckdb.connect(config={"allow_unsigned_extensions": "true"}) as connection:
        connection.execute(f"LOAD '{extension}'")
        found = connection.execute("SELECT * FROM delta_scan(?)", [uri])
        names = [column[0] for column in found.description or []]
        return [dict(zip(names, row, strict=True)) for row in found.fetchall()]
