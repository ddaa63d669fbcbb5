import pyarrow.parquet as pq
import pytest

from engine.errors import InvariantViolationError, RequestError, SchemaMismatchError
from engine.snapshot.change_feed import read_changes
from engine.spark.failures import ValueNotParsedError
from tests.engine.operations.conftest import IN_PROCESS
from tests.shares import one_in

pytestmark = [pytest.mark.spark, pytest.mark.timeout(180)]

NO_VECTORS = "TBLPROPERTIES ('delta.enableDeletionVectors' = 'false')"


def _create_table(do, layout=""):
    do(f"CREATE TABLE t (id BIGINT, p STRING, v DOUBLE) USING DELTA {layout}")
    do(
        "INSERT INTO t VALUES (1, 'a', 1.0), (2, 'b', 2.0), (3, 'a', NULL), (4, 'b', 4.0)",
        in_process_bytes=IN_PROCESS,
    )


@pytest.mark.parametrize(
    "layout", one_in(2, ["", "PARTITIONED BY (p)", NO_VECTORS, "CLUSTER BY (id)"])
)
def test_update_sets_columns_of_exactly_the_matching_rows(do, empty_table, rows_elsewhere, layout):
    _create_table(do, layout)
    result = do("UPDATE t SET v = v * 10, p = concat(p, '!') WHERE id IN (2, 3)")
    rows = rows_elsewhere(empty_table)
    expected = [(1, "a", 1.0), (2, "b!", 20.0), (3, "a!", None), (4, "b", 4.0)]
    assert rows["engine"] == rows["deltalake"] == rows["duckdb"] == sorted(expected, key=repr)
    assert result.metrics["numUpdatedRows"] == 2


def test_update_of_a_whole_partition_moves_it(do, empty_table):
    _create_table(do, "PARTITIONED BY (p)")
    result = do("UPDATE t SET p = 'z' WHERE p = 'a'")
    assert result.metrics["numRemovedFiles"] == 1
    assert sorted(empty_table.snapshot().to_arrow()["p"].to_pylist()) == ["b", "b", "z", "z"]


def test_an_updated_row_keeps_its_id(do, empty_table):
    _create_table(do, "CLUSTER BY (id)")
    do("UPDATE t SET v = 0 WHERE id = 3")
    snapshot = empty_table.snapshot()
    new = next(add for add in snapshot.add_files() if not add.deletion_vector)
    stored = pq.read_table(f"{empty_table.uri}/{new.path}")
    assert stored[snapshot.properties.row_id_column].to_pylist() == [2]
    assert stored[snapshot.properties.row_commit_version_column].to_pylist() == [None]


def test_a_value_that_the_column_cannot_store_is_refused(do):
    _create_table(do)
    with pytest.raises(ValueNotParsedError, match="UPDATE: 'a' cannot be stored in id"):
        do("UPDATE t SET id = p")
    with pytest.raises(
        SchemaMismatchError, match="id has the type bigint, but its value has the type date"
    ):
        do("UPDATE t SET id = DATE '2026-01-01'")


def test_a_condition_that_changes_its_mind_is_refused(do):
    _create_table(do)
    with pytest.raises(RequestError):
        do("UPDATE t SET v = 1 WHERE rand() < 0.5")


def test_a_rule_stops_the_update(do, empty_table):
    _create_table(do, "TBLPROPERTIES ('delta.constraints.c' = 'v IS NULL OR v < 100')")
    with pytest.raises(InvariantViolationError):
        do("UPDATE t SET v = 100 WHERE id = 1")
    assert empty_table.version() == 1


def test_a_change_feed_gets_both_images(do, empty_table):
    _create_table(do, "TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')")
    do("UPDATE t SET v = 0 WHERE id = 1")
    kinds: list[str] = []
    for file in empty_table.store.list_all("_change_data"):
        kinds += pq.read_table(f"{empty_table.uri}/{file.path}")["_change_type"].to_pylist()
    assert sorted(kinds) == ["update_postimage", "update_preimage"]


@pytest.mark.parametrize("vectors", ["true", "false"])
def test_the_change_feed_has_the_same_random_values_as_the_table(do, empty_table, vectors):
    _create_table(
        do,
        "TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true',"
        f" 'delta.enableDeletionVectors' = '{vectors}')",
    )
    do("UPDATE t SET v = rand(), p = concat(p, uuid()) WHERE id > 1")
    _check_feed(empty_table)
    do(
        "MERGE INTO t USING (VALUES (2, 'x'), (9, 'new')) AS s (id, p) ON t.id = s.id"
        " WHEN MATCHED THEN UPDATE SET p = concat(s.p, uuid())"
        " WHEN NOT MATCHED THEN INSERT (id, p) VALUES (s.id, uuid())"
        " WHEN NOT MATCHED BY SOURCE AND t.id = 3 THEN UPDATE SET v = t.id + rand()"
    )
    _check_feed(empty_table)


def _check_feed(table):
    """Check that every row made by the latest version is in the table as the change feed has it."""
    rows = {row["id"]: row for row in table.snapshot().to_arrow().to_pylist()}
    changes = read_changes(table, table.version())
    made = [
        change
        for change in changes.to_pylist()
        if change["_change_type"] in {"insert", "update_postimage"}
    ]
    assert len(made) == 3
    for changed in made:
        assert {name: changed[name] for name in ("id", "p", "v")} == rows[changed["id"]]
