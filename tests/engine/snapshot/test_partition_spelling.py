"""Partition columns that the log spells differently than the schema are refused, never read as null."""

import uuid

import pytest

from engine.commands.sql import parse_statement
from engine.errors import EngineError, MalformedLogError, RequestError
from engine.operations.run import run
from engine.schema.types import LONG, StructField, StructType
from engine.snapshot.change_feed import read_changes
from engine.snapshot.snapshot import load_snapshot
from engine.storage.base import Store
from engine.storage.memory import MemoryStore
from engine.table import DeltaTable
from tests.engine.made_tables import add, metadata, write_commit, write_first, write_rows

SCHEMA = StructType((StructField("id", LONG), StructField("p", LONG)))


def create_store(partition_column: str, key: str) -> Store:
    store = MemoryStore(f"memory://{uuid.uuid4()}")
    write_first(store, SCHEMA, partition_columns=[partition_column])
    rows = write_rows(store, "f.parquet", {"id": [1]}, partition_values={key: "5"})
    write_commit(store, 1, rows)
    return store


@pytest.mark.parametrize("key", ["p", "P"])
def test_a_partition_column_in_another_case_is_refused_by_name(key: str):
    with pytest.raises(
        MalformedLogError, match="partition column P is spelled p in the table's schema"
    ):
        load_snapshot(create_store("P", key))


READS = {
    "all rows": lambda snapshot: snapshot.to_arrow(),
    "one partition": lambda snapshot: snapshot.to_arrow(condition="p = 5"),
    "another partition": lambda snapshot: snapshot.to_arrow(condition="p = 6"),
    "files": lambda snapshot: snapshot.files("p IS NULL"),
}


@pytest.mark.parametrize("read", list(READS))
def test_a_partition_value_under_another_case_is_refused_where_it_is_read(read: str):
    snapshot = load_snapshot(create_store("p", "P"))
    assert snapshot.to_arrow(columns=["id"]).num_rows == 1
    with pytest.raises(
        MalformedLogError, match="partition value for P, but the table's partition column is p"
    ):
        READS[read](snapshot)


def test_metadata_with_a_misspelled_partition_column_is_refused():
    table = DeltaTable.open(create_store("p", "p").root)
    txn = table.start_transaction()
    txn.stage(metadata(SCHEMA, partition_columns=["P"]))
    with pytest.raises(RequestError, match="spelled p"):
        txn.commit("SET TBLPROPERTIES")
    assert table.version() == 1


def test_a_winner_that_spells_a_partition_differently_is_not_another_partition():
    table = DeltaTable.open(create_store("p", "p").root)
    txn = table.start_transaction()
    txn.read_where("p = 7")
    write_commit(table.store, 2, add("g.parquet", {"P": "7"}, stats='{"numRecords":1}'))
    txn.stage(add("h.parquet", {"p": "8"}, stats='{"numRecords":1}'))
    with pytest.raises(EngineError):
        txn.commit("WRITE")


@pytest.mark.parametrize("column", ["p", "P"])
def test_a_new_table_spells_its_partition_columns_as_its_schema_does(tmp_path, column: str):
    table = DeltaTable.create(str(tmp_path / "t"), SCHEMA, partition_columns=[column])
    assert list(table.snapshot().partition_columns) == ["p"]
    replaced = parse_statement(
        f"CREATE OR REPLACE TABLE t (id BIGINT, p BIGINT) PARTITIONED BY ({column.upper()})"
    )
    run(replaced, table, None)
    assert list(table.snapshot().metadata.partition_columns) == ["p"]


def test_the_change_feed_refuses_partition_values_spelled_otherwise():
    store = create_store("p", "P")
    write_commit(store, 2, metadata(SCHEMA, partition_columns=["p"], configuration={
        "delta.enableChangeDataFeed": "true"}))  # fmt: skip
    rows = write_rows(store, "g.parquet", {"id": [2]}, partition_values={"P": "6"})
    write_commit(store, 3, rows)
    with pytest.raises(MalformedLogError, match="partition value for P"):
        read_changes(DeltaTable.open(store.root), 3, 3)
