"""Values in statements without Spark equal Spark's: types, remainders, names."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from engine.errors import (
    CannotEvaluateError,
    ExpressionError,
    InvalidPropertyError,
    InvalidSchemaError,
    InvariantViolationError,
    RequestError,
    UnknownColumnError,
)
from engine.operations import arrow_rows
from engine.operations.arrow_rows import RowTracking
from engine.operations.merge.merge_join import pair_rows
from engine.protocol.features import list_supported_features
from engine.spark.table_files import TableFiles


@pytest.fixture
def rows(do_lightly, empty_table):
    """Return a function that runs statements on three rows and returns a column's values by id."""
    do_lightly(
        "CREATE TABLE t (id BIGINT, k INT, name STRING) USING DELTA"
        " TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')"
    )
    do_lightly("INSERT INTO t VALUES (7, -1, 'a'), (8, 4, 'b'), (9, 2, 'c')")

    def run_and_read(text, column):
        do_lightly(text)
        live = empty_table.snapshot().to_arrow().to_pylist()
        return {row["id"]: row[column] for row in live}

    return run_and_read


def test_a_remainder_is_each_rows_own_where_a_divisor_is_minus_one(rows):
    assert rows("UPDATE t SET name = CAST((id + 2) % k AS STRING)", "name") == {
        7: "0",
        8: "2",
        9: "1",
    }


def test_spaces_beyond_the_length_of_a_varchar_are_cut_off(do_lightly, empty_table):
    """Every statement cuts them, as Spark does on storing; other texts that are too long are refused."""
    do_lightly("CREATE TABLE t (id BIGINT, v VARCHAR(3)) USING DELTA")
    for text in (
        "INSERT INTO t VALUES (1, 'abc  '), (2, 'a     '), (3, NULL)",
        "UPDATE t SET v = concat('abc', ' ') WHERE id = 3",
        "MERGE INTO t USING (VALUES (2, 'ab   '), (4, '    ')) AS s (id, v) ON t.id = s.id"
        " WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT *",
    ):
        do_lightly(text)
    with pytest.raises(InvariantViolationError):
        do_lightly("UPDATE t SET v = concat(v, 'd') WHERE id = 1")
    live = empty_table.snapshot().to_arrow().to_pylist()
    assert {row["id"]: row["v"] for row in live} == {1: "abc", 2: "ab ", 3: "abc", 4: "   "}


@pytest.mark.parametrize("name", ["k", "y"])
def test_a_source_value_is_compared_before_it_is_stored(name, rows):
    """2.5 is not 2, even if the target has a whole-number column of that name."""
    merge = (
        f"MERGE INTO t USING (VALUES (4, 'x'), (2.5, 'y')) AS s ({name}, name) ON t.k = s.{name}"
        " WHEN MATCHED THEN UPDATE SET name = s.name"
    )
    assert rows(merge, "name") == {7: "a", 8: "x", 9: "c"}


def test_a_source_value_is_cast_when_it_is_stored(rows):
    merge = (
        "MERGE INTO t USING (VALUES (7, 1.5, 5), (10, 2.5, 6)) AS s (id, k, name) ON t.id = s.id"
        " WHEN MATCHED THEN UPDATE SET k = s.k, name = s.name"
        " WHEN NOT MATCHED THEN INSERT (id, k, name) VALUES (s.id, s.k, s.name)"
    )
    assert rows(merge, "k") == {7: 1, 8: 4, 9: 2, 10: 2}


def test_values_of_a_column_stay_with_their_rows_however_they_are_computed(rows):
    """Constants of three types, NULL, a repeated computation, texts with one digit or none."""
    insert = (
        "INSERT INTO t (id, k, name) VALUES (1, 5, '1'), (2, 2 + 3, ''), (3, NULL, '3'), (4, 6, '('),"
        " (5, 2 + 3, NULL), (6, -6, ','), (10L, 7S, upper('x')), (11, 8, '7')"
    )
    new = [1, 2, 3, 4, 5, 6, 10, 11]
    numbers = [5, 5, None, 6, 5, -6, 7, 8]
    assert rows(insert, "k") == dict(zip([7, 8, 9, *new], [-1, 4, 2, *numbers], strict=True))
    names = ["1", "", "3", "(", None, ",", "X", "7"]
    assert rows("DELETE FROM t WHERE id IN (7, 8, 9)", "name") == dict(zip(new, names, strict=True))


@pytest.mark.parametrize(
    "text",
    [
        "INSERT INTO t (id, k) VALUES (1, 3000000000)",
        "INSERT INTO t (id, name) VALUES (1, 1e3)",
        r"INSERT INTO t (id, name) VALUES (1, '\ud800')",
    ],
)
def test_values_that_only_spark_can_say_need_spark(text, rows):
    with pytest.raises(RequestError, match="needs Spark") as caught:
        rows(text, "k")
    assert caught.value.what.count("needs Spark") == 1


@pytest.mark.parametrize(
    "text",
    [
        "DELETE FROM t WHERE `__row_index` = 1",
        "UPDATE t SET id = 2",
        "MERGE INTO t USING (VALUES (1)) AS s (id) ON t.id = s.id WHEN MATCHED THEN DELETE",
    ],
)
def test_a_column_under_a_name_that_the_engine_needs_is_for_spark(text, do_lightly, empty_table):
    do_lightly("CREATE TABLE t (id BIGINT, `__row_index` BIGINT) USING DELTA")
    do_lightly("INSERT INTO t VALUES (1, 1), (2, 2)")
    with pytest.raises(RequestError, match="needs Spark"):
        do_lightly(text)
    assert empty_table.snapshot().row_count == 2


def test_a_wide_row_is_not_paired_without_end():
    target = pa.table({"id": range(2), "text": ["a" * 1_000_000, "b"]})
    source = pa.table({"id": range(1000)})
    numbers = np.arange(1000)
    narrow = pair_rows(target, np.ones(1000, dtype=np.int64), source, numbers)
    assert narrow.num_rows == 1000
    with pytest.raises(CannotEvaluateError, match="memory"):
        pair_rows(target, np.zeros(1000, dtype=np.int64), source, numbers)


def test_the_row_ids_of_a_file_of_many_rows_are_for_spark(do_lightly, empty_table, monkeypatch):
    do_lightly(
        "CREATE TABLE t (id BIGINT) USING DELTA TBLPROPERTIES ('delta.enableRowTracking' = 'true')"
    )
    do_lightly("INSERT INTO t VALUES (1), (2)")
    snapshot = empty_table.snapshot()
    (add,) = snapshot.add_files()
    table = TableFiles(empty_table.uri, snapshot.schema, properties=snapshot.properties)
    assert RowTracking.read(snapshot, table, add).ids.to_pylist() == [0, 1]
    monkeypatch.setattr(arrow_rows, "_MOST_TRACKED_ROWS", 1)
    with pytest.raises(CannotEvaluateError, match="too many rows"):
        RowTracking.read(snapshot, table, add)


def test_keys_of_years_that_python_does_not_have_are_merged(do_lightly, empty_table):
    do_lightly("CREATE TABLE t (id BIGINT, day DATE) USING DELTA")
    do_lightly("INSERT INTO t VALUES (1, date_add(DATE '9999-12-31', 5)), (2, NULL)")
    do_lightly(
        "MERGE INTO t USING (VALUES (date_add(DATE '9999-12-31', 5))) AS s (day)"
        " ON t.day = s.day WHEN MATCHED THEN UPDATE SET id = 3"
        " WHEN NOT MATCHED THEN INSERT (id) VALUES (4)"
    )
    ids = empty_table.snapshot().to_arrow(["id"]).column("id").to_pylist()
    assert sorted(ids) == [2, 3]


def test_columns_of_values_may_be_quoted(do_lightly, empty_table):
    do_lightly(
        "CREATE TABLE t (id INT, `a.b` STRING, `c ``d` STRING) USING DELTA"
        " TBLPROPERTIES ('delta.columnMapping.mode' = 'name')"
    )
    do_lightly("INSERT INTO t (`a.b`, `c ``d`, `id`) VALUES ('x', 'y', 1)")
    do_lightly(
        "MERGE INTO t USING (VALUES (1, 'z'), (2, 'new')) AS s (id, `e.f`) ON t.id = s.id"
        " WHEN MATCHED THEN UPDATE SET `c ``d` = s.`e.f`"
        " WHEN NOT MATCHED THEN INSERT (id, `a.b`) VALUES (s.id, s.`e.f`)"
    )
    rows = sorted(tuple(row.values()) for row in empty_table.snapshot().to_arrow().to_pylist())
    assert rows == [(1, "x", "z"), (2, "new", None)]


def test_char_columns_are_padded_without_spark(do_lightly, empty_table):
    do_lightly("CREATE TABLE t (id INT, c CHAR(3), n INT GENERATED ALWAYS AS (length(c)))")
    do_lightly("INSERT INTO t (id, c) VALUES (1, 'a'), (2, 'abc  '), (3, NULL)")
    do_lightly("UPDATE t SET c = 'é' WHERE id = 2")
    rows = sorted(tuple(row.values()) for row in empty_table.snapshot().to_arrow().to_pylist())
    assert rows == [(1, "a  ", 3), (2, "é  ", 3), (3, None, None)]
    with pytest.raises(InvariantViolationError, match="the length of c"):
        do_lightly("UPDATE t SET c = 'abcd' WHERE id = 1")


def test_rows_that_spark_alone_can_number_need_spark(do_lightly, empty_table):
    do_lightly("CREATE TABLE t (i BIGINT GENERATED ALWAYS AS IDENTITY, v INT) USING DELTA")
    with pytest.raises(RequestError, match=r"needs Spark.*has the identity column i"):
        do_lightly("INSERT INTO t (v) VALUES (1)")
    assert empty_table.version() == 0


@pytest.mark.parametrize(
    ("clause", "expected"),
    [
        ("WHEN MATCHED THEN UPDATE SET k = t.k", {1: 30, 2: 20}),
        ("WHEN MATCHED AND t.k = 30 THEN DELETE", {2: 20}),
    ],
)
def test_the_alias_of_a_source_may_be_the_name_of_the_target(
    clause, expected, do_lightly, empty_table
):
    do_lightly("CREATE TABLE t (id BIGINT, k INT)")
    do_lightly("INSERT INTO t VALUES (1, 10), (2, 20)")
    do_lightly(f"MERGE INTO t AS x USING (VALUES (1, 30)) AS t (id, k) ON t.id = x.id {clause}")
    rows = empty_table.snapshot().to_arrow().to_pylist()
    assert {row["id"]: row["k"] for row in rows} == expected


def test_a_name_of_the_source_is_not_the_target_where_no_source_row_is(do_lightly, empty_table):
    do_lightly("CREATE TABLE t (id BIGINT, k INT)")
    with pytest.raises(UnknownColumnError, match=r"no column t\.k"):
        do_lightly(
            "MERGE INTO t AS x USING (VALUES (1)) AS t (id) ON t.id = x.id"
            " WHEN NOT MATCHED BY SOURCE AND t.k = 10 THEN DELETE"
        )


def test_bytes_that_are_no_text_are_refused_as_a_partition(do_lightly, empty_table):
    do_lightly("CREATE TABLE t (id BIGINT, raw BINARY) USING DELTA PARTITIONED BY (raw)")
    do_lightly("INSERT INTO t VALUES (1, X'C3A9')")
    for statement in ("INSERT INTO t VALUES (2, X'61'), (3, X'FF')", "UPDATE t SET raw = X'C3'"):
        with pytest.raises(RequestError, match="not valid UTF-8"):
            do_lightly(statement)
    assert empty_table.snapshot().to_arrow().to_pylist() == [{"id": 1, "raw": "é".encode()}]
    assert len(list(Path(empty_table.uri).rglob("*.parquet"))) == 1


def test_constraint_on_the_current_time_is_about_each_write(do_lightly, empty_table):
    do_lightly("CREATE TABLE t (id INT, at TIMESTAMP)")
    do_lightly("ALTER TABLE t ADD CONSTRAINT past CHECK (at <= now())")
    do_lightly("ALTER TABLE t ADD CONSTRAINT named CHECK (t.id > 0)")
    assert empty_table.snapshot().metadata.configuration["delta.constraints.past"] == "at <= now()"
    do_lightly("INSERT INTO t VALUES (1, current_timestamp())")
    with pytest.raises(InvariantViolationError):
        do_lightly("INSERT INTO t VALUES (1, current_timestamp() + INTERVAL 1 HOUR)")
    with pytest.raises(ExpressionError):
        do_lightly("ALTER TABLE t ADD CONSTRAINT other CHECK (t.at <= now())")


def test_constraint_holds_however_its_property_is_spelled(do_lightly, empty_table):
    """delta-spark also finds constraints without regard to case."""
    do_lightly("CREATE TABLE t (id INT, k INT) TBLPROPERTIES ('delta.columnMapping.mode' = 'name')")
    do_lightly("ALTER TABLE t SET TBLPROPERTIES ('DELTA.Constraints.Positive' = 'id > 0')")
    snapshot = empty_table.snapshot()
    assert "checkConstraints" in list_supported_features(snapshot.protocol)
    do_lightly("INSERT INTO t VALUES (1, 1)")
    with pytest.raises(InvariantViolationError, match="Positive"):
        do_lightly("INSERT INTO t VALUES (0, 1)")
    with pytest.raises(InvalidPropertyError, match="existing rows"):
        do_lightly("ALTER TABLE t SET TBLPROPERTIES ('Delta.constraints.k' = 'k > 0')")
    with pytest.raises(InvalidSchemaError, match="Positive"):
        do_lightly("ALTER TABLE t RENAME COLUMN id TO i")
    do_lightly("ALTER TABLE t DROP CONSTRAINT positive")
    do_lightly("INSERT INTO t VALUES (0, 1)")
