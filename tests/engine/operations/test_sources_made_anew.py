"""Clones of a table that was recreated with files of the same names."""

import json
import shutil

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from engine.actions.files import AddFile
from engine.operations.run import run
from engine.schema.types import STRING, StructField, StructType
from engine.storage.uri import open_store
from engine.table import DeltaTable


def _source(place, values, time_ms):
    shutil.rmtree(place, ignore_errors=True)
    schema = StructType((StructField("v", STRING),))
    table = DeltaTable.create(str(place), schema)
    file = place / "part-0.parquet"
    pq.write_table(pa.table({"v": values}), file, use_dictionary=False, compression="none")
    stats = {
        "numRecords": len(values),
        "minValues": {"v": min(values)},
        "maxValues": {"v": max(values)},
        "nullCount": {"v": 0},
    }
    add = AddFile(
        path=file.name,
        partition_values={},
        size=file.stat().st_size,
        modification_time=time_ms,
        data_change=True,
        stats=json.dumps(stats),
    )
    txn = table.start_transaction()
    txn.stage(add)
    txn.commit("CONVERT")


@pytest.mark.parametrize("kind", ["DEEP", "SHALLOW"])
def test_a_clone_brought_up_to_date_has_the_rows_of_the_new_files(tmp_path, kind):
    roots = [str(tmp_path)]
    changes = (
        (["a1", "b1", "c1"], ["x2", "y2", "z2"], 1),
        (["a", "b", "z"], ["a", "k", "z"], 1),
        (["a", "b", "z"], ["a", "k", "z"], 0),
        (["a", "b", "z"], ["longer text 1", "longer text 2", "longer text 3333"], 1),
    )
    for number, (first, second, later_ms) in enumerate(changes):
        source, target = tmp_path / "source", str(tmp_path / f"clone{number}")
        _source(source, first, 1_700_000_000_000)
        run(
            f"CREATE TABLE t {kind} CLONE delta.`{source}`",
            DeltaTable(open_store(target), allowed_roots=roots),
        )
        _source(source, second, 1_700_000_000_000 + later_ms)
        statement = f"CREATE OR REPLACE TABLE t {kind} CLONE delta.`{source}`"
        run(statement, DeltaTable.open(target, allowed_roots=roots))
        rows = DeltaTable.open(target, allowed_roots=roots).snapshot()
        assert rows.to_arrow().column("v").to_pylist() == second
        for value in second:
            assert rows.to_arrow(condition=f"v = '{value}'").num_rows == 1
        assert (
            run(statement, DeltaTable.open(target, allowed_roots=roots)).version is None
        )  # nothing is copied twice
