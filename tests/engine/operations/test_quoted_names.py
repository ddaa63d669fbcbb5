# ruff: noqa: S608 - statements are what is tested
"""Columns whose names have dots, backticks and blanks, wherever a statement names columns."""

import json
import uuid

import pytest

from engine.commands.names import quote_name
from engine.errors import InvalidSchemaError, UnknownColumnError
from engine.operations.run import run
from engine.protocol.clustering import CLUSTERING_DOMAIN
from engine.schema.column_mapping import physical_path
from engine.schema.column_paths import column_path, render_column_path
from engine.schema.types import INTEGER, StructField, StructType
from engine.snapshot.new_table import is_same_layout, resolve_column
from engine.storage.local import LocalStore
from engine.storage.memory import MemoryStore
from engine.table import DeltaTable

NAMES = (
    "a.b",
    "a.b.c",
    "c`d",
    "`",
    ".",
    ".z",
    "[z]",
    "`x`",
    "a`.b",
    "é ü",
    "x,y",
    "a",
    "ID",
    " x ",
)
_MAPPED = "TBLPROPERTIES ('delta.columnMapping.mode' = 'name')"


def _create_table(columns: str, layout: str = "", store=None) -> DeltaTable:
    table = DeltaTable(store or MemoryStore(f"memory://quoted/{uuid.uuid4()}"))
    run(f"CREATE TABLE t ({columns}) USING DELTA {layout} {_MAPPED}", table)
    return table


def _create_columns(name: str) -> str:
    """Create the column and, unless it has that name, a struct that a dot in the name could lead into."""
    inside = "" if name == "a" else "a STRUCT<b: STRUCT<c: INT>>, "
    return f"{quote_name(name)} INT, {inside}z INT"


def _parameters(table: DeltaTable) -> dict[str, str]:
    return dict(table.history(1)[0].operation_parameters or {})


def test_a_path_is_read_back_as_it_was_written():
    for first in NAMES:
        for path in ((first,), (first, "b"), ("b", first), (first, first), ("d.e", first)):
            assert column_path(render_column_path(path)) == path
    assert render_column_path(("plain", "é ü")) == "plain.é ü"


def test_a_table_is_clustered_by_a_quoted_name():
    for name in NAMES:
        written, expected = quote_name(name), render_column_path((name,))
        made = _create_table(_create_columns(name), f"CLUSTER BY ({written}, `z`)")
        altered = _create_table(_create_columns(name))
        run(f"ALTER TABLE t CLUSTER BY ({written}, z)", altered)
        for table in (made, altered):
            snapshot = table.snapshot()
            path = physical_path(snapshot.schema, (name,), snapshot.mapping_mode)
            assert snapshot.clustering_paths[0] == path
            assert snapshot.clustering_columns == (expected, "z")
            with pytest.raises(InvalidSchemaError, match="partition or clustering column"):
                run(f"ALTER TABLE t DROP COLUMN {written}", table)
        assert json.loads(_parameters(made)["clusterBy"]) == [expected, "z"]
        assert _parameters(altered)["newClusteringColumns"] == f"{expected},z"
        version = altered.version()
        run(f"ALTER TABLE t CLUSTER BY ({written}, `z`)", altered)
        assert altered.version() == version


def test_a_table_is_partitioned_by_a_quoted_name():
    for name in NAMES:
        written = quote_name(name)
        table = _create_table(f"{written} INT, z INT", f"PARTITIONED BY ({written})")
        assert list(table.snapshot().partition_columns) == [name]
        assert json.loads(_parameters(table)["partitionBy"]) == [name]
        run("INSERT INTO t VALUES (1, 2), (3, 4)", table)
        run(f"DELETE FROM t WHERE {written} = 1", table)
        run(f"UPDATE t SET {written} = 5 WHERE {written} = 3", table)
        assert table.snapshot().to_arrow().to_pylist() == [{name: 5, "z": 4}]
        with pytest.raises(InvalidSchemaError, match="partition or clustering column"):
            run(f"ALTER TABLE t DROP COLUMN {written}", table)
        run(f"ALTER TABLE t RENAME COLUMN {written} TO `n.m`", table)
        assert list(table.snapshot().partition_columns) == ["n.m"]
        assert table.snapshot().to_arrow().to_pylist() == [{"n.m": 5, "z": 4}]


def test_a_dropped_column_with_dots_is_checked_against_the_layout_and_a_similar_one_is_not():
    table = _create_table("`a.b` INT, a STRUCT<b: INT>, z INT", "PARTITIONED BY (`a.b`)")
    with pytest.raises(InvalidSchemaError, match="partition or clustering column"):
        run("ALTER TABLE t DROP COLUMN `a.b`", table)
    run("ALTER TABLE t DROP COLUMN a", table)
    assert table.snapshot().schema.names == ["a.b", "z"]


def test_a_nested_column_is_no_column_with_a_dot_in_its_name():
    table = _create_table("`a.b` INT, a STRUCT<b: INT, c: INT>", "CLUSTER BY (`a`.`b`)")
    snapshot = table.snapshot()
    assert snapshot.clustering_columns == ("a.b",)
    assert len(snapshot.clustering_paths[0]) == 2
    run("ALTER TABLE t DROP COLUMN `a.b`", table)
    with pytest.raises(InvalidSchemaError, match="partition or clustering column"):
        run("ALTER TABLE t DROP COLUMN a", table)
    domain = table.snapshot().domains[CLUSTERING_DOMAIN]
    assert json.loads(domain.configuration)["clusteringColumns"] == [
        list(snapshot.clustering_paths[0])
    ]


def test_columns_with_quoted_names_are_altered():
    for name in NAMES:
        written = quote_name(name)
        table = _create_table(_create_columns(name))
        run(f"ALTER TABLE t ALTER COLUMN {written} COMMENT 'said'", table)
        field = table.snapshot().schema.get(name)
        assert field is not None
        assert field.metadata["comment"] == "said"
        run(f"ALTER TABLE t ALTER COLUMN {written} AFTER z", table)
        assert table.snapshot().schema.names[-1] == name
        run(f"ALTER TABLE t ADD COLUMN `n.``m` INT AFTER {written}", table)
        assert table.snapshot().schema.names[-1] == "n.`m"
        run("ALTER TABLE t DROP COLUMN `n.``m`", table)
        run(f"ALTER TABLE t RENAME COLUMN {written} TO `n.``m`", table)
        assert table.snapshot().schema.names[-1] == "n.`m"
        run("ALTER TABLE t DROP COLUMN `n.``m`", table)
        assert name not in table.snapshot().schema.names


def test_rules_read_columns_with_quoted_names():
    for name in NAMES:
        written = quote_name(name)
        columns = f"{written} INT, g INT GENERATED ALWAYS AS ({written} + 1)"
        table = _create_table(f"{columns}, CONSTRAINT small CHECK ({written} < 9)")
        run(f"INSERT INTO t ({written}) VALUES (1)", table)
        assert table.snapshot().to_arrow().to_pylist() == [{name: 1, "g": 2}]
        with pytest.raises(InvalidSchemaError, match="uses"):
            run(f"ALTER TABLE t DROP COLUMN {written}", table)


def test_statistics_are_collected_of_columns_with_quoted_names():
    for name in NAMES:
        written = quote_name(name)
        table = _create_table(f"{written} INT, z INT")
        key = "delta.dataSkippingStatsColumns"
        run(f"ALTER TABLE t SET TBLPROPERTIES ('{key}' = '{written}')", table)
        run("INSERT INTO t VALUES (7, 8)", table)
        (file,) = table.snapshot().add_files()
        snapshot = table.snapshot()
        (physical,) = physical_path(snapshot.schema, (name,), snapshot.mapping_mode)
        assert json.loads(file.stats or "")["minValues"] == {physical: 7}
        run(f"ALTER TABLE t RENAME COLUMN {written} TO `n.``m`", table)
        assert table.snapshot().metadata.configuration[key] == "`n.``m`"


def test_two_layouts_are_the_same_however_they_are_written():
    schema = StructType(tuple(StructField(name, INTEGER) for name in ("a.b", "c")))
    assert is_same_layout(schema, ["`a.b`", "`C`"], ["a.b", "c"])
    assert not is_same_layout(schema, ["c", "a.b"], ["a.b", "c"])
    assert not is_same_layout(schema, ["gone"], ["c"])
    for text in ("`a`.b", "a", "``"):
        with pytest.raises(UnknownColumnError):
            resolve_column(schema, text)


@pytest.mark.spark
def test_rows_are_ordered_by_columns_with_quoted_names(spark, tmp_path):
    for number, name in enumerate(("a.b", "c`d")):
        written, place = quote_name(name), tmp_path / str(number)
        clustered = _create_table(
            _create_columns(name), f"CLUSTER BY ({written})", LocalStore(place)
        )
        for table, order in (
            (clustered, ""),
            (
                _create_table(_create_columns(name), "", LocalStore(place / "z")),
                f"ZORDER BY ({written})",
            ),
        ):
            for value in (3, 1, 2):
                struct = "named_struct('b', named_struct('c', 0))"
                run(f"INSERT INTO t SELECT {value}, {struct}, 0", table, spark)
            run(f"OPTIMIZE t {order}", table, spark)
            assert table.snapshot().to_arrow([name]).column(name).to_pylist() == [1, 2, 3]
