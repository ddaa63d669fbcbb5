"""The text of a command is valid Spark SQL wherever Spark has a syntax for it."""

import pytest
from pyspark.sql import SparkSession

from engine.commands.merge import (
    BY_SOURCE,
    DELETE,
    INSERT_ALL,
    MATCHED,
    NOT_MATCHED,
    Merge,
    MergeClause,
)
from engine.commands.sources import RowsSource, TableSource
from engine.commands.sql import parse_statement
from tests.engine.commands.statements import UNDERSTOOD

_OF_DELTA = {
    "optimize",
    "vacuum",
    "reorg",
    "restore",
    "clone",
    "alter_drop_feature",
    "script",
    "transaction",
}
_SAID = [
    command.statement()
    for command in (parse_statement(text) for text, kind, _ in UNDERSTOOD if kind not in _OF_DELTA)
]
_SPARKS = [text for text in dict.fromkeys(_SAID) if " WITH ('" not in text]


def test_spark_parses_the_text_of_commands(spark: SparkSession):
    parser = spark._jsparkSession.sessionState().sqlParser()
    assert sum(text.startswith("MERGE") for text in _SPARKS) >= 8
    for text in _SPARKS:
        assert parser.parsePlan(text) is not None, text


def test_clauses_must_be_in_the_order_that_spark_requires():
    clauses = (
        MergeClause(BY_SOURCE, DELETE),
        MergeClause(NOT_MATCHED, INSERT_ALL),
        MergeClause(MATCHED, DELETE, "s.id > 1"),
        MergeClause(MATCHED, DELETE, "s.id < 1"),
    )
    command = Merge(TableSource("s"), "t.id = s.id", clauses, "t", "s", table="t")
    assert command.statement().endswith(
        "WHEN MATCHED AND s.id > 1 THEN DELETE WHEN MATCHED AND s.id < 1 THEN DELETE "
        "WHEN NOT MATCHED THEN INSERT * WHEN NOT MATCHED BY SOURCE THEN DELETE"
    )


@pytest.mark.parametrize("name", ["id", "a b", "where", "a`b", "a.b"])
def test_columns_of_any_name_come_back(name: str):
    column = f"`{name.replace('`', '``')}`"
    source = RowsSource((column,), (("1",), ("2",)))
    command = Merge(source, "TRUE", (MergeClause(MATCHED, DELETE),), "target", "source", table="t")
    read = parse_statement(command.statement())
    assert isinstance(read, Merge)
    assert isinstance(read.source, RowsSource)
    assert read.source.rows == source.rows
    assert [c.strip("`") for c in read.source.columns] == [column.strip("`")]
