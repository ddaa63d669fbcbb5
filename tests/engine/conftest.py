"""Shared fixtures of the engine's tests: one SparkSession, tables in fresh directories, other readers."""

import logging
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from engine.spark.session import build_session
from engine.storage.uri import open_store
from engine.table import DeltaTable
from tests.engine.other_engines import deltalake_rows, duckdb_rows


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Yield one session for all tests, with two cores and few partitions."""
    logging.getLogger("py4j").setLevel(logging.WARNING)  # it speaks after the streams are closed
    scratch = tmp_path_factory.mktemp("spark")
    session = build_session(
        "tests",
        master="local[2]",
        settings={
            "spark.sql.shuffle.partitions": "2",
            "spark.local.dir": str(scratch),
            "spark.driver.extraJavaOptions": "-Xms1200m -Xmn600m",  # the JVM starts with a sixth of that
        },
    )
    yield session
    session.stop()


@pytest.fixture
def empty_table(tmp_path: Path) -> DeltaTable:
    """Return a handle on a location without a table; its path has a space."""
    return DeltaTable(open_store(str(tmp_path / "a table")))


@pytest.fixture(scope="session")
def rows_elsewhere() -> Callable[[DeltaTable], dict[str, list[tuple[object, ...]]]]:
    """Return the rows of a table as the engine, deltalake and duckdb read them, each sorted."""

    def read(table: DeltaTable) -> dict[str, list[tuple[object, ...]]]:
        return {
            "engine": _sort_rows(table.snapshot().to_arrow().to_pylist()),
            "deltalake": _sort_rows(deltalake_rows(table.uri)),
            "duckdb": _sort_rows(duckdb_rows(table.uri)),
        }

    return read


def _sort_rows(rows: list[dict[str, object]]) -> list[tuple[object, ...]]:
    return sorted((tuple(row.values()) for row in rows), key=repr)
