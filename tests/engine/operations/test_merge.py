# ruff: noqa: S608 - statements are what is tested
import pytest

from engine.errors import InvariantViolationError, MultipleSourceRowsError, RequestError
from tests.engine.operations.conftest import IN_PROCESS
from tests.shares import one_in

pytestmark = [pytest.mark.spark, pytest.mark.timeout(180)]

NO_VECTORS = "TBLPROPERTIES ('delta.enableDeletionVectors' = 'false')"
UPSERT = (
    "MERGE INTO t USING (VALUES (2, 'B', 20.0), (9, 'n', 9.0), (3, 'gone', 0.0))"
    " AS s (id, p, v) ON t.id = s.id"
    " WHEN MATCHED AND s.p = 'gone' THEN DELETE"
    " WHEN MATCHED THEN UPDATE SET v = s.v + t.v, p = s.p"
    " WHEN NOT MATCHED THEN INSERT *"
)


def _create_table(do, layout=""):
    do(f"CREATE TABLE t (id BIGINT, p STRING, v DOUBLE) USING DELTA {layout}")
    do(
        "INSERT INTO t VALUES (1, 'a', 1.0), (2, 'b', 2.0), (3, 'c', 3.0)",
        in_process_bytes=IN_PROCESS,
    )


@pytest.mark.parametrize(
    "layout", one_in(2, ["", "PARTITIONED BY (p)", NO_VECTORS, "CLUSTER BY (id)"])
)
def test_merge_updates_deletes_and_inserts_in_one_commit(do, empty_table, rows_elsewhere, layout):
    _create_table(do, layout)
    result = do(UPSERT)
    rows = rows_elsewhere(empty_table)
    expected = sorted([(1, "a", 1.0), (2, "B", 22.0), (9, "n", 9.0)], key=repr)
    assert rows["engine"] == rows["deltalake"] == rows["duckdb"] == expected
    assert result.version == 2
    names = ("Inserted", "Updated", "Deleted")
    assert [result.metrics[f"numTargetRows{name}"] for name in names] == [1, 1, 1]


def test_two_source_rows_for_one_target_row_are_refused(do, empty_table):
    _create_table(do)
    with pytest.raises(MultipleSourceRowsError):
        do(
            "MERGE INTO t USING (VALUES (2, 1.0), (2, 2.0)) AS s (id, v) ON t.id = s.id"
            " WHEN MATCHED THEN UPDATE SET v = s.v"
        )
    assert empty_table.version() == 1


def test_clause_conditions_decide_which_source_row_counts(do, empty_table):
    _create_table(do)
    do(
        "MERGE INTO t USING (VALUES (2, 1.0), (2, 50.0)) AS s (id, v) ON t.id = s.id"
        " WHEN MATCHED AND s.v > 10 THEN UPDATE SET v = s.v"
    )
    rows = {row["id"]: row["v"] for row in empty_table.snapshot().to_arrow().to_pylist()}
    assert rows == {1: 1.0, 2: 50.0, 3: 3.0}


def test_rows_that_no_source_row_joins_can_be_updated_and_deleted(do, empty_table):
    _create_table(do)
    result = do(
        "MERGE INTO t USING (VALUES (2, 1.0)) AS s (id, v) ON t.id = s.id"
        " WHEN NOT MATCHED BY SOURCE AND t.id = 1 THEN DELETE"
        " WHEN NOT MATCHED BY SOURCE THEN UPDATE SET p = 'stale'"
    )
    rows = sorted(empty_table.snapshot().to_arrow()["p"].to_pylist())
    assert rows == ["b", "stale"]
    assert result.metrics["numTargetRowsNotMatchedBySourceDeleted"] == 1


def test_an_insert_only_merge_adds_no_vector_and_is_not_blind(do, empty_table):
    _create_table(do)
    result = do(
        "MERGE INTO t USING (VALUES (2, 'x'), (7, 'y')) AS s (id, p) ON t.id = s.id"
        " WHEN NOT MATCHED THEN INSERT (id, p) VALUES (s.id, upper(s.p))"
    )
    assert result.metrics["numTargetRowsInserted"] == 1
    assert empty_table.history(1)[0].is_blind_append is False
    assert not any(add.deletion_vector for add in empty_table.snapshot().add_files())
    assert "Y" in empty_table.snapshot().to_arrow()["p"].to_pylist()


def test_new_columns_come_with_schema_evolution(do, empty_table):
    _create_table(do)
    do(
        "MERGE WITH SCHEMA EVOLUTION INTO t USING (VALUES (2, 'n'), (8, 'm')) AS s (id, note)"
        " ON t.id = s.id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )
    rows = {row["id"]: row["note"] for row in empty_table.snapshot().to_arrow().to_pylist()}
    assert rows == {1: None, 2: "n", 3: None, 8: "m"}


def test_a_merge_that_matches_nothing_makes_no_commit(do, empty_table):
    _create_table(do)
    result = do(
        "MERGE INTO t USING (VALUES (99)) AS s (id) ON t.id = s.id WHEN MATCHED THEN DELETE"
    )
    assert result.version is None
    assert empty_table.version() == 1


def test_rules_hold_for_merged_rows(do, empty_table):
    _create_table(do, "TBLPROPERTIES ('delta.constraints.small' = 'v < 100')")
    with pytest.raises(InvariantViolationError, match="small"):
        do(
            "MERGE INTO t USING (VALUES (2)) AS s (id) ON t.id = s.id"
            " WHEN MATCHED THEN UPDATE SET v = 1000"
        )
    assert empty_table.version() == 1


def test_a_change_feed_gets_every_change(do, empty_table):
    _create_table(do, "TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')")
    result = do(UPSERT)
    assert result.metrics["numTargetChangeFilesAdded"] >= 1
    paths = list(empty_table.store.list_all("_change_data"))
    assert len(paths) == result.metrics["numTargetChangeFilesAdded"]


def _numbers(table):
    return {row["p"]: row["id"] for row in table.snapshot().to_arrow().to_pylist()}


def test_merged_rows_are_numbered_on_from_the_last_inserted_one(do, empty_table, rows_elsewhere):
    do(
        "CREATE TABLE t (id BIGINT GENERATED ALWAYS AS IDENTITY (START WITH 10 INCREMENT BY 5),"
        " p STRING, v BIGINT) USING DELTA TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')"
    )
    do("INSERT INTO t (p, v) VALUES ('a', 1), ('b', 2)")
    merge = (
        "MERGE INTO t USING (VALUES ('b', 20), ('c', 3), ('d', 4), ('e', 5)) AS s (p, v)"
        " ON t.p = s.p WHEN MATCHED THEN UPDATE SET v = s.v"
        " WHEN NOT MATCHED AND s.v < 5 THEN INSERT (p, v) VALUES (s.p, s.v) {}"
    )
    do(merge.format("WHEN NOT MATCHED THEN INSERT *"))
    numbers = _numbers(empty_table)
    assert (numbers["a"], numbers["b"]) == (10, 15)
    assert sorted(numbers[p] for p in "cde") == [20, 25, 30]
    assert numbers["e"] == 30, "clauses are numbered one after another"
    do(f"INSERT INTO t BY NAME SELECT p FROM delta.`{empty_table.uri}` WHERE v > 100")
    do("INSERT INTO t (p) VALUES ('z')")
    assert _numbers(empty_table)["z"] == 35
    assert len(rows_elsewhere(empty_table)["duckdb"]) == 6
    before = empty_table.version()
    merge_one = "MERGE INTO t USING (VALUES ('b'), ('n')) AS s (p) ON t.p = s.p WHEN {}"
    with pytest.raises(RequestError, match="id is an identity column"):
        do(merge_one.format("MATCHED THEN UPDATE SET id = 99"))
    with pytest.raises(RequestError, match="id is GENERATED ALWAYS AS IDENTITY"):
        do(merge_one.format("NOT MATCHED THEN INSERT (id, p) VALUES (99, s.p)"))
    assert empty_table.version() == before
    do(merge.format(""))
    assert empty_table.snapshot().schema == empty_table.snapshot(before).schema, "no row was new"
    do("RESTORE TABLE t TO VERSION AS OF 1")
    do("INSERT INTO t (p) VALUES ('after')")
    assert _numbers(empty_table)["after"] == 40, "no number is given twice"


def test_a_merge_may_give_numbers_where_they_are_only_the_default(do, empty_table):
    do("CREATE TABLE t (id BIGINT GENERATED BY DEFAULT AS IDENTITY, p STRING) USING DELTA")
    do(
        "MERGE INTO t USING (VALUES (7, 'own'), (NULL, 'none')) AS s (id, p) ON t.p = s.p"
        " WHEN NOT MATCHED AND s.id IS NULL THEN INSERT (p) VALUES (s.p)"
        " WHEN NOT MATCHED THEN INSERT *"
    )
    assert _numbers(empty_table) == {"own": 7, "none": 1}


def test_a_struct_that_is_null_on_both_sides_stays_null_with_schema_evolution(do, empty_table):
    do("CREATE TABLE t (id INT, s STRUCT<y: INT, z: INT, i: STRUCT<a: INT, b: INT>>)")
    inner = "named_struct('a', 1, 'b', 2)"
    struct = f"named_struct('y', 1, 'z', 2, 'i', {inner})"
    do(f"INSERT INTO t SELECT * FROM VALUES (1, NULL), (2, {struct}), (3, NULL), (4, {struct})")
    do(
        "MERGE WITH SCHEMA EVOLUTION INTO t USING (VALUES"
        " (1, NULL), (2, NULL), (3, named_struct('x', 7, 'i', NULL)),"
        " (4, named_struct('x', 7, 'i', named_struct('a', 8)))) AS s (id, s)"
        " ON t.id = s.id WHEN MATCHED THEN UPDATE SET *"
    )
    rows = {row["id"]: row["s"] for row in empty_table.snapshot().to_arrow().to_pylist()}
    assert rows == {
        1: None,
        2: {"y": 1, "z": 2, "i": {"a": None, "b": 2}, "x": None},
        3: {"y": None, "z": None, "i": None, "x": 7},
        4: {"y": 1, "z": 2, "i": {"a": 8, "b": 2}, "x": 7},
    }
