"""Tables written in this process, by the writers that Spark calls on its executors."""

from pathlib import Path

import msgspec
import pyarrow as pa

from engine.actions.files import tombstone
from engine.deletion_vectors.files import write_deletion_vector
from engine.snapshot.reader import read_file
from engine.spark.columns import to_spark_schema
from engine.spark.data_source import LakeDataSource

COLUMNS = "id BIGINT, p STRING, s STRUCT<x: INT>"


def lake_source(table, **options):
    return LakeDataSource({"path": table.uri, **options})


def batch(*rows, width=3):
    """Return rows as Spark passes them to a writer."""
    kinds = [pa.int64(), pa.string(), pa.struct([("x", pa.int32())]), pa.string()][:width]
    columns = zip(*(row + (None,) * (width - len(row)) for row in rows), strict=True)
    arrays = [pa.array(values, kind) for values, kind in zip(columns, kinds, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, names=["id", "p", "s", "more"][:width])


def append(table, *rows):
    """Append rows as a task of Spark does, without Spark."""
    schema = to_spark_schema(table.snapshot().schema)
    writer = lake_source(table).writer(schema, overwrite=False)
    writer.commit([writer.write(iter([batch(*rows, width=len(schema))]))])


def delete(table, doomed):
    """Delete the row with an id by a deletion vector."""
    txn = table.start_transaction()
    txn.read_where(f"id = {doomed}")
    for add in txn.snapshot.add_files():
        present = read_file(txn.snapshot, add, ["id"]).column("id").to_pylist()
        if doomed in present:
            assert add.deletion_vector is None
            vector = write_deletion_vector(table.store, [present.index(doomed)])
            masked = msgspec.structs.replace(add, deletion_vector=vector, data_change=True)
            txn.stage(tombstone(add), masked)
    return txn.commit("DELETE")


def ids(table):
    return sorted(table.snapshot().to_arrow().column("id").to_pylist())


def data_files(table):
    return sorted(path.name for path in Path(table.uri).rglob("*.parquet"))


def list_unlogged_files(table):
    """Return data files that no version names."""
    log = "".join(path.read_text() for path in Path(table.uri, "_delta_log").glob("*.json"))
    return [name for name in data_files(table) if name not in log]
