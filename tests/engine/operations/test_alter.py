import json

import pytest

from engine.errors import InvalidSchemaError, InvariantViolationError, RequestError
from tests.engine.operations.conftest import IN_PROCESS

pytestmark = [pytest.mark.spark, pytest.mark.timeout(180)]

MAPPED = "TBLPROPERTIES ('delta.columnMapping.mode' = 'name')"


@pytest.fixture
def table(do, empty_table):
    do(f"CREATE TABLE t (id BIGINT, p STRING, n INT) USING DELTA {MAPPED}")
    do("INSERT INTO t VALUES (1, 'a', 10), (2, 'b', NULL)", in_process_bytes=IN_PROCESS)
    return empty_table


def _rows(table):
    return table.snapshot().to_arrow().to_pylist()


def test_columns_are_added_renamed_and_dropped_without_touching_files(
    do, do_lightly, table, rows_elsewhere
):
    do_lightly("ALTER TABLE t ADD COLUMNS (note STRING AFTER id)")
    do_lightly("ALTER TABLE t RENAME COLUMN p TO label")
    do_lightly("ALTER TABLE t DROP COLUMNS (n)")
    assert table.snapshot().schema.names == ["id", "note", "label"]
    do("INSERT INTO t VALUES (3, 'x', 'c')")
    expected = [(1, None, "a"), (2, None, "b"), (3, "x", "c")]
    assert rows_elsewhere(table)["engine"] == rows_elsewhere(table)["duckdb"] == expected


def test_operations_reach_renamed_columns(do, do_lightly, table):
    do_lightly("ALTER TABLE t RENAME COLUMN p TO label")
    do("UPDATE t SET label = 'z' WHERE label = 'a'")
    do("DELETE FROM t WHERE label = 'b'")
    do("OPTIMIZE t")
    assert _rows(table) == [{"id": 1, "label": "z", "n": 10}]


def test_dropping_needs_column_mapping(do_lightly):
    do_lightly("CREATE TABLE t (id BIGINT, p STRING) USING DELTA")
    with pytest.raises(InvalidSchemaError, match=r"columnMapping"):
        do_lightly("ALTER TABLE t DROP COLUMNS (p)")


def test_the_history_describes_changed_columns_as_delta_spark_does(do_lightly, empty_table):
    do_lightly("CREATE TABLE t (id BIGINT, v STRING) USING DELTA")
    do_lightly("ALTER TABLE t ADD COLUMNS (w INT COMMENT 'c' AFTER id)")
    do_lightly("ALTER TABLE t ALTER COLUMN v COMMENT 'k'")
    do_lightly("ALTER TABLE t ADD CONSTRAINT c CHECK (id > 0)")
    do_lightly("ALTER TABLE t DROP CONSTRAINT c")
    dropped, _, changed, added, _ = [c.operation_parameters for c in empty_table.history()]
    column = {"name": "v", "type": "string", "nullable": True, "metadata": {"comment": "k"}}
    assert json.loads(changed["column"]) == column
    new = {"name": "w", "type": "integer", "nullable": True, "metadata": {"comment": "c"}}
    assert json.loads(added["columns"]) == [{"column": new, "position": "AFTER id"}]
    assert (dropped["name"], dropped["existed"]) == ("c", True)
    assert "0" in dropped["expr"]


def test_a_wider_type_reads_old_files(do, do_lightly, table):
    with pytest.raises(InvalidSchemaError, match="type widening"):
        do_lightly("ALTER TABLE t ALTER COLUMN n TYPE BIGINT")
    do_lightly("ALTER TABLE t SET TBLPROPERTIES ('delta.enableTypeWidening' = 'true')")
    do_lightly("ALTER TABLE t ALTER COLUMN n TYPE BIGINT")
    do("INSERT INTO t VALUES (3, 'c', 5000000000)")
    do("DELETE FROM t WHERE n = 10")
    do("OPTIMIZE t")
    assert sorted(row["n"] or 0 for row in _rows(table)) == [0, 5000000000]


def test_the_type_that_a_column_has_is_no_change_whatever_is_enabled(do_lightly, table):
    version = table.version()
    result = do_lightly("ALTER TABLE t ALTER COLUMN n TYPE INT")
    assert (result.version, table.version()) == (None, version)
    assert result.message == "The table already has this schema."


def test_a_constraint_is_checked_against_the_rows_that_are_there(do, table):
    with pytest.raises(InvariantViolationError):
        do("ALTER TABLE t ADD CONSTRAINT c CHECK (id > 1)")
    do("ALTER TABLE t ADD CONSTRAINT c CHECK (id > 0)")
    with pytest.raises(InvariantViolationError):
        do("INSERT INTO t VALUES (0, 'x', 1)")
    do("ALTER TABLE t DROP CONSTRAINT c")
    do("INSERT INTO t VALUES (0, 'x', 1)")
    assert table.snapshot().row_count == 3


def test_not_null_is_checked_and_then_held(do, table):
    with pytest.raises(InvariantViolationError, match="n is null"):
        do("ALTER TABLE t ALTER COLUMN n SET NOT NULL")
    do("ALTER TABLE t ALTER COLUMN id SET NOT NULL")
    with pytest.raises(InvariantViolationError):
        do("INSERT INTO t VALUES (NULL, 'x', 1)")


def test_a_default_fills_columns_that_a_write_leaves_out(do, do_lightly, table):
    do_lightly("ALTER TABLE t ALTER COLUMN n SET DEFAULT 7")
    do("INSERT INTO t (id, p) VALUES (3, 'c')")
    assert {row["id"]: row["n"] for row in _rows(table)} == {1: 10, 2: None, 3: 7}


def test_clustering_columns_change_and_optimize_orders_by_them(do, do_lightly, table):
    do_lightly("ALTER TABLE t CLUSTER BY (p)")
    assert table.snapshot().clustering_columns == ("p",)
    do("INSERT INTO t VALUES (3, '0', 1)")
    do("OPTIMIZE t")
    assert [row["p"] for row in _rows(table)] == ["0", "a", "b"]
    assert {add.clustering_provider for add in table.snapshot().add_files()} == {"liquid"}
    assert do("OPTIMIZE t").version is None
    assert do("OPTIMIZE t FULL").version is not None


def test_zorder_keeps_every_row(do, table, rows_elsewhere):
    do("INSERT INTO t VALUES (3, '0', 1), (4, NULL, NULL)")
    before = rows_elsewhere(table)["engine"]
    result = do("OPTIMIZE t ZORDER BY (p, n, id)")
    after = rows_elsewhere(table)
    assert after["engine"] == after["duckdb"] == before
    assert result.metrics["numAddedFiles"] == 1
    assert table.history(1)[0].operation_parameters["zOrderBy"] == '["p", "n", "id"]'


def test_a_feature_in_use_cannot_be_dropped(do_lightly, table):
    with pytest.raises(RequestError, match="columns are mapped by name"):
        do_lightly("ALTER TABLE t DROP FEATURE columnMapping")
    do_lightly("ALTER TABLE t SET TBLPROPERTIES ('delta.feature.clustering' = 'supported')")
    do_lightly("ALTER TABLE t DROP FEATURE clustering")
    assert "clustering" not in (table.snapshot().protocol.writer_features or [])
