"""Tables to be cloned, with rows written without Spark."""

import json
from pathlib import Path

import pyarrow as pa

from engine.actions.statistics import loosen_bounds
from engine.deletion_vectors.files import write_deletion_vector
from engine.operations.write_rows import removal, replace_vector
from engine.spark.file_writer import write_files
from engine.spark.table_files import TableFiles
from engine.spark.write.writer import file_target
from engine.storage.uri import open_store
from engine.table import DeltaTable

SCHEMA = (
    '{"type":"struct","fields":['
    '{"name":"id","type":"long","nullable":true,"metadata":{}},'
    '{"name":"p","type":"string","nullable":true,"metadata":{}}]}'
)


def source_table(tmp_path):
    """Return a table: versions 1 and 2 add a file each, version 3 deletes row 1 by a vector in a file."""
    table = DeltaTable.create(str(tmp_path / "a source"), SCHEMA, properties={"team": "sales"})
    append(table, [1, 2])
    append(table, [3])
    delete_first_row(table)
    return table


def handle(tmp_path, name):
    return DeltaTable(open_store(str(tmp_path / name)), allowed_roots=[str(tmp_path)])


def append(table, ids):
    snapshot = table.snapshot()
    files = TableFiles(
        table.uri, snapshot.schema, tuple(snapshot.partition_columns), snapshot.properties
    )
    batch = pa.RecordBatch.from_pydict({"id": ids, "p": [f"p{id_}" for id_ in ids]})
    txn = table.start_transaction()
    txn.stage(*[add for add, _ in write_files([batch], file_target(files), 0)])
    return txn.commit("WRITE")


def delete_first_row(table):
    (add,) = [
        add_file
        for add_file in table.snapshot().add_files()
        if json.loads(add_file.stats)["numRecords"] > 1
    ]
    vector = write_deletion_vector(table.store, [0], inline_below_bytes=0, prefix_length=2)
    txn = table.start_transaction()
    txn.stage(removal(add), replace_vector(add, vector, loosen_bounds(add.stats, 2)))
    txn.commit("DELETE")


def ids(table, **at):
    return sorted(table.snapshot(**at).to_arrow().column("id").to_pylist())


def files(table):
    return {str(path) for path in Path(table.uri).rglob("*") if path.is_file()}
