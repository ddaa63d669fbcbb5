"""Tables for tests of the PySpark API, created through it in fresh directories."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import _parse_datatype_string

import engine.table
from engine.delta import enable
from engine.delta.tables import DeltaTable
from engine.operations.run import run
from engine.transaction.observer import ObservedTransaction, TransactionObserver

Rows = list[tuple[Any, ...]]
Make = Callable[..., DeltaTable]
LETTERS: Rows = [("a", 1), ("b", 2), ("c", 3), ("d", 4)]


class Meanwhile(TransactionObserver):
    """An action that runs once, after everything is staged."""

    def __init__(self, act: Callable[[], object]) -> None:
        self._act = act

    def staged(self, txn: ObservedTransaction) -> None:  # noqa: ARG002
        act, self._act = self._act, lambda: None
        act()


@pytest.fixture
def make(spark: SparkSession, tmp_path: Path) -> Make:
    """Return `make(rows, schema)`, which creates a table of one file."""
    made: list[Path] = []

    def table(
        rows: Rows = LETTERS, schema: str = "key string, value bigint", **options: str
    ) -> DeltaTable:
        place = tmp_path / f"table {len(made)}"
        made.append(place)
        builder = DeltaTable.create(spark).location(str(place))
        for key, value in options.items():
            builder.property(f"delta.{key}", value)
        merged = builder.addColumns(_parse_datatype_string(schema)).execute()
        if rows:
            names = [field.name for field in _parse_datatype_string(schema)]
            source = [dict(zip(names, row, strict=True)) for row in rows]
            handle = engine.table.DeltaTable.open(str(place))
            run("INSERT INTO t BY NAME SELECT * FROM s", handle, sources={"s": source})
        return merged

    return table


@pytest.fixture(scope="module")
def lake(spark: SparkSession) -> Iterator[SparkSession]:
    """Yield a separate enabled session, in a database of its own."""
    session = spark.newSession()
    session.sql("CREATE DATABASE shop")
    session.sql("USE shop")
    yield enable(session)
    session.sql("USE default")
    session.sql("DROP DATABASE shop CASCADE")


def rows_of(frame: DataFrame) -> Rows:
    """Return the rows in order."""
    return sorted((tuple(row) for row in frame.collect()), key=repr)
