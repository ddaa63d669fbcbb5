"""Statements that spell a partition column otherwise than the schema: the log has the schema's spelling."""

import json
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from engine.commands.model import Append, Clone, Create, DataFrameSource, FileSource, Overwrite
from engine.commands.sql import parse_statement
from engine.operations.run import run
from engine.schema.types import LONG, STRING, StructField, StructType
from engine.storage.uri import open_store
from engine.table import DeltaTable

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]


@pytest.fixture
def rows(tmp_path):
    """A source whose columns are in capitals."""
    pq.write_table(pa.table({"ID": [1, 2], "P": ["a", "b"]}), tmp_path / "rows.parquet")
    return FileSource(str(tmp_path / "rows.parquet"), "parquet")


def _read_spelling(table):
    """The partition columns, the keys of every file's values, and the rows."""
    snapshot = table.snapshot()
    keys = {name for add in snapshot.add_files() for name in add.partition_values}
    held = sorted(map(tuple, (row.values() for row in snapshot.to_arrow().to_pylist())))
    return list(snapshot.partition_columns), keys, held


def test_every_statement_writes_the_spelling_of_the_schema(spark, tmp_path, rows):
    def do(command, table):
        return run(parse_statement(command) if isinstance(command, str) else command, table, spark)

    table = DeltaTable(open_store(str(tmp_path / "t")))
    do("CREATE TABLE t (id BIGINT, p STRING) PARTITIONED BY (P)", table)
    do(Append(source=rows), table)
    assert _read_spelling(table) == (["p"], {"p"}, [(1, "a"), (2, "b")])
    do("INSERT INTO t (P, ID) VALUES ('c', 3)", table)
    do("UPDATE t SET ID = ID + 10 WHERE P = 'a'", table)
    do(Overwrite(source=rows, dynamic_partitions=True), table)
    do("DELETE FROM t WHERE P = 'b'", table)
    assert _read_spelling(table) == (["p"], {"p"}, [(1, "a"), (3, "c")])
    clone = DeltaTable(open_store(str(tmp_path / "clone")), allowed_roots=[str(tmp_path)])
    do(Clone(source_table=table.uri), clone)
    assert _read_spelling(clone)[0] == ["p"]
    do(Create(source=rows, partition_columns=("p",), replace=True), table)
    assert _read_spelling(table) == (["P"], {"P"}, [(1, "a"), (2, "b")])


def test_a_partition_column_renamed_in_case_alone_is_still_read(spark, tmp_path, rows):
    table = DeltaTable(open_store(str(tmp_path / "t")))
    run(parse_statement("CREATE TABLE t (id BIGINT, p STRING) PARTITIONED BY (p)"), table, spark)
    run(Append(source=rows), table, spark)
    for statement in (
        "ALTER TABLE t SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')",
        "ALTER TABLE t RENAME COLUMN P TO P",
        "INSERT INTO t VALUES (3, 'c')",
    ):
        run(parse_statement(statement), table, spark)
    columns, keys, held = _read_spelling(table)
    assert columns == [table.snapshot().schema.fields[1].name]
    assert keys == {"p"}
    assert held == [(1, "a"), (2, "b"), (3, "c")]
    metadata = json.loads(table.snapshot().metadata.schema_string)
    assert metadata["fields"][1]["name"] == columns[0]


@pytest.mark.parametrize("name", ["a.b", "a`b"])
def test_a_partition_column_may_have_dots_and_backticks(spark, tmp_path, name):
    written = "`" + name.replace("`", "``") + "`"
    table = DeltaTable(open_store(str(tmp_path / "t")))
    schema = StructType((StructField("id", LONG), StructField(name, STRING)))
    properties = {"delta.columnMapping.mode": "name"}
    as_named = Create(schema=schema, partition_columns=(name,), properties=properties)
    as_written = replace(as_named, partition_columns=(written,), replace=True)
    run(as_named, table, spark)
    run(as_written, table, spark)
    assert table.snapshot().partition_columns == [name]
    frame = spark.createDataFrame([(1, "x"), (2, None)], f"id long, {written} string")
    run(Append(source=DataFrameSource(frame)), table, spark)
    assert sorted(
        map(tuple, (row.values() for row in table.snapshot().to_arrow().to_pylist()))
    ) == [
        (1, "x"),
        (2, None),
    ]
