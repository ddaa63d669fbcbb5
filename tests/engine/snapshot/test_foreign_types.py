"""Tables with columns of types that only other engines have: shown, and refused by name."""

import json
import re
import uuid
from typing import Any

import pytest
from pyspark.sql import SparkSession

from engine.actions.table import Protocol
from engine.commands.sql import parse_statement
from engine.errors import InvalidSchemaError, MalformedLogError
from engine.operations.run import run
from engine.operations.run_options import RunOptions
from engine.schema.arrow import UnsupportedTypeError, to_arrow_type
from engine.schema.types import PrimitiveType, parse_schema
from engine.snapshot.new_table import first_actions
from engine.spark.columns import to_spark_type
from engine.spark.table_files import TableFiles
from engine.storage.base import Store
from engine.storage.local import LocalStore
from engine.storage.memory import MemoryStore
from engine.table import DeltaTable
from tests.engine.made_tables import metadata, write_commit, write_first, write_rows

_USER_TYPE = {
    "type": "udt",
    "class": "org.apache.spark.ml.linalg.VectorUDT",
    "pyClass": "pyspark.ml.linalg.VectorUDT",
    "sqlType": {"type": "struct", "fields": []},
}
_TYPES = {
    "time(6)": "time(6)",
    "time": "time",
    "geometry(4326)": "geometry(4326)",
    "geography(OGC:CRS84, spherical)": "geography(OGC:CRS84, spherical)",
    "interval": "interval",
    "interval year to month": "interval year to month",
    "interval day to second": "interval day to second",
    "udt VectorUDT": _USER_TYPE,
    "timestamp_ltz": "timestamp_ltz",
    "timestamp_ns(9)": "timestamp_ns(9)",
    "vector<float, 3>": "vector<float, 3>",
    "tensor": {"type": "tensor", "elementType": "float", "shape": [2, 3]},
}
_STATEMENTS = (
    "DELETE FROM t WHERE id = 1",
    "UPDATE t SET id = 5",
    "INSERT INTO t (id) VALUES (3)",
    "ALTER TABLE t ADD COLUMN more INT",
)


def _schema(kind: Any) -> str:
    columns = (("id", "long"), ("other", kind))
    fields = [{"name": n, "type": t, "nullable": True, "metadata": {}} for n, t in columns]
    return json.dumps({"type": "struct", "fields": fields})


def _nest_type(kind: Any) -> list[Any]:
    inside = json.loads(_schema(kind))
    array = {"type": "array", "elementType": inside, "containsNull": True}
    mapped = {"type": "map", "keyType": "string", "valueType": array, "valueContainsNull": True}
    return [kind, inside, array, mapped]


def _create_table(store: Store, kind: Any) -> DeltaTable:
    """Create a table whose version 1 holds the ids 1 and 2."""
    write_first(store)
    described = type(metadata())(id="x", schema_string=_schema(kind))
    write_commit(store, 1, described, write_rows(store, "f.parquet", {"id": [1, 2]}))
    return DeltaTable(store)


def test_a_table_with_a_foreign_type_is_shown_and_its_other_columns_are_read():
    for name, kind in _TYPES.items():
        for form in _nest_type(kind):
            table = _create_table(MemoryStore(f"memory://foreign/{uuid.uuid4()}"), form)
            snapshot = table.snapshot()
            assert json.loads(snapshot.schema.to_json()) == json.loads(_schema(form)), name
            assert [commit.version for commit in table.history()] == [1, 0]
            assert snapshot.to_arrow(["id"]).column("id").to_pylist() == [1, 2]
            assert snapshot.to_arrow(["id"], "id > 1").num_rows == 1


def test_a_table_with_the_feature_of_geometries_is_read_and_not_written():
    for feature in ("geospatial", "geospatial-dev"):
        store = MemoryStore(f"memory://foreign/{uuid.uuid4()}")
        table = _create_table(store, "geometry(4326)")
        listed = {"reader_features": [feature], "writer_features": [feature]}
        write_commit(store, 2, Protocol(min_reader_version=3, min_writer_version=7, **listed))
        assert table.snapshot().to_arrow(["id"]).column("id").to_pylist() == [1, 2]
        with pytest.raises(UnsupportedTypeError, match="geometry"):
            run(parse_statement("DELETE FROM t WHERE id = 1"), table, None)


def test_a_column_of_a_foreign_type_is_refused_by_name():
    for name, kind in _TYPES.items():
        for form in _nest_type(kind):
            table = _create_table(MemoryStore(f"memory://foreign/{uuid.uuid4()}"), form)
            refused = pytest.raises(UnsupportedTypeError, match=re.escape(f"{name} (column other)"))
            with refused:
                table.snapshot().to_arrow()
            with refused:
                table.snapshot().to_arrow(["id"], "other IS NULL")
            for statement in _STATEMENTS:
                with refused:
                    run(parse_statement(statement), table, None)
            assert table.version() == 1


def test_a_schema_that_names_no_type_is_damaged():
    malformed = (
        "",
        "?",
        "1st",
        " long",
        "decimal(39,0)",
        "decimal(x)",
        "struct",
        "array",
        "map",
        None,
    )
    objects = ({"type": "array"}, {"type": "long"}, {"type": 5}, {"fields": []}, [], 7)
    for kind in (*malformed, *objects):
        for form in _nest_type(kind):
            table = _create_table(MemoryStore(f"memory://damaged/{uuid.uuid4()}"), form)
            with pytest.raises(MalformedLogError):
                table.snapshot()


def test_no_table_is_made_with_a_foreign_type():
    for kind in (*_TYPES.values(), "timely", "anything"):
        with pytest.raises(InvalidSchemaError):
            first_actions(_schema(kind), (), (), {}, now_ms=0)


def test_no_foreign_type_becomes_a_type_of_arrow_or_spark():
    for kind in _TYPES.values():
        (_, other) = parse_schema(_schema(kind))
        for convert in (to_arrow_type, to_spark_type):
            with pytest.raises(UnsupportedTypeError):
                convert(other.type)


def test_a_void_column_is_null():
    table = _create_table(MemoryStore(f"memory://foreign/{uuid.uuid4()}"), "void")
    assert table.snapshot().schema.get("other").type == PrimitiveType("void")
    assert table.snapshot().to_arrow().column("other").to_pylist() == [None, None]


def test_no_reader_or_writer_of_spark_accepts_files_with_a_foreign_type():
    for name, kind in _TYPES.items():
        with pytest.raises(UnsupportedTypeError, match=re.escape(f"{name} (column other)")):
            TableFiles("/t", parse_schema(_schema(kind)))


def test_a_partition_column_of_a_foreign_type_leaves_the_others_readable():
    store = MemoryStore(f"memory://foreign/{uuid.uuid4()}")
    write_first(store)
    described = type(metadata())(
        id="x", schema_string=_schema("time(6)"), partition_columns=("other",)
    )
    file = write_rows(store, "f.parquet", {"id": [1, 2]}, partition_values={"other": "10:00:00"})
    write_commit(store, 1, described, file)
    snapshot = DeltaTable(store).snapshot()
    assert snapshot.to_arrow(["id"], "id > 1").num_rows == 1
    with pytest.raises(UnsupportedTypeError):
        snapshot.to_arrow()


@pytest.mark.spark
def test_spark_reads_and_writes_no_table_with_a_foreign_type(spark: SparkSession, tmp_path):
    table = _create_table(LocalStore(tmp_path), "time(6)")
    rows = "SELECT id FROM VALUES (1) AS v (id)"
    merge = f"MERGE INTO t USING ({rows}) AS s ON t.id = s.id WHEN NOT MATCHED THEN INSERT (id)"
    statements = (
        *_STATEMENTS,
        "OPTIMIZE t",
        f"INSERT INTO t (id) {rows}",
        f"{merge} VALUES (s.id)",
    )
    for statement in statements:
        with pytest.raises(UnsupportedTypeError, match=r"the type time\(6\) \(column other\)"):
            run(parse_statement(statement), table, spark, RunOptions(in_process_bytes=0))
    assert table.version() == 1
