"""Tables for Iceberg clients, written without Spark: clients see the result of each commit."""

import logging
import os
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest

from engine.commands.model import Vacuum
from engine.commands.sql import parse_statement
from engine.deletion_vectors.files import write_deletion_vector
from engine.errors import InvalidPropertyError, RequestError
from engine.iceberg.conversion import KEPT_SNAPSHOTS, MetadataTree, convert
from engine.operations.run import run
from engine.operations.write_rows import removal, replace_vector
from engine.schema.types import (
    BOOLEAN,
    BYTE,
    DATE,
    DOUBLE,
    INTEGER,
    LONG,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    ArrayType,
    DecimalType,
    MapType,
    PrimitiveType,
    StructField,
    StructType,
)
from engine.spark.file_writer import write_files
from engine.spark.table_files import TableFiles
from engine.spark.write.writer import file_target
from engine.storage.uri import open_store
from engine.table import DeltaTable
from tests.engine.iceberg.readers import (
    duckdb_rows,
    pyiceberg_rows,
    read_with_all_clients,
    static_table,
)

PROPERTIES = {
    "delta.enableIcebergCompatV2": "true",
    "delta.universalFormat.enabledFormats": "iceberg",
}
PLAIN = StructType((StructField("id", LONG), StructField("p", STRING)))
INNER = StructType((StructField("x", INTEGER), StructField("l", ArrayType(STRING))))
EVERY = StructType(
    (
        StructField("id", LONG, nullable=False),
        StructField("name", STRING, metadata={"comment": "who"}),
        StructField("on", BOOLEAN),
        StructField("small", BYTE),
        StructField("real", DOUBLE),
        StructField("price", DecimalType(10, 2)),
        StructField("day", DATE),
        StructField("at", TIMESTAMP),
        StructField("wall", TIMESTAMP_NTZ),
        StructField("raw", PrimitiveType("binary")),
        StructField("tags", ArrayType(STRING)),
        StructField("inner", INNER),
        StructField("pairs", MapType(STRING, ArrayType(INTEGER))),
    )
)


def create(root, schema=PLAIN, partition_columns=(), **properties):
    return DeltaTable.create(
        str(root / "a table"), schema, partition_columns, properties=PROPERTIES | properties
    )


def append(table, *, remove=(), **columns):
    """Append rows as one file for each partition value; nested columns take the file's own types."""
    snapshot = table.snapshot()
    partitions = tuple(snapshot.partition_columns)
    files = TableFiles(table.uri, snapshot.schema, partitions, snapshot.properties)
    target = file_target(files)
    stored = [data_field.name for data_field in files.data_fields]
    kinds = {name: target.arrow_schema.field(i).type for i, name in enumerate(stored)}
    arrays = {name: pa.array(columns[name], kinds[name]) for name in stored}
    arrays |= {name: pa.array(columns[name]) for name in partitions}
    txn = table.start_transaction()
    adds = [add for add, _ in write_files([pa.RecordBatch.from_pydict(arrays)], target, 0)]
    txn.stage(*adds, *map(removal, remove))
    txn.commit("WRITE")
    return adds


def test_every_type_is_read_with_the_same_values_as_iceberg(tmp_path):
    table = create(tmp_path, EVERY)
    at = datetime(2026, 1, 2, 3, 4, 5, 123456, tzinfo=UTC)
    append(
        table,
        id=[1, 2],
        name=["é", None],
        on=[True, None],
        small=[-128, None],
        real=[1.5, None],
        price=[Decimal("1.50"), None],
        day=[date(1969, 12, 31), None],
        at=[at, None],
        wall=[at.replace(tzinfo=None), None],
        raw=[b"\x00\xff", None],
        tags=[["a", None], None],
        inner=[None, None],
        pairs=[[("k", [1, None])], None],
    )
    (first, second) = read_with_all_clients(table)
    assert first["wall"] == datetime(2026, 1, 2, 3, 4, 5, 123456)  # noqa: DTZ001 - without zone
    assert second["tags"] is None


def test_statistics_prune_and_never_lose_a_row(tmp_path):
    table = create(tmp_path, EVERY)
    empty = {name: [None] for name in EVERY.names}
    at = datetime(2026, 1, 2, 3, 4, 5, 999999, tzinfo=UTC)
    one = {"id": [1], "name": ["x" * 40], "price": [Decimal("1.50")], "day": [date(2026, 1, 1)]}
    append(table, **(empty | one | {"at": [at]}))
    append(table, **(empty | {"id": [2], "name": ["b"], "day": [date(2026, 1, 2)]}))
    conditions = (
        "id = 1",
        f"name = '{'x' * 40}'",
        "price = 1.50",
        "day = '2026-01-01'",
        f"at = '{at.isoformat()}'",
        "name is not null and at is not null",
    )
    for condition in conditions:
        scan = static_table(table.uri).scan(row_filter=condition)
        assert scan.to_arrow().column("id").to_pylist() == [1], condition
        assert len(list(scan.plan_files())) == 1, condition


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (STRING, ["a b/ü%", None]),
        (INTEGER, [-7, None]),
        (DATE, [date(2026, 1, 2), date(1969, 1, 1)]),
        (TIMESTAMP, [datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC), None]),
        (DecimalType(6, 3), [Decimal("-1.250"), None]),
        (BOOLEAN, [True, None]),
    ],
    ids=str,
)
def test_partition_values_are_in_the_files_and_in_the_manifests(tmp_path, kind, values):
    table = create(tmp_path, StructType((StructField("id", LONG), StructField("p", kind))), ["p"])
    adds = append(table, id=[1, 2], p=values)
    assert len(adds) == 2
    rows = read_with_all_clients(table)
    assert [row["p"] for row in rows] == values
    append(table, id=[3], p=[values[0]], remove=adds[:1])
    assert [row["id"] for row in read_with_all_clients(table)] == [2, 3]


def test_files_that_go_and_files_that_come_are_followed(tmp_path):
    table = create(tmp_path)
    first = append(table, id=[1, 2], p=["a", "b"])
    append(table, id=[3], p=["c"])
    append(table, id=[4], p=["d"], remove=first)
    assert [row["id"] for row in read_with_all_clients(table)] == [3, 4]
    metadata = static_table(table.uri).metadata
    assert metadata.properties["delta-version"] == str(table.version())
    assert [snapshot.summary["delta-version"] for snapshot in metadata.snapshots] == ["1", "2", "3"]
    assert str(metadata.table_uuid) == table.snapshot().metadata.id
    txn = table.start_transaction()
    txn.stage(*map(removal, table.snapshot().add_files()))
    txn.commit("DELETE")
    assert read_with_all_clients(table) == []


def test_readers_of_delta_read_the_same_table(tmp_path, rows_elsewhere):
    table = create(tmp_path)
    files = append(table, id=[1, 2], p=["a", "b"])
    append(table, id=[3], p=["c"], remove=files)
    rows = rows_elsewhere(table)
    assert rows["engine"] == rows["deltalake"] == rows["duckdb"] == [(3, "c")]
    assert [row["id"] for row in read_with_all_clients(table)] == [3]


def test_columns_added_renamed_and_dropped_are_followed(tmp_path):
    table = create(tmp_path, partition_columns=["p"])
    old = append(table, id=[1], p=["a"])
    for statement in (
        "ALTER TABLE t ADD COLUMNS (extra ARRAY<STRUCT<x: INT>>)",
        "ALTER TABLE t RENAME COLUMN p TO q",
        "ALTER TABLE t RENAME COLUMN id TO key",
    ):
        run(parse_statement(statement), table, None)
    append(table, key=[2], q=["b"], extra=[[]])
    append(table, key=[3], q=["a"], extra=[[]], remove=old)
    assert [row["q"] for row in read_with_all_clients(table, "key")] == ["b", "a"]
    run(parse_statement("ALTER TABLE t DROP COLUMN extra"), table, None)
    assert read_with_all_clients(table, "key")[0] == {"key": 2, "q": "b"}
    assert len(static_table(table.uri).metadata.schemas) > 2


def test_a_table_replaced_by_a_partitioned_one_starts_new_metadata(tmp_path):
    table = create(tmp_path)
    append(table, id=[1], p=["a"])
    identity = static_table(table.uri).metadata.table_uuid
    properties = ", ".join(f"'{key}' = '{value}'" for key, value in PROPERTIES.items())
    layout = f"PARTITIONED BY (q) TBLPROPERTIES ({properties})"
    statement = f"CREATE OR REPLACE TABLE t (key STRING, q DATE) {layout}"
    run(parse_statement(statement), table, None)
    assert read_with_all_clients(table, "key") == []
    append(table, key=["b"], q=[date(2026, 1, 1)])
    assert read_with_all_clients(table, "key") == [{"key": "b", "q": date(2026, 1, 1)}]
    assert static_table(table.uri).metadata.table_uuid == identity


def test_a_refresh_that_failed_is_caught_up_by_the_next_commit(tmp_path, caplog):
    table = create(tmp_path)
    files = append(table, id=[1], p=["a"])
    metadata = Path(table.uri, "metadata")
    metadata.rename(metadata.with_name("elsewhere"))
    metadata.write_text("in the way")
    with caplog.at_level(logging.WARNING):
        append(table, id=[2], p=["b"], remove=files)
    assert "The Iceberg metadata" in caplog.text
    assert table.version() == 2
    metadata.unlink()
    metadata.with_name("elsewhere").rename(metadata)
    append(table, id=[3], p=["c"])
    assert [row["id"] for row in read_with_all_clients(table)] == [2, 3]


def test_lost_metadata_is_created_again(tmp_path):
    table = create(tmp_path)
    append(table, id=[1], p=["a"])
    for file in Path(table.uri, "metadata").iterdir():
        file.unlink()
    append(table, id=[2], p=["b"])
    assert [row["id"] for row in read_with_all_clients(table)] == [1, 2]
    snapshot = table.snapshot()
    assert convert(snapshot.store, snapshot.state, 0) is None


def test_a_file_that_is_added_again_is_counted_once(tmp_path):
    table = create(tmp_path)
    (add,) = append(table, id=[1], p=["a"])
    txn = table.start_transaction()
    txn.read_whole_table()
    txn.stage(msgspec.structs.replace(add, data_change=False, modification_time=1))
    txn.commit("COMPUTE STATS")
    assert [row["id"] for row in read_with_all_clients(table)] == [1]


def test_old_snapshots_and_their_files_are_removed(tmp_path):
    table = create(tmp_path, **{"delta.deletedFileRetentionDuration": "interval 0 hours"})
    for number in range(KEPT_SNAPSHOTS + 12):
        append(table, id=[number], p=["x"])
        if number == KEPT_SNAPSHOTS + 5:
            for file in Path(table.uri, "metadata").iterdir():
                os.utime(file, (1, 1))
    iceberg_table = static_table(table.uri)
    assert len(iceberg_table.metadata.snapshots) <= KEPT_SNAPSHOTS + 1
    left = [file.name for file in Path(table.uri, "metadata").iterdir()]
    assert "v1.metadata.json" not in left
    assert len([name for name in left if name.endswith(".json")]) <= KEPT_SNAPSHOTS + 11
    assert len(pyiceberg_rows(table.uri)) == len(duckdb_rows(table.uri)) == KEPT_SNAPSHOTS + 12


def test_vacuum_spares_the_metadata(tmp_path):
    table = create(tmp_path)
    files = append(table, id=[1], p=["a"])
    append(table, id=[2], p=["b"], remove=files)
    before = {file.name for file in Path(table.uri, "metadata").iterdir()}
    run(Vacuum(retention_hours=0, override_retention=True), table, None)
    assert {file.name for file in Path(table.uri, "metadata").iterdir()} >= before
    assert [row["id"] for row in read_with_all_clients(table)] == [2]
    assert not Path(table.uri, files[0].path).exists()


def test_two_writers_leave_one_metadata(tmp_path):
    table = create(tmp_path)
    other = DeltaTable.open(table.uri)
    for number in range(6):
        append(table if number % 2 else other, id=[number], p=["x"])
    assert [row["id"] for row in read_with_all_clients(table)] == list(range(6))
    numbers = MetadataTree(open_store(table.uri)).numbers()
    assert numbers == list(range(1, len(numbers) + 1))


def test_a_table_in_memory_is_converted_through_its_own_store():
    table = DeltaTable.create("memory://iceberg/t", PLAIN, properties=PROPERTIES)
    append(table, id=[1], p=["a"])
    tree = MetadataTree(table.store)
    newest = tree.newest()
    assert newest is not None
    (file,) = tree.iter_data_files(newest.metadata)
    assert file.file_path.startswith("memory://iceberg/t/")
    assert file.record_count == 1


def test_tables_that_iceberg_cannot_read_are_refused(tmp_path):
    table = create(tmp_path)
    (add,) = append(table, id=[1, 2], p=["a", "b"])
    for statement in (
        "ALTER TABLE t SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')",
        "ALTER TABLE t SET TBLPROPERTIES ('delta.universalFormat.enabledFormats' = 'hudi')",
        "ALTER TABLE t SET TBLPROPERTIES ('delta.enableIcebergCompatV2' = 'false')",
    ):
        with pytest.raises(RequestError, match=r"Iceberg|hudi"):
            run(parse_statement(statement), table, None)
    txn = table.start_transaction()
    vector = write_deletion_vector(table.store, [0])
    txn.stage(removal(add), replace_vector(add, vector, str(add.stats)))
    with pytest.raises(RequestError):
        txn.commit("DELETE")
    txn = table.start_transaction()
    txn.stage(msgspec.structs.replace(add, path="x.parquet", stats=None))
    with pytest.raises(RequestError, match="row count"):
        txn.commit("WRITE")
    txn = table.start_transaction()
    metadata = table.snapshot().metadata
    bad = metadata.schema_string.replace('"type":"string"', '"type":"void"')
    txn.stage(msgspec.structs.replace(metadata, schema_string=bad))
    with pytest.raises(RequestError, match="no type void"):
        txn.commit("CHANGE COLUMN")


def test_a_partitioned_table_is_not_partitioned_by_another_column(tmp_path):
    table = create(tmp_path, partition_columns=["p"])
    statement = "CREATE OR REPLACE TABLE t (id BIGINT, p STRING) PARTITIONED BY (id) TBLPROPERTIES"
    properties = "('delta.enableIcebergCompatV2' = 'true')"
    with pytest.raises(RequestError, match="partition columns cannot change"):
        run(parse_statement(f"{statement} {properties}"), table, None)


def test_files_written_before_are_upgraded_by_reorg_alone(tmp_path):
    table = DeltaTable.create(str(tmp_path / "t"), PLAIN)
    append(table, id=[1], p=["a"])
    statement = "ALTER TABLE t SET TBLPROPERTIES ('delta.enableIcebergCompatV2' = 'true')"
    with pytest.raises(InvalidPropertyError) as caught:
        run(parse_statement(statement), table, None)
    assert "REORG TABLE" in caught.value.remedy
