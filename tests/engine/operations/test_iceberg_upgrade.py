"""REORG … APPLY (UPGRADE UNIFORM …): the resulting table, and the rules for its later writers."""

import json

import pyarrow.parquet as pq
import pytest

from engine.commands.model import Append, FileSource, Reorg
from engine.errors import ProtocolChangedException, RequestError
from engine.protocol.iceberg_compat import is_iceberg
from engine.storage.uri import resolve_log_path
from engine.table import DeltaTable
from engine.transaction.observer import TransactionObserver
from tests.engine.iceberg.readers import read_with_all_clients
from tests.engine.made_tables import add, stage

UPGRADE = "REORG TABLE t APPLY (UPGRADE UNIFORM (ICEBERG_COMPAT_VERSION = 2))"


@pytest.mark.spark
@pytest.mark.timeout(240)
def test_an_upgraded_table_is_read_and_written_as_before(do, empty_table, tmp_path):
    do(
        "CREATE TABLE t (id BIGINT, p STRING, l ARRAY<INT>, at TIMESTAMP) PARTITIONED BY (p)"
        " TBLPROPERTIES (delta.enableDeletionVectors = true, delta.enableRowTracking = true)"
    )
    do(Append(FileSource(str(_rows(tmp_path)), "json")))
    do("DELETE FROM t WHERE id = 2")
    before = empty_table.snapshot()
    assert any(add_file.deletion_vector for add_file in before.add_files())
    rows = before.to_arrow().to_pylist()
    assert do(UPGRADE, dry_run=True).plan.file_count == 3

    result = do(UPGRADE)
    assert [commit.operation for commit in reversed(empty_table.history(3))] == [
        "REORG TABLE UPGRADE UNIFORM",
        "REORG",
        "SET TBLPROPERTIES",
    ]
    assert len(result.versions) == 3
    after = empty_table.snapshot()
    assert is_iceberg(after.properties)
    assert not after.properties.enable_deletion_vectors
    assert {"icebergCompatV2", "columnMapping"} <= set(after.protocol.writer_features)
    assert read_with_all_clients(empty_table) == sorted(rows, key=lambda row: row["id"])
    assert min(add_file.base_row_id for add_file in after.add_files()) >= 4
    for add_file in after.add_files():
        assert add_file.tags == {"ICEBERG_COMPAT_VERSION": "2"}
        assert add_file.deletion_vector is None
        assert json.loads(add_file.stats)["numRecords"] == 1
    _check_file(empty_table, after.add_files()[0])
    assert do(UPGRADE).version is None

    do("DELETE FROM t WHERE id = 1")
    do("UPDATE t SET p = 'c' WHERE id = 3")
    do("OPTIMIZE t")
    similar = read_with_all_clients(empty_table)
    assert [(row["id"], row["p"], row["l"]) for row in similar] == [(3, "c", []), (4, None, [4])]
    assert all(file.tags == {"ICEBERG_COMPAT_VERSION": "2"} for file in _live(empty_table))
    assert not any(file.deletion_vector for file in _live(empty_table))


def _rows(directory):
    rows = (
        {"id": 1, "p": "a", "l": [1], "at": "2026-01-02T03:04:05.678901Z"},
        {"id": 2, "p": "a", "l": [2, None]},
        {"id": 3, "p": "b", "l": []},
        {"id": 4, "l": [4]},
    )
    place = directory / "rows.json"
    place.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return place


def _live(table):
    return table.snapshot().add_files()


def _check_file(table, file):
    """Check ids on every column and element, the partition column last, and timestamps of 64 bits."""
    with table.store.open_input(resolve_log_path(table.uri, file.path).path) as source:
        parquet = pq.ParquetFile(source)
    names = parquet.schema_arrow.names
    assert names[-1] == "p"
    leaves = [parquet.schema.column(i) for i in range(len(parquet.schema))]
    assert "INT96" not in {leaf.physical_type for leaf in leaves}
    assert all(b"PARQUET:field_id" in column.metadata for column in parquet.schema_arrow)
    assert b"PARQUET:field_id" in parquet.schema_arrow.field("l").type.value_field.metadata


def test_an_unknown_version_is_refused_by_name(do_lightly, empty_table):
    do_lightly("CREATE TABLE t (id BIGINT)")
    for version in (1, 3):
        with pytest.raises(RequestError, match=f"version {version}") as caught:
            do_lightly(Reorg(upgrade_uniform=version))
        assert caught.value.field == "upgrade_uniform"
    assert empty_table.version() == 0


def test_types_and_changes_that_iceberg_lacks_are_refused_before_anything_is_done(
    do_lightly, empty_table
):
    do_lightly("CREATE TABLE t (id INT, day DATE) TBLPROPERTIES (delta.enableTypeWidening = true)")
    do_lightly("ALTER TABLE t ALTER COLUMN day TYPE TIMESTAMP_NTZ")
    with pytest.raises(RequestError, match="widened from date to timestamp_ntz"):
        do_lightly(UPGRADE)
    assert empty_table.version() == 1


def test_an_empty_table_is_upgraded_without_spark(do_lightly, empty_table):
    do_lightly("CREATE TABLE t (id BIGINT, m MAP<STRING, INT>)")
    assert do_lightly(UPGRADE).versions == (1, 2)
    assert read_with_all_clients(empty_table) == []
    assert do_lightly(UPGRADE).message == "Iceberg clients can already read the table."


def test_an_interrupted_upgrade_is_resumed(do_lightly, empty_table):
    class Stopped(Exception):  # noqa: N818 - what a test raises
        pass

    class Stop(TransactionObserver):
        def before_commit(self, txn, attempt_version):  # noqa: ARG002
            if attempt_version == 2:
                raise Stopped

    do_lightly("CREATE TABLE t (id BIGINT)")
    with pytest.raises(Stopped):
        do_lightly(UPGRADE, observer=Stop())
    assert empty_table.version() == 1
    do_lightly(UPGRADE)
    assert is_iceberg(empty_table.snapshot().properties)
    assert read_with_all_clients(empty_table) == []


def test_a_writer_that_began_before_the_upgrade_loses(do_lightly, empty_table):
    do_lightly("CREATE TABLE t (id BIGINT)")
    txn = DeltaTable.open(empty_table.uri).start_transaction()
    do_lightly(UPGRADE)
    stage(txn, add("x.parquet", stats='{"numRecords": 1}'))
    with pytest.raises(ProtocolChangedException):
        txn.commit("WRITE")
